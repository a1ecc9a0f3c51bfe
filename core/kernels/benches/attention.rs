//! Attention over a context: rows x context x head size x storage, in bytes of keys and values a second, beside the
//! machine's read limit; and a prompt on an empty context, in tokens a second.
//!
//! `cargo bench -p mlxcel-kernels --bench attention`. 16 query heads on 8 key/value heads, causal.

mod common;

use common::{WORKING_SET, config, stream, values};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mlxcel_kernels::attention::{KvBuffer, KvDtype, Mask, attend};
use mlxcel_kernels::{Exec, Heads};

const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const ROWS: [usize; 5] = [1, 2, 4, 8, 16];
const CONTEXTS: [usize; 3] = [256, 1024, 4096];
const HEAD_SIZES: [usize; 3] = [64, 128, 256];

/// `context` positions and those of `rows` queries after them.
fn filled(context: usize, rows: usize, dim: usize, dtype: KvDtype) -> KvBuffer {
    let kv = values((context + rows) * KV_HEADS * dim);
    let mut buffer = KvBuffer::new(KV_HEADS, dim, dtype);
    buffer.append(0, Heads::packed(&kv, KV_HEADS, dim), Heads::packed(&kv, KV_HEADS, dim));
    buffer
}

fn blocks(c: &mut Criterion) {
    let exec = Exec::current();
    for dim in HEAD_SIZES {
        for (dtype, size) in [(KvDtype::F32, 4), (KvDtype::Bf16, 2)] {
            for context in CONTEXTS {
                let bytes = context * KV_HEADS * dim * 2 * size;
                // As many layers as a working set has, up to those of a large model.
                let layers = (WORKING_SET / bytes).clamp(1, 32);
                let mut group = c.benchmark_group(format!("attention/{dtype:?}/D{dim}/T{context}"));
                group.throughput(Throughput::Bytes(bytes as u64)).sample_size(20);
                for rows in ROWS {
                    let buffers: Vec<KvBuffer> =
                        (0..layers).map(|_| filled(context, rows, dim, dtype)).collect();
                    let q = values(rows * HEADS * dim);
                    let (mut out, mut turn) = (vec![0.0; q.len()], 0);
                    group.bench_function(BenchmarkId::from_parameter(rows), |b| {
                        b.iter(|| {
                            let (q, kv) = (Heads::packed(&q, HEADS, dim), &buffers[turn % layers]);
                            attend(&exec, q, kv, context, Mask::CAUSAL, 0.125, &mut out);
                            turn += 1;
                        });
                    });
                }
                group.finish();
            }
        }
    }
}

fn prompts(c: &mut Criterion) {
    let exec = Exec::current();
    for dim in HEAD_SIZES {
        let mut group = c.benchmark_group(format!("prompt/F32/D{dim}"));
        for rows in [64, 512] {
            let (kv, q) = (filled(0, rows, dim, KvDtype::F32), values(rows * HEADS * dim));
            let mut out = vec![0.0; q.len()];
            group.throughput(Throughput::Elements(rows as u64)).sample_size(20);
            group.bench_function(BenchmarkId::from_parameter(rows), |b| {
                b.iter(|| {
                    attend(&exec, Heads::packed(&q, HEADS, dim), &kv, 0, Mask::CAUSAL, 0.125, &mut out);
                });
            });
        }
        group.finish();
    }
}

criterion_group! { name = benches; config = config(); targets = stream, blocks, prompts }
criterion_main!(benches);
