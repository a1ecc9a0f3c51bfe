//! Rotary position embedding.

use crate::{Exec, dispatch, math, rows::by_rows, simd::Simd};

mod frequency;

/// Values of work that make it worth waking another thread.
const SPLIT: usize = 16 * 1024;

/// Which values of a head form the pair that one angle turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(i, i + dims/2)`: NeoX, MLX `traditional = false`.
    HalfSplit,
    /// `(2i, 2i + 1)`: GPT-J, MLX `traditional = true` (LFM2.5 DSpark drafters).
    Interleaved,
}

/// Rotary embedding of the first `dims` values of each head; the others pass through (partial rotary).
///
/// Pair i of position p turns by p · base^(-2i/dims), a product in f32; sine and cosine stay f32.
#[derive(Clone, Debug)]
pub struct Rope {
    /// `[dims/2]`, padded with zeros to whole vectors.
    frequencies: Vec<[f32; 16]>,
    dims: usize,
    style: RopeStyle,
}

impl Rope {
    /// # Panics
    /// If `dims` is odd or 0, or `base` is not a positive number.
    pub fn new(base: f64, dims: usize, style: RopeStyle) -> Self {
        assert!(
            dims > 0 && dims.is_multiple_of(2),
            "rope over {dims} values; expected a positive even number"
        );
        assert!(base.is_finite() && base > 0.0, "rope base {base}; expected a positive number");
        let mut frequencies = vec![[0.0; 16]; (dims / 2).div_ceil(16)];
        for (i, f) in frequencies.as_flattened_mut()[..dims / 2].iter_mut().enumerate() {
            *f = frequency::inverse(base, 2 * i, dims);
        }
        Self { frequencies, dims, style }
    }

    /// Turns `x` `[rows, heads, head_dim]` in place; row r is at absolute position `start + r`.
    ///
    /// # Panics
    /// If `x` is no whole number of rows or a head is narrower than `dims`.
    pub fn apply(&self, exec: &Exec, x: &mut [f32], heads: usize, head_dim: usize, start: usize) {
        assert!(head_dim >= self.dims, "rope over {} values of heads of {head_dim}", self.dims);
        by_rows(exec, x, heads * head_dim, SPLIT, |rows, x| {
            dispatch!(exec.isa, |s| {
                let half = self.dims / 2;
                // The angles of a row are the same in all its heads.
                let mut sin = vec![[0.0; 16]; self.frequencies.len()];
                let mut cos = sin.clone();
                for (row, x) in rows.zip(x.chunks_exact_mut(heads * head_dim)) {
                    let position = s.splat((start + row) as f32);
                    for ((f, sin), cos) in self.frequencies.iter().zip(&mut sin).zip(&mut cos) {
                        let (sine, cosine) = math::sin_cos(s, s.mul(position, s.load(f)));
                        s.store(sin, sine);
                        s.store(cos, cosine);
                    }
                    let (sin, cos) = (&sin.as_flattened()[..half], &cos.as_flattened()[..half]);
                    for head in x.chunks_exact_mut(head_dim) {
                        turn(self.style, &mut head[..self.dims], sin, cos);
                    }
                }
            });
        });
    }
}

/// One head: scalar operations that are exact everywhere, left to the compiler to vectorise.
#[inline(always)]
fn turn(style: RopeStyle, x: &mut [f32], sin: &[f32], cos: &[f32]) {
    match style {
        RopeStyle::HalfSplit => {
            let (a, b) = x.split_at_mut(sin.len());
            for (((a, b), &sin), &cos) in a.iter_mut().zip(b).zip(sin).zip(cos) {
                (*a, *b) = rotate(*a, *b, sin, cos);
            }
        }
        RopeStyle::Interleaved => {
            for ((pair, &sin), &cos) in x.as_chunks_mut::<2>().0.iter_mut().zip(sin).zip(cos) {
                let (a, b) = rotate(pair[0], pair[1], sin, cos);
                *pair = [a, b];
            }
        }
    }
}

#[inline(always)]
fn rotate(a: f32, b: f32, sin: f32, cos: f32) -> (f32, f32) {
    (a.mul_add(cos, -(b * sin)), b.mul_add(cos, a * sin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, noise, same, ways};

    fn reference(
        x: &[f32],
        base: f64,
        dims: usize,
        style: RopeStyle,
        heads: usize,
        dim: usize,
        start: usize,
    ) -> Vec<f64> {
        let mut y: Vec<f64> = x.iter().map(|&v| v as f64).collect();
        for (i, head) in y.chunks_mut(dim).enumerate() {
            let position = (start + i / heads) as f32;
            for pair in 0..dims / 2 {
                let frequency = base.powf(-2.0 * pair as f64 / dims as f64) as f32;
                let angle = (position * frequency) as f64;
                let (a, b) = match style {
                    RopeStyle::HalfSplit => (pair, pair + dims / 2),
                    RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                };
                let (va, vb) = (head[a], head[b]);
                head[a] = va * angle.cos() - vb * angle.sin();
                head[b] = vb * angle.cos() + va * angle.sin();
            }
        }
        y
    }

    #[test]
    fn matches_f64_at_every_position_and_has_one_set_of_bits() {
        for (dims, dim, base) in [(64, 64, 1e6), (64, 256, 1e7), (8, 32, 1e7), (128, 128, 5e5), (20, 24, 1e4)]
        {
            for style in [RopeStyle::HalfSplit, RopeStyle::Interleaved] {
                let rope = Rope::new(base, dims, style);
                for start in [0, 1, 4093, 262_000] {
                    let x = noise(start as u64, 20 * 3 * dim);
                    let mut first: Option<Vec<f32>> = None;
                    for exec in ways() {
                        let mut y = x.clone();
                        rope.apply(&exec, &mut y, 3, dim, start);
                        close(&y, &reference(&x, base, dims, style, 3, dim, start), 3e-7, "rope");
                        same(&y, first.get_or_insert_with(|| y.clone()), "ways");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_depends_on_its_position_only() {
        let rope = Rope::new(1e6, 64, RopeStyle::HalfSplit);
        let (heads, dim, rows) = (4, 64, 512);
        let x = noise(5, rows * heads * dim);
        for exec in ways() {
            let mut all = x.clone();
            rope.apply(&exec, &mut all, heads, dim, 100);
            for count in 1..=17 {
                let at = 3 * count * heads * dim..4 * count * heads * dim;
                let mut some = x[at.clone()].to_vec();
                rope.apply(&exec, &mut some, heads, dim, 100 + 3 * count);
                same(&some, &all[at], "rows");
            }
        }
    }
}
