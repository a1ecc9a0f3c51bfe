//! The kernels between the products of a layer: rows x kernel, in bytes read and written a second. At one row they are
//! short against a product, and what counts is that none stands out.
//!
//! `cargo bench -p mlxcel-kernels --bench ops`. Shapes of LFM2-350M; the delta step is that of Qwen 3.5 0.8B.

mod common;

use common::{config, stream, values};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mlxcel_kernels::conv::ShortConv;
use mlxcel_kernels::delta::{DeltaRows, DeltaShape, step};
use mlxcel_kernels::rope::{Rope, RopeStyle};
use mlxcel_kernels::{Exec, Heads, activation, norm};

const HIDDEN: usize = 1024;
const FEED_FORWARD: usize = 4608;
const ROWS: [usize; 5] = [1, 2, 4, 8, 512];

/// Measures `run(rows, ...)`, which reads and writes `width` values a row.
fn measure(c: &mut Criterion, name: &str, width: usize, run: impl Fn(usize) -> Box<dyn FnMut()>) {
    let mut group = c.benchmark_group(name);
    group.sample_size(20);
    for rows in ROWS {
        let mut call = run(rows);
        group.throughput(Throughput::Bytes((rows * width * 4) as u64));
        group.bench_function(BenchmarkId::from_parameter(rows), |b| b.iter(&mut call));
    }
    group.finish();
}

fn ops(c: &mut Criterion) {
    measure(c, "rms_norm", 2 * HIDDEN, |rows| {
        let (x, w, mut out) = (values(rows * HIDDEN), values(HIDDEN), vec![0.0; rows * HIDDEN]);
        let exec = Exec::current();
        Box::new(move || norm::rms_norm(&exec, Heads::rows_of(&x, HIDDEN), Some(&w), 1e-5, &mut out))
    });
    measure(c, "add_rms_norm", 3 * HIDDEN, |rows| {
        let (mut h, r, w) = (values(rows * HIDDEN), vec![0.0; rows * HIDDEN], values(HIDDEN));
        let (mut out, exec) = (r.clone(), Exec::current());
        Box::new(move || norm::add_rms_norm(&exec, &mut h, &r, HIDDEN, Some(&w), 1e-5, &mut out))
    });
    measure(c, "silu_mul", 3 * FEED_FORWARD, |rows| {
        let (x, mut out) = (values(rows * 2 * FEED_FORWARD), vec![0.0; rows * FEED_FORWARD]);
        let exec = Exec::current();
        Box::new(move || activation::silu_mul(&exec, &x, FEED_FORWARD, &mut out))
    });
    measure(c, "rope", 2 * HIDDEN, |rows| {
        let (rope, mut x, exec) =
            (Rope::new(1e6, 64, RopeStyle::HalfSplit), values(rows * HIDDEN), Exec::current());
        Box::new(move || rope.apply(&exec, &mut x, HIDDEN / 64, 64, 256))
    });
    measure(c, "short_conv", 4 * HIDDEN, |rows| {
        let (conv, x) = (ShortConv::new(&values(HIDDEN * 3), HIDDEN, None), values(rows * 3 * HIDDEN));
        let (mut history, mut out) = (vec![0.0; (2 + rows) * HIDDEN], vec![0.0; rows * HIDDEN]);
        let exec = Exec::current();
        Box::new(move || conv.gated(&exec, &x, &mut history, &mut out))
    });
    let shape = DeltaShape::new(16, 16, 128, 128);
    measure(c, "delta_step", shape.qkv_width() + shape.out_width(), |rows| {
        let (qkv, gate) = (values(rows * shape.qkv_width()), vec![0.5; rows * 16]);
        let (from, mut to) = (vec![0.0; shape.state_len()], vec![0.0; shape.state_len()]);
        let (mut out, exec) = (vec![0.0; rows * shape.out_width()], Exec::current());
        Box::new(move || {
            let rows = DeltaRows { qkv: &qkv, alpha: &gate, beta: &gate };
            step(&exec, shape, rows, Some(&from), &mut to, Some(&mut out));
        })
    });
}

criterion_group! { name = benches; config = config(); targets = stream, ops }
criterion_main!(benches);
