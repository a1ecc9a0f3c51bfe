//! A view of `[rows, heads, dim]` values inside a wider row-major buffer.

use std::ops::Range;

/// `[rows, heads, dim]` values inside a buffer whose rows hold other things too, such as the keys of a joined
/// `[q | k | v]` projection. The values of one head are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    data: &'a [f32],
    offset: usize,
    rows: usize,
    row_stride: usize,
    count: usize,
    stride: usize,
    dim: usize,
}

impl<'a> Heads<'a> {
    /// A whole buffer `[rows, heads, dim]`.
    ///
    /// # Panics
    /// If the length is not a multiple of `heads · dim`.
    pub fn packed(data: &'a [f32], heads: usize, dim: usize) -> Self {
        Self::columns(data, heads * dim, 0, heads, dim)
    }

    /// A whole buffer `[rows, width]` as one head per row.
    ///
    /// # Panics
    /// If the length is not a multiple of `width`.
    pub fn rows_of(data: &'a [f32], width: usize) -> Self {
        Self::packed(data, 1, width)
    }

    /// Columns `first .. first + heads · dim` of a buffer `[rows, row_width]`.
    ///
    /// # Panics
    /// If the length is not a multiple of `row_width` or the columns end behind it.
    pub fn columns(data: &'a [f32], row_width: usize, first: usize, heads: usize, dim: usize) -> Self {
        Self::strided(data, row_width, first, heads, dim, dim)
    }

    /// As [`columns`](Self::columns), with head `h` at column `first + h · head_stride` (query and gate side by side in
    /// each head: `head_stride` = `2 · dim`, `first` = 0 or `dim`).
    ///
    /// # Panics
    /// If the length is not a multiple of `row_width` or a head ends behind it.
    pub fn strided(
        data: &'a [f32],
        row_width: usize,
        first: usize,
        heads: usize,
        head_stride: usize,
        dim: usize,
    ) -> Self {
        assert!(heads > 0 && dim > 0, "{heads} heads of {dim} values; both must be positive");
        assert!(
            first + (heads - 1) * head_stride + dim <= row_width,
            "{heads} heads of {dim} values, {head_stride} apart from column {first}: more than the row width {row_width}"
        );
        assert!(
            data.len().is_multiple_of(row_width),
            "a buffer of {} values is no whole number of rows of {row_width}",
            data.len()
        );
        let rows = data.len() / row_width;
        Self { data, offset: first, rows, row_stride: row_width, count: heads, stride: head_stride, dim }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Heads in a row.
    pub fn heads(&self) -> usize {
        self.count
    }

    /// Values in a head.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Values in the view: the length of a packed copy.
    pub fn len(&self) -> usize {
        self.rows * self.count * self.dim
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The values of one head of one row.
    #[inline(always)]
    pub fn head(&self, row: usize, head: usize) -> &'a [f32] {
        debug_assert!(head < self.count);
        let start = row * self.row_stride + self.offset + head * self.stride;
        &self.data[start..start + self.dim]
    }

    /// The view of some of the rows.
    ///
    /// # Panics
    /// If `rows` ends behind the view.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let data = &self.data[rows.start * self.row_stride..rows.end * self.row_stride];
        Self { data, rows: rows.len(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_head_of_a_joined_row() {
        let data: Vec<f32> = (0..24).map(|i| i as f32).collect();
        let keys = Heads::columns(&data, 12, 4, 2, 3);
        assert_eq!((keys.rows(), keys.len()), (2, 12));
        assert_eq!(keys.head(1, 1), [19.0, 20.0, 21.0]);
        assert_eq!(keys.slice(1..2).head(0, 0), [16.0, 17.0, 18.0]);
        let gates = Heads::strided(&data, 12, 3, 2, 6, 3);
        assert_eq!(gates.head(0, 1), [9.0, 10.0, 11.0]);
        assert!(Heads::packed(&[], 2, 3).is_empty());
    }

    #[test]
    #[should_panic(expected = "more than the row width 12")]
    fn refuses_columns_behind_the_row() {
        Heads::columns(&[0.0; 24], 12, 8, 2, 3);
    }
}
