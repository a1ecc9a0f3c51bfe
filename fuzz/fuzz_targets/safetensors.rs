//! See `conformance::fuzz::safetensors`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conformance::fuzz::safetensors(bytes));
