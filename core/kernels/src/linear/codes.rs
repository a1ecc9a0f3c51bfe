//! Weight codes: from the checkpoint's bit string to the packed layout, and back for one row.
//!
//! Packed codes of one group and block: per step of 8 inputs, lane `i` (4 bytes) of a 64-byte vector is
//! output `i`. Nibbles: one vector, byte `t` holds input `t` (low) and `4 + t` (high). Bytes: two vectors,
//! inputs `0..4` and `4..8`.

use super::format::E2M1_DOUBLED;
use crate::simd::LANES;

/// Inputs of a step.
pub(super) const STEP: usize = 8;

/// Storage of packed codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codes {
    /// Unsigned 4 bit.
    Nibble,
    /// Unsigned 8 bit.
    Byte,
    /// E2M1 in 4 bit; stands for the unsigned integer [`E2M1_BIASED`].
    E2m1,
}

/// `2 * e2m1(code) + 12`: E2M1 as unsigned integers, so that the affine kernel applies.
pub(super) const E2M1_BIASED: [u8; 16] = {
    let mut table = [0; 16];
    let mut code = 0;
    while code < 16 {
        table[code] = (E2M1_DOUBLED[code] + 12) as u8;
        code += 1;
    }
    table
};

impl Codes {
    /// Bytes of a step of 8 inputs x 16 outputs.
    pub(super) const fn step_bytes(self) -> usize {
        match self {
            Codes::Nibble | Codes::E2m1 => 64,
            Codes::Byte => 128,
        }
    }

    /// Writes the codes of one step, a byte each, for output `lane`. `step`: `step_bytes` of a block.
    #[inline(always)]
    fn put(self, step: &mut [u8], lane: usize, codes: u64) {
        let (low, high) = (codes as u32, (codes >> 32) as u32);
        let mut word = |at: usize, word: u32| step[at..at + 4].copy_from_slice(&word.to_le_bytes());
        match self {
            Codes::Nibble | Codes::E2m1 => word(4 * lane, low | high << 4),
            Codes::Byte => {
                word(4 * lane, low);
                word(64 + 4 * lane, high);
            }
        }
    }

    /// Reads what [`put`](Codes::put) wrote, as the unsigned integers that the kernel multiplies.
    pub(super) fn get(self, step: &[u8], lane: usize) -> [u8; STEP] {
        std::array::from_fn(|k| {
            let byte = step[4 * lane + k % 4];
            let nibble = if k < 4 { byte & 15 } else { byte >> 4 };
            match self {
                Codes::Nibble => nibble,
                Codes::E2m1 => E2M1_BIASED[nibble as usize],
                Codes::Byte => step[64 * (k / 4) + 4 * lane + k % 4],
            }
        })
    }
}

/// Writes one group of output `lane`: `bits` is the group's part of the row's bit string, `width` bits a code
/// (`group * width` is a multiple of 8); `out` is the group's codes in the block.
pub(super) fn pack_group(codes: Codes, out: &mut [u8], lane: usize, bits: &[u8], width: usize) {
    debug_assert!(lane < LANES);
    match width {
        4 => pack::<4>(codes, out, lane, bits),
        8 => pack::<8>(codes, out, lane, bits),
        2 => pack::<2>(codes, out, lane, bits),
        3 => pack::<3>(codes, out, lane, bits),
        5 => pack::<5>(codes, out, lane, bits),
        _ => pack::<6>(codes, out, lane, bits),
    }
}

/// 8 codes of `W` bits are `W` bytes.
fn pack<const W: usize>(codes: Codes, out: &mut [u8], lane: usize, bits: &[u8]) {
    for (step, source) in out.chunks_exact_mut(codes.step_bytes()).zip(bits.as_chunks::<W>().0) {
        let mut word = [0; 8];
        word[..W].copy_from_slice(source);
        codes.put(step, lane, spread::<W>(u64::from_le_bytes(word)));
    }
}

/// Moves 8 codes of `W` bits to a byte each.
#[inline(always)]
fn spread<const W: usize>(word: u64) -> u64 {
    if W == 8 {
        return word;
    }
    if W == 4 {
        let word = (word | word << 16) & 0x0000_ffff_0000_ffff;
        let word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
        return (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    }
    (0..8).fold(0, |bytes, k| bytes | (word >> (k * W) & (0xff >> (8 - W))) << (8 * k))
}
