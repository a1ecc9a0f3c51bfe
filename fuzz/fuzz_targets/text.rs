//! See `conformance::fuzz::text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conformance::fuzz::text(bytes));
