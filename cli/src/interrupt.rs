//! Ctrl-C: stops the answer that is being made; without one, or pressed twice, it ends the program.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::INTERRUPTED;

/// Nothing to stop: the program ends.
const IDLE: u8 = 0;
/// An answer is being made.
const ANSWERING: u8 = 1;
/// It is to stop.
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Catches Ctrl-C from now on. A program that has its own handler keeps it.
pub(crate) fn install() {
    let _ = ctrlc::set_handler(|| {
        if STATE.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
}

/// While it lives, Ctrl-C stops an answer.
pub(crate) struct Answering(());

impl Answering {
    pub(crate) fn start() -> Self {
        STATE.store(ANSWERING, Ordering::SeqCst);
        Self(())
    }

    /// Whether the answer is to stop.
    #[expect(clippy::unused_self, reason = "it is the answer under way that stops")]
    pub(crate) fn is_stopped(&self) -> bool {
        STATE.load(Ordering::SeqCst) == STOPPING
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        STATE.store(IDLE, Ordering::SeqCst);
    }
}
