//! Reading rows back: what checks compare, whatever the layout in memory.

use super::buffer::{KvBuffer, TILE};

impl KvBuffer {
    /// Key and value of one head at an absolute position, `[head_dim]` each, raised to f32. Slow: for checks.
    ///
    /// # Panics
    /// If the buffer does not hold the position, or has no such head.
    pub fn row(&self, position: usize, head: usize) -> (Vec<f32>, Vec<f32>) {
        assert!(self.positions().contains(&position), "position {position} of {:?}", self.positions());
        assert!(head < self.heads(), "head {head} of {}", self.heads());
        let (lines, lane) = (self.dtype().lines(), position % TILE);
        let (keys, values) = self.tile(head, position / TILE);
        let row_lines = values.len() / TILE;
        let value = &values[lane * row_lines..];
        let key = |d: usize| self.dtype().get(&keys[d / 2 * lines..], d % 2, lane);
        let value = |d: usize| self.dtype().get(&value[d / 32 * lines..], d % 32 / 16, d % 16);
        ((0..self.head_dim()).map(key).collect(), (0..self.head_dim()).map(value).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heads, attention::KvDtype};

    #[test]
    fn rows_come_back_as_they_were_written() {
        for (dtype, dim) in [(KvDtype::F32, 40), (KvDtype::Bf16, 8), (KvDtype::F32, 64)] {
            let (rows, heads) = (150, 2);
            // Small integers are exact in bf16.
            let keys: Vec<f32> = (0..rows * heads * dim).map(|i| (i % 251) as f32 - 99.0).collect();
            let values: Vec<f32> = keys.iter().map(|key| -key - 1.0).collect();
            let mut buffer = KvBuffer::new(heads, dim, dtype);
            buffer.append(0, Heads::packed(&keys, heads, dim), Heads::packed(&values, heads, dim));
            buffer.drop_front(3);
            for position in 3..rows {
                for head in 0..heads {
                    let at = (position * heads + head) * dim..(position * heads + head + 1) * dim;
                    let (key, value) = buffer.row(position, head);
                    assert_eq!((key.as_slice(), value.as_slice()), (&keys[at.clone()], &values[at]));
                }
            }
        }
    }
}
