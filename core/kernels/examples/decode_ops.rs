//! Times the kernels of a decode step other than the linear products: `cargo run --release --example decode_ops`.
//!
//! Prints the minimum over many calls, in microseconds, for 1, 2, 4 and 8 rows. Attention: 16 query heads, 8 key/value heads of
//! 64 (LFM2-350M), buffers alternate so that keys come from beyond the L2 cache. Delta: 16 heads of 128 x 128 (Qwen 3.5 0.8B).

use std::time::Instant;

use mlxcel_kernels::attention::{KvBuffer, KvDtype, Mask, attend};
use mlxcel_kernels::delta::{DeltaRows, DeltaShape, step};
use mlxcel_kernels::{Exec, Heads, Isa, activation, norm};

const ROWS: [usize; 4] = [1, 2, 4, 8];

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    for isa in Isa::available() {
        let exec = Exec::new(isa, threads);
        println!("{} on {threads} threads, us at {ROWS:?} rows", isa.name());
        for dtype in [KvDtype::Bf16, KvDtype::F32] {
            for length in [256, 1024, 4096] {
                report(&format!("attention {dtype:?} T={length}"), |rows| {
                    attention(&exec, dtype, length, rows)
                });
            }
        }
        report("delta step", |rows| delta(&exec, rows));
        report("norm 1024", |rows| {
            let (x, w, mut out) = (values(rows * 1024), values(1024), vec![0.0; rows * 1024]);
            minimum(|_| norm::rms_norm(&exec, Heads::rows_of(&x, 1024), Some(&w), 1e-5, &mut out))
        });
        report("silu_mul 4608", |rows| {
            let (x, mut out) = (values(rows * 9216), vec![0.0; rows * 4608]);
            minimum(|_| activation::silu_mul(&exec, &x, 4608, &mut out))
        });
        if isa == Isa::Avx512 {
            println!(
                "  attention F32, 512 rows on an empty context: {:.0}",
                attention(&exec, KvDtype::F32, 0, 512)
            );
        }
    }
}

fn report(name: &str, time: impl Fn(usize) -> f64) {
    let times: Vec<String> = ROWS.iter().map(|&rows| format!("{:8.1}", time(rows))).collect();
    println!("  {name:24} {}", times.join(" "));
}

/// Shortest of many calls, in microseconds.
fn minimum(mut call: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    let (mut best, mut n) = (f64::INFINITY, 0);
    while n < 8 || (n < 2000 && begin.elapsed().as_millis() < 150) {
        let start = Instant::now();
        call(n);
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
        n += 1;
    }
    best
}

/// Arbitrary values in [-0.5, 0.5].
fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as u16 as f32 / 65535.0 - 0.5).collect()
}

fn attention(exec: &Exec, dtype: KvDtype, context: usize, rows: usize) -> f64 {
    let length = context + rows;
    let (q, kv) = (values(rows * 16 * 64), values(length * 8 * 64));
    let layers: Vec<KvBuffer> = (0..6)
        .map(|_| {
            let mut buffer = KvBuffer::new(8, 64, dtype);
            buffer.append(0, Heads::packed(&kv, 8, 64), Heads::packed(&kv, 8, 64));
            buffer
        })
        .collect();
    let mut out = vec![0.0; q.len()];
    minimum(|n| {
        attend(exec, Heads::packed(&q, 16, 64), &layers[n % 6], context, Mask::CAUSAL, 0.125, &mut out);
    })
}

fn delta(exec: &Exec, rows: usize) -> f64 {
    let shape = DeltaShape::new(16, 16, 128, 128);
    let (qkv, gate) = (values(rows * shape.qkv_width()), vec![0.5; rows * 16]);
    let mut states: Vec<_> =
        (0..9).map(|_| (vec![0.0; shape.state_len()], vec![0.0; shape.state_len()])).collect();
    let mut out = vec![0.0; rows * shape.out_width()];
    let rows = DeltaRows { qkv: &qkv, alpha: &gate, beta: &gate };
    minimum(|n| {
        let (from, to) = &mut states[n % 9];
        step(exec, shape, rows, Some(from), to, Some(&mut out));
    })
}
