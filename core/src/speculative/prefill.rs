//! The prompt, in chunks.

use std::ops::Range;

/// Rows of a prefill chunk. Borders lie at multiples of it, whatever the load, the batch or a cached prefix. Drafters take in
/// no more rows of a prompt at once either.
pub(crate) const CHUNK: usize = 512;

/// The chunk that starts at `done` of a prompt of `len` tokens.
pub(crate) fn next_chunk(done: usize, len: usize) -> Range<usize> {
    let border = (done / CHUNK + 1) * CHUNK;
    done..border.min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_lie_at_multiples() {
        assert_eq!(next_chunk(0, 5), 0..5);
        assert_eq!(next_chunk(0, 1200), 0..512);
        assert_eq!(next_chunk(512, 1200), 512..1024);
        assert_eq!(next_chunk(1024, 1200), 1024..1200);
        assert_eq!(next_chunk(700, 1200), 700..1024);
    }
}
