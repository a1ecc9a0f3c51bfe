//! See `conformance::fuzz::tokenizer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conformance::fuzz::tokenizer(bytes));
