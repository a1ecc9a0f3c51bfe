//! One output after the other, from the order of [`pairs`].

use super::{BYTE, Dot, E2M1, pairs};
use crate::linear::activations::Step;
use crate::linear::codes::Codes;
use crate::simd::{LANES, Portable, Simd};

impl Dot for Portable {
    type Acc = [i32; LANES];

    #[inline(always)]
    fn zero(self) -> Self::Acc {
        [0; LANES]
    }
    #[inline(always)]
    fn arrange(self, x: Self::I) -> [Step; 2] {
        pairs(self, x)
    }
    #[inline(always)]
    unsafe fn dots<const CODES: u8, const M: usize, const C: usize>(
        self,
        acc: &mut [[Self::Acc; C]; M],
        at: [*const u8; C],
        x: [&Step; M],
    ) {
        let format = match CODES {
            BYTE => Codes::Byte,
            E2M1 => Codes::E2m1,
            _ => Codes::Nibble,
        };
        for (c, &at) in at.iter().enumerate() {
            // SAFETY: the caller's promise.
            let step = unsafe { std::slice::from_raw_parts(at, format.step_bytes()) };
            for lane in 0..LANES {
                let codes = format.get(step, lane).map(i32::from);
                for (acc, x) in acc.iter_mut().zip(x) {
                    for (first, &x) in [0, 1, 4, 5].into_iter().zip(x) {
                        acc[c][lane] += codes[first] * i32::from(x as i16);
                        acc[c][lane] += codes[first + 2] * i32::from((x >> 16) as i16);
                    }
                }
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::F {
        self.to_f32(acc)
    }
}
