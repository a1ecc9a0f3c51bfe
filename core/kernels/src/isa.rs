//! The instruction set, chosen once per process.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernels are compiled for. All of them give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI (and everything of [`Isa::Avx2`]).
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// Plain Rust, any machine. Slow where the target has no fused multiply-add.
    Portable,
}

/// An instruction set was asked for that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The name is none of [`Isa::name`].
    #[error("unknown instruction set {0:?}; expected avx512, avx2 or portable")]
    Unknown(String),
    /// This machine lacks it.
    #[error("instruction set {} is not available on this machine; available: {}", .0.name(), names())]
    Unavailable(Isa),
}

fn names() -> String {
    Isa::available().iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ")
}

impl Isa {
    /// All instruction sets, fastest first.
    pub const ALL: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Portable];

    /// The fastest one this machine has.
    pub fn detect() -> Isa {
        Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    /// Those this machine has, fastest first; never empty.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Whether this machine has it. Cheap: a cached flag.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => crate::simd::Avx512::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => crate::simd::Avx2::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 | Isa::Avx2 => false,
            Isa::Portable => true,
        }
    }

    /// Its name in flags and reports: `avx512`, `avx2`, `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }

    /// The instruction set of that [`name`](Isa::name), if this machine has it.
    pub fn parse(name: &str) -> Result<Isa, IsaError> {
        let isa = Isa::ALL.into_iter().find(|isa| isa.name() == name);
        let isa = isa.ok_or_else(|| IsaError::Unknown(name.to_owned()))?;
        if isa.is_available() { Ok(isa) } else { Err(IsaError::Unavailable(isa)) }
    }
}

/// 0 = not chosen yet, else 1 + index into [`Isa::ALL`].
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The process-wide instruction set: [`Isa::detect`] on first use, unless [`force_isa`] came before.
pub fn isa() -> Isa {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => {
            let found = Isa::detect();
            CHOSEN.store(code(found), Ordering::Relaxed);
            found
        }
        n => Isa::ALL[n as usize - 1],
    }
}

/// Sets the process-wide instruction set (for flags and tests).
pub fn force_isa(isa: Isa) -> Result<(), IsaError> {
    if !isa.is_available() {
        return Err(IsaError::Unavailable(isa));
    }
    CHOSEN.store(code(isa), Ordering::Relaxed);
    Ok(())
}

fn code(isa: Isa) -> u8 {
    Isa::ALL.iter().position(|&i| i == isa).map_or(0, |i| i as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_names_are_refused() {
        for isa in Isa::available() {
            assert_eq!(Isa::parse(isa.name()), Ok(isa));
        }
        assert_eq!(Isa::parse("sse9"), Err(IsaError::Unknown("sse9".to_owned())));
        assert!(Isa::available().contains(&Isa::Portable));
        assert_eq!(Isa::available()[0], Isa::detect());
    }

    #[test]
    fn a_forced_choice_holds() {
        for isa in Isa::available().into_iter().rev() {
            force_isa(isa).unwrap();
            assert_eq!(super::isa(), isa);
        }
    }
}
