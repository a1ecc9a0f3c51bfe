//! The window in memory.

/// The committed window, and the rows of an open block behind it.
#[derive(Clone, Debug)]
pub(super) struct CpuWindow {
    /// Values of the window: (K−1) · channels.
    len: usize,
    /// The window, followed by the rows of an open block.
    history: Vec<f32>,
}

impl CpuWindow {
    /// A window of `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        Self { len, history: vec![0.0; len] }
    }

    /// Makes room for `values` more; `fill` gets the window in front of them with them.
    pub(super) fn append(&mut self, values: usize, open: bool, fill: impl FnOnce(&mut [f32])) {
        let end = self.history.len();
        self.history.resize(end + values, 0.0);
        fill(&mut self.history[end - self.len..]);
        if !open {
            self.commit(self.history.len() - self.len);
        }
    }

    /// Keeps `kept` values behind the window and moves the window to their end.
    pub(super) fn commit(&mut self, kept: usize) {
        self.history.truncate(self.len + kept);
        self.history.drain(..kept);
    }

    pub(super) fn window(&self) -> &[f32] {
        &self.history[..self.len]
    }
}
