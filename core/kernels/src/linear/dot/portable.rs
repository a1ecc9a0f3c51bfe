//! One output after the other, from the order of [`pairs`].

use super::{Dot, pairs};
use crate::linear::activations::Step;
use crate::linear::codes::{Codes, STEP};
use crate::simd::{LANES, Portable};

impl Dot for Portable {
    type Acc = [i32; LANES];
    type Unpacked = [[u8; STEP]; LANES];

    #[inline(always)]
    fn zero(self) -> Self::Acc {
        [0; LANES]
    }
    #[inline(always)]
    fn arrange(self, x: Self::I) -> [Step; 2] {
        pairs(self, x)
    }
    #[inline(always)]
    fn unpack_nibbles(self, p: &[u8; 64]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::Nibble.get(p, lane))
    }
    #[inline(always)]
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::E2m1.get(p, lane))
    }
    #[inline(always)]
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::Byte.get(p, lane))
    }
    #[inline(always)]
    fn dot<const N: usize>(self, acc: &mut [Self::Acc; N], codes: &[Self::Unpacked; N], x: &Step) {
        let lanes = acc.as_flattened_mut().iter_mut().zip(codes.as_flattened());
        for (acc, codes) in lanes {
            for (t, first) in [0, 1, 4, 5].into_iter().enumerate() {
                *acc += i32::from(codes[first]) * i32::from(x[t] as i16);
                *acc += i32::from(codes[first + 2]) * i32::from((x[t] >> 16) as i16);
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::I {
        acc
    }
}
