//! Activations as 16-bit integers ("A16"), the left side of the quantized product.
//!
//! Per row and weight group: the smallest scale `2^e` with `|x| / 2^e <= 32639`, and `x_int = round(x /
//! 2^e)`, ties to even. 32639 is the greatest value that splits into signed bytes, `x_int = 256 hi + lo`.
//! Elements within `2^7` of the group's maximum are exact if they are bf16 values; relative to the maximum
//! the error is below `2^-15`. `e` is at least -120, so magnitudes up to `2^-121` count as zero.

use crate::pool::Base;
use crate::simd::LANES;
use crate::{Exec, dispatch};

use super::codes::STEP;
use super::dot::Dot;

/// Greatest magnitude that splits into two signed bytes: `127 * 256 + 127`.
const LIMIT: f32 = 32639.0;

/// Below this many elements one thread quantizes faster than several.
const PARALLEL: usize = 4 * 1024;

/// Scale and scaled sum of one group of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupScale {
    /// `2^e`.
    pub(super) scale: f32,
    /// `2^e * sum(x_int)`, exact.
    pub(super) sum: f32,
}

/// 8 activations in the order that an instruction set's dot product wants ([`Dot::arrange`]).
pub(super) type Step = [u32; 4];

/// Buffers that a quantized product reuses between calls.
#[derive(Debug, Default)]
pub struct LinearScratch {
    /// `[rows, in / 8]`.
    pub(super) steps: Vec<Step>,
    /// `[rows, in / group]`.
    pub(super) groups: Vec<GroupScale>,
}

impl LinearScratch {
    /// Quantizes `x` (`[rows, inputs]`). A row with a NaN or an infinity gets NaN for all its scales.
    pub(super) fn quantize(&mut self, exec: &Exec, x: &[f32], inputs: usize, group: usize) {
        let rows = x.len() / inputs;
        let (row_steps, row_groups) = (inputs / STEP, inputs / group);
        self.steps.resize(rows * row_steps, Step::default());
        self.groups.resize(rows * row_groups, GroupScale::default());
        let (steps, groups) = (Base(self.steps.as_mut_ptr()), Base(self.groups.as_mut_ptr()));
        let one = |row: usize| {
            let x = &x[row * inputs..][..inputs];
            // SAFETY: the parts of different rows are disjoint and within the buffers; each row is visited
            // once.
            let (steps, groups) = unsafe {
                (
                    std::slice::from_raw_parts_mut(steps.at(row * row_steps), row_steps),
                    std::slice::from_raw_parts_mut(groups.at(row * row_groups), row_groups),
                )
            };
            dispatch!(exec.isa, |s| quantize_row(s, x, steps, groups));
        };
        if rows * inputs < PARALLEL {
            (0..rows).for_each(one);
        } else {
            exec.pool.run(rows, one);
        }
    }
}

#[inline(always)]
fn quantize_row<S: Dot>(s: S, x: &[f32], steps: &mut [Step], groups: &mut [GroupScale]) {
    let group = x.len() / groups.len();
    let mut finite = true;
    let chunks = x.chunks_exact(group).zip(steps.chunks_exact_mut(group / STEP));
    for ((x, steps), out) in chunks.zip(groups.iter_mut()) {
        let (x, _) = x.as_chunks::<LANES>();
        // As integers, magnitudes are ordered like the floats, with infinity and NaN above all others.
        let mut max = s.splat_i(0);
        for x in x {
            max = s.max_i(max, s.bits(s.abs(s.load(x))));
        }
        let max = s.reduce_max_i(max);
        finite &= max < f32::INFINITY.to_bits() as i32;
        let shift = shift_of(max);
        let inverse = s.splat(power_of_two(-shift));
        let mut sum = s.splat_i(0);
        for (x, steps) in x.iter().zip(steps.as_chunks_mut::<2>().0) {
            let v = s.to_i32(s.mul(s.load(x), inverse));
            sum = s.add_i(sum, v);
            *steps = s.arrange(v);
        }
        let scale = power_of_two(shift);
        *out = GroupScale { scale, sum: scale * s.reduce_add_i(sum) as f32 };
    }
    if !finite {
        groups.fill(GroupScale { scale: f32::NAN, sum: f32::NAN });
    }
}

/// `e` for a group whose greatest magnitude has these bits.
#[inline(always)]
fn shift_of(max: i32) -> i32 {
    // max < 2^exponent, so max / 2^(exponent - 15) < 2^15. At -120 the inverse is still a normal number.
    let exponent = (max >> 23) - 126;
    let shift = (exponent - 15).max(-120);
    if f32::from_bits(max as u32) * power_of_two(-shift) > LIMIT { shift + 1 } else { shift }
}

/// `2^n`, `-126 <= n <= 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((127 + n) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::linear::{dot::BYTE, register::Register as _};

    /// Undoes [`Dot::arrange`] through the dot product itself: a weight of 1 at one input, 0 elsewhere.
    fn integers(isa: Isa, steps: &[Step]) -> Vec<i32> {
        let one = |step: &Step, k: usize| {
            let mut codes = [0u8; 128];
            codes[64 * (k / 4) + k % 4] = 1;
            dispatch!(isa, |s| {
                let mut lanes = [0.0];
                let mut acc = [[s.zero()]];
                // SAFETY: a whole step of bytes.
                unsafe { s.dots::<BYTE, 1, 1>(&mut acc, [codes.as_ptr()], [step]) };
                s.write(&mut lanes, s.total(acc[0][0]));
                lanes[0] as i32
            })
        };
        steps.iter().flat_map(|step| (0..STEP).map(|k| one(step, k)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn integers_are_the_rounded_activations_at_the_smallest_scale() {
        let patterns: [fn(usize) -> f32; 6] = [
            |i| (i as f32 - 15.0) / 3.0,
            |i| if i == 5 { 32639.4 } else { -(i as f32) },
            |i| if i == 5 { -32640.0 } else { i as f32 + 0.5 },
            |i| i as f32 * 1e37,
            |i| i as f32 * 1e-44,
            |_| 0.0,
        ];
        for isa in Isa::available() {
            for pattern in patterns {
                let x: Vec<f32> = (0..32).map(pattern).collect();
                let mut scratch = LinearScratch::default();
                scratch.quantize(&Exec::new(isa, 1), &x, 32, 32);
                let GroupScale { scale, sum } = scratch.groups[0];
                let got = integers(isa, &scratch.steps);
                let expected = x.iter().map(|&v| (f64::from(v) / f64::from(scale)).round_ties_even() as i32);
                assert_eq!(got, expected.collect::<Vec<_>>(), "{}", isa.name());
                assert!(got.iter().all(|v| v.abs() <= 32639));
                let max = x.iter().fold(0f64, |max, &v| max.max(f64::from(v).abs()));
                assert!(
                    max / f64::from(scale / 2.0) > 32639.0 || scale == power_of_two(-120),
                    "scale too large"
                );
                assert_eq!(sum, scale * got.iter().sum::<i32>() as f32);
            }
        }
    }

    #[test]
    fn a_row_that_is_not_finite_poisons_only_itself() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![1.0; 3 * 64];
            x[64 + 63] = bad;
            let mut scratch = LinearScratch::default();
            scratch.quantize(&Exec::current(), &x, 64, 32);
            let nan: Vec<bool> = scratch.groups.iter().map(|g| g.scale.is_nan() && g.sum.is_nan()).collect();
            assert_eq!(nan, [false, false, true, true, false, false]);
        }
    }
}
