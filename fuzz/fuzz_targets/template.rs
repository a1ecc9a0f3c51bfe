//! See `conformance::fuzz::template`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conformance::fuzz::template(bytes));
