//! bf16 and f16 as bits, one value at a time; the same results as the vector forms.

/// Widens a bf16, exact; NaN payloads are kept.
#[inline(always)]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Rounds to bf16, nearest even; NaN becomes the quiet NaN `0x7fc0`.
#[inline(always)]
pub const fn f32_to_bf16(v: f32) -> u16 {
    if v.is_nan() {
        return 0x7fc0;
    }
    let bits = v.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// Widens an f16 (IEEE binary16), exact; a signalling NaN becomes quiet, as F16C does.
#[inline(always)]
pub const fn f16_to_f32(bits: u16) -> f32 {
    let sign = ((bits as u32) & 0x8000) << 16;
    let exponent = ((bits >> 10) & 31) as u32;
    let fraction = (bits & 0x3ff) as u32;
    let magnitude = match (exponent, fraction) {
        (0, _) => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(), // fraction * 2^-24, exact
        (31, 0) => 0x7f80_0000,
        (31, _) => 0x7fc0_0000 | (fraction << 13),
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}
