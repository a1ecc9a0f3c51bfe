//! Memory for packed weights: aligned, on huge pages where the system has them, first touched by all threads.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::Pool;
use crate::pool::Base;

const HUGE_PAGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;

/// Bytes aligned to 64, or to a huge page from that size on (worth 5-10 % of a product's time).
pub(super) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, owned; shared only as `&[u8]`.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `pieces` pieces of `len` bytes (both above 0), which `fill(index, piece)` writes on the threads of `pool`; what it
    /// leaves is zero.
    pub(super) fn build(
        pool: &Pool,
        pieces: usize,
        len: usize,
        fill: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Buffer {
        let buffer = Buffer::uninitialized(pieces.saturating_mul(len));
        let base = Base(buffer.start.as_ptr());
        pool.run(pieces, |index| {
            // SAFETY: pieces of different indices are disjoint parts of the buffer, and each index runs once; a piece is
            // initialized before a slice of it exists.
            let piece = unsafe {
                let start = base.at(index * len);
                start.write_bytes(0, len);
                std::slice::from_raw_parts_mut(start, len)
            };
            fill(index, piece);
        });
        buffer
    }

    /// `len > 0` bytes that nobody may read before they are written.
    fn uninitialized(len: usize) -> Buffer {
        assert!(len > 0, "buffer: zero bytes");
        let align = if len >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        let Ok(layout) = Layout::from_size_align(len, align) else {
            panic!("buffer: {len} bytes are too many")
        };
        // SAFETY: the size is not zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        if len >= HUGE_PAGE {
            advise_huge(start.as_ptr(), len);
        }
        Buffer { start, layout }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: owned and initialized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Asks for huge pages before the first touch; only a hint, so failure does not matter.
#[cfg(target_os = "linux")]
fn advise_huge(start: *mut u8, len: usize) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(start: *mut u8, len: usize, advice: i32) -> i32;
    }
    // SAFETY: `start` is page aligned and the range is ours; the advice changes no contents.
    unsafe { madvise(start, len, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: *mut u8, _: usize) {}
