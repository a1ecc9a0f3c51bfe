//! See `conformance::fuzz::tokenizer`.

#![no_main]

use std::{panic::set_hook, sync::Once};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Panics of the library are caught and are refusals; one that is not caught still ends the run.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| set_hook(Box::new(|_| ())));
    conformance::fuzz::tokenizer(bytes);
});
