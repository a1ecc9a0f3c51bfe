//! Every operation gives the same bits on every instruction set, special values included.

use super::{LANES, Simd, bf16_to_f32, f16_to_f32, f32_to_bf16};
use crate::{Isa, dispatch};

/// Values that tell implementations apart: zeros, ties, subnormals, limits, infinities, NaN.
const SPECIAL: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.4e38,
    -3.4e38,
    1e-40,
    -1e-45,
    2147483648.0,
    -2147483648.0,
    2147483520.0,
    1e10,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    1.0000001,
    0.99999994,
    16777217.0,
    0.1,
    1e20,
    1e-20,
    3.0,
    7.0,
    65504.0,
    65520.0,
    255.5,
    -127.5,
];

fn inputs(seed: u64, n: usize) -> Vec<[f32; LANES]> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let value = |r: u32, q: u32| match r % 3 {
        0 => SPECIAL[(q % 32) as usize],
        1 => f32::from_bits(q.wrapping_mul(2654435761)),
        _ => (q as f32 / 1e9 - 1.0) * 4.0,
    };
    (0..n).map(|_| std::array::from_fn(|_| value(next(), next()))).collect()
}

/// Bits with every NaN made equal.
fn canonical(v: f32) -> u32 {
    if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }
}

/// Every operation on three vectors, as bits.
#[inline(always)]
fn everything<S: Simd>(s: S, a: &[f32; LANES], b: &[f32; LANES], c: &[f32; LANES]) -> Vec<u32> {
    let mut out = Vec::new();
    let [va, vb, vc] = [s.load(a), s.load(b), s.load(c)];
    let (ia, ib, ic) = (s.bits(va), s.bits(vb), s.bits(vc));
    let bits = |p: &[f32; LANES]| p.map(|v| v.to_bits() as u16);
    let floats = [
        s.add(va, vb),
        s.sub(va, vb),
        s.mul(va, vb),
        s.div(va, vb),
        s.fma(va, vb, vc),
        s.sqrt(va),
        s.max(va, vb),
        s.min(va, vb),
        s.abs(va),
        s.neg(va),
        s.select(s.lt(va, vb), va, vc),
        s.select(s.le(va, vb), va, vc),
        s.select(s.eq(va, va), vb, vc),
        s.select(s.is_nan(va), vb, vc),
        s.select(s.first(5), va, vb),
        s.select(s.first(16), va, vb),
        s.to_f32(ia),
        s.of_bits(ib),
        s.splat(a[3]),
        s.load_bf16(&bits(a)),
        s.load_f16(&bits(a)),
        s.load_partial(&a[..7], 2.0),
        s.load_partial_bf16(&bits(a)[..3], 0x3f80),
    ];
    for v in floats {
        let mut lanes = [0.0; LANES];
        s.store(&mut lanes, v);
        out.extend(lanes.map(canonical));
    }
    let integers = [
        s.to_i32(va),
        s.add_i(ia, ib),
        s.sub_i(ia, ib),
        s.max_i(ia, ib),
        s.and_i(ia, ib),
        s.or_i(ia, ib),
        s.shl_i::<7>(ia),
        s.shr_i::<9>(ia),
        s.sar_i::<9>(ia),
        s.dot4(ic, ia, ib),
        s.splat_i(-7),
        s.load_i(&[3; LANES]),
        s.dot4(s.splat_i(0), s.splat_i(-1), s.splat_i(0x7f7f_7f7f)),
        s.dot4(s.splat_i(0), s.splat_i(-1), s.splat_i(-0x7f7f_7f80)),
    ];
    for v in integers {
        let (mut lanes, mut bytes, mut words) = ([0; LANES], [0; LANES], [0; LANES]);
        s.store_i(&mut lanes, v);
        s.store_i8(&mut bytes, v);
        s.store_i16(&mut words, v);
        out.extend(lanes.map(|v| v as u32));
        out.extend(bytes.map(|v| v as u32));
        out.extend(words.map(|v| v as u32));
        out.extend([s.reduce_add_i(v) as u32, s.reduce_max_i(v) as u32]);
    }
    let mut halves = [0; LANES];
    s.store_bf16(&mut halves, va);
    out.extend(halves.map(u32::from));
    let mut rest = [0.0; 3];
    s.store_partial(&mut rest, va);
    out.extend(rest.map(canonical));
    out.extend([canonical(s.reduce_add(va)), canonical(s.reduce_max(va))]);
    out.extend([s.any(s.lt(va, vb)), s.any(s.is_nan(va)), s.any(s.first(0))].map(u32::from));
    out
}

#[test]
fn every_operation_gives_the_same_bits_on_every_instruction_set() {
    let (a, b, c) = (inputs(1, 2000), inputs(2, 2000), inputs(3, 2000));
    for i in 0..a.len() {
        let expected = dispatch!(Isa::Portable, |s| everything(s, &a[i], &b[i], &c[i]));
        for isa in Isa::available() {
            let got = dispatch!(isa, |s| everything(s, &a[i], &b[i], &c[i]));
            assert_eq!(got, expected, "{} on {:?} {:?} {:?}", isa.name(), a[i], b[i], c[i]);
        }
    }
}

#[test]
fn half_conversions_agree_with_the_half_crate() {
    for bits in 0..=u16::MAX {
        let (b, f) = (half::bf16::from_bits(bits).to_f32(), half::f16::from_bits(bits).to_f32());
        assert_eq!(canonical(bf16_to_f32(bits)), canonical(b));
        assert_eq!(canonical(f16_to_f32(bits)), canonical(f));
    }
    for v in inputs(4, 4000).into_iter().flatten() {
        let expected = half::bf16::from_f32(v);
        let expected = if expected.is_nan() { 0x7fc0 } else { expected.to_bits() };
        assert_eq!(f32_to_bf16(v), expected, "{v:e}");
    }
}

#[test]
fn max_and_min_take_the_second_operand_when_unordered() {
    for isa in Isa::available() {
        let (mut low, mut high) = ([0.0; LANES], [0.0; LANES]);
        dispatch!(isa, |s| {
            s.store(&mut high, s.max(s.splat(f32::NAN), s.splat(1.0)));
            s.store(&mut low, s.min(s.splat(1.0), s.splat(f32::NAN)));
        });
        assert!(high == [1.0; LANES] && low.iter().all(|v| v.is_nan()), "{}", isa.name());
    }
}
