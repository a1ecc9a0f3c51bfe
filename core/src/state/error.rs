//! Breaches of the state's contract. They are faults of the caller, and errors in release builds too.

/// A state was used against its contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A block was opened inside a block.
    #[error("a block of {rows} rows is opened while one is open")]
    AlreadyOpen {
        /// Rows of the new block.
        rows: usize,
    },
    /// A commit without a block.
    #[error("a block is committed, but none is open")]
    NotOpen,
    /// A commit of more rows than the block was given.
    #[error("{kept} rows are kept of a block that received {received}")]
    KeptTooMany {
        /// Rows to keep.
        kept: usize,
        /// Rows the block received.
        received: usize,
    },
    /// More rows than the block was opened for.
    #[error("{received} rows were appended to a block of {rows}")]
    BlockOverflow {
        /// Rows the block was opened for.
        rows: usize,
        /// Rows appended.
        received: usize,
    },
    /// A block wider than a window has slack for.
    #[error(
        "a block of {rows} rows is opened on a window with {slack} rows of slack, which takes up to {} rows",
        slack + 1
    )]
    Slack {
        /// Rows of the block.
        rows: usize,
        /// Rows that the window holds beyond those that are seen.
        slack: usize,
    },
    /// A look further back than a window holds.
    #[error("the row at position {needed} is needed, and the oldest one held is at {first}")]
    Forgotten {
        /// The position.
        needed: usize,
        /// Position of the first row held.
        first: usize,
    },
    /// Rows of another shape than the state holds.
    #[error("the appended {what} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Keys, values or gated inputs.
        what: &'static str,
        /// Shape found.
        found: Vec<i32>,
        /// Shape that fits; −1 stands for any.
        expected: Vec<i32>,
    },
    /// The layers of a sequence do not agree (S2).
    #[error("layer {layer} holds {found} rows, and layer 0 holds {expected}")]
    UnequalLayers {
        /// The layer that differs.
        layer: usize,
        /// Its rows.
        found: usize,
        /// Rows of layer 0.
        expected: usize,
    },
    /// A layer's state of another kind than its operator needs.
    #[error("the layer's state is {found}, and its operator needs {expected}")]
    WrongKind {
        /// Kind found.
        found: &'static str,
        /// Kind needed.
        expected: &'static str,
    },
    /// A look into a state that holds nothing.
    #[error("the state holds no row")]
    Empty,
    /// A layer that the sequence does not have.
    #[error("layer {layer} of a sequence with {layers}")]
    NoSuchLayer {
        /// The layer asked for.
        layer: usize,
        /// Layers of the sequence.
        layers: usize,
    },
}
