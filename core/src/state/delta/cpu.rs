//! The recurrent state in memory.

use mlxcel_kernels::{
    Exec,
    delta::{DeltaRows, DeltaShape, step},
};

use crate::nn::DeltaDims;

/// The states after the committed rows and after the open block, in the kernel's layout, and the block's rows.
#[derive(Clone, Debug)]
pub(super) struct CpuMemory {
    committed: Vec<f32>,
    /// Of any content while no block has rows; without memory before the first block.
    next: Vec<f32>,
    qkv: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
}

impl CpuMemory {
    /// Zeros.
    pub(super) fn new(dims: DeltaDims) -> Self {
        let committed = vec![0.0; dims.state_len()];
        Self { committed, next: Vec::new(), qkv: Vec::new(), alpha: Vec::new(), beta: Vec::new() }
    }

    /// Rows of the open block.
    pub(super) fn received(&self, dims: DeltaDims) -> usize {
        self.alpha.len() / dims.value_heads
    }

    pub(super) fn step(
        &mut self,
        exec: &Exec,
        dims: DeltaDims,
        rows: DeltaRows<'_>,
        open: bool,
        out: &mut [f32],
    ) {
        if !open {
            return step(exec, shape(dims), rows, None, &mut self.committed, Some(out));
        }
        self.next.resize(self.committed.len(), 0.0);
        let from = self.alpha.is_empty().then_some(self.committed.as_slice());
        step(exec, shape(dims), rows, from, &mut self.next, Some(out));
        self.qkv.extend_from_slice(rows.qkv);
        self.alpha.extend_from_slice(rows.alpha);
        self.beta.extend_from_slice(rows.beta);
    }

    /// Keeps `kept` of the block's rows, at most as many as there are.
    pub(super) fn commit(&mut self, exec: &Exec, dims: DeltaDims, kept: usize) {
        let received = self.received(dims);
        if kept > 0 && kept == received {
            std::mem::swap(&mut self.committed, &mut self.next);
        } else if kept > 0 {
            let rows = DeltaRows {
                qkv: &self.qkv[..kept * dims.qkv_width()],
                alpha: &self.alpha[..kept * dims.value_heads],
                beta: &self.beta[..kept * dims.value_heads],
            };
            step(exec, shape(dims), rows, None, &mut self.committed, None);
        }
        self.qkv.clear();
        self.alpha.clear();
        self.beta.clear();
    }

    pub(super) fn committed(&self) -> &[f32] {
        &self.committed
    }
}

fn shape(dims: DeltaDims) -> DeltaShape {
    DeltaShape::new(dims.key_heads, dims.value_heads, dims.key_dim, dims.value_dim)
}
