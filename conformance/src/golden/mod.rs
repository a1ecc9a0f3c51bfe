//! Golden parity: outputs of independent reference implementations (transformers, mlx-lm, the authors' torch code) on
//! tiny random checkpoints, in `golden/<case>`.
//!
//! | key | meaning |
//! | --- | --- |
//! | `{one,short,long}/prompt`, `…/greedy` | i32 prompt of 1, 6 and 40 tokens, and its 64 greedy tokens |
//! | `…/tokens` | i32 prompt and greedy tokens in one |
//! | `…/logits` | f32 `[tokens, vocab]` of one uncached forward; row i predicts token i + 1 |
//! | `…/taps` | f32 `[taps, tokens, hidden]`, after the layers that the metadata names |
//! | `…/logits_f32` | f32 evaluation of the same weights: the truth that low precision is measured against |
//! | `…/reference` | mean abs error and argmax agreement of the worse of two references |
//! | `rollback/*` | a block of 8 rows, and the logits of 3 tokens after m of its rows were kept |
//!
//! Drafter cases hold, for five successive drafts a prompt, the context rows, the logits and the proposals, and in f32 the
//! whole speculative decoding of 64 tokens (`trace/*`).

mod drafter;
mod fixture;
mod rollback;
mod target;
mod trace;

pub use drafter::{drafter, drafter_on};
pub use fixture::Golden;
pub use rollback::{rollback, rollback_on};
pub use target::{exact, exact_on, within_reference, within_reference_on};
pub use trace::{trace, trace_on};

/// The number format of a case, and with it how close an implementation must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Everything within 1e-3, all choices equal.
    F32,
    /// In bf16 arithmetic within 0.4 (correct implementations differ by 0.1 to 0.3), in f32 within 0.1 on average: the
    /// reference rounds in every step. Choices are not compared.
    Bf16,
}
