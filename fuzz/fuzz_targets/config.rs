//! See `conformance::fuzz::config`.

#![no_main]

use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conformance::fuzz::config(bytes));
