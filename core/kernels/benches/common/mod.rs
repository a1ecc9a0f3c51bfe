//! What the benches share: the machine's read limit, measured in the same minute, and made-up values.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use mlxcel_kernels::{Pool, pool};

/// Bytes of all copies of what a kernel reads from memory: more than any cache of a usual machine.
pub(crate) const WORKING_SET: usize = 400 << 20;

/// What all threads together read from memory: the limit of every kernel with few rows.
pub(crate) fn stream(c: &mut Criterion) {
    let data = vec![1u64; WORKING_SET / 8];
    let mut group = c.benchmark_group("stream");
    group.throughput(Throughput::Bytes(WORKING_SET as u64)).sample_size(10);
    let sum = |pool: &Pool| {
        let pieces: Vec<&[u64]> = data.chunks(1 << 15).collect();
        pool.run(pieces.len(), |i| {
            black_box(pieces[i].iter().fold(0u64, |sum, v| sum ^ v));
        });
    };
    group.bench_function("read", |b| b.iter(|| sum(&pool())));
    group.finish();
}

/// A second a measurement: there are many.
pub(crate) fn config() -> Criterion {
    let second = Duration::from_secs(1);
    Criterion::default().warm_up_time(second / 4).measurement_time(second)
}

/// Arbitrary values in -0.5 to 0.5.
pub(crate) fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as u16 as f32 / 65535.0 - 0.5).collect()
}
