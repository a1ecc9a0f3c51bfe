//! A result buffer that the chunks of a parallel job write disjoint, scattered parts of.

use std::marker::PhantomData;
use std::ops::Range;

/// Exclusive use of a slice, handed out part by part.
pub(crate) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: only `part` reaches the data, and its callers keep the parts disjoint; `T: Send` may be written elsewhere.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// Takes the slice for as long as the job runs.
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        Self { start: data.as_mut_ptr(), len: data.len(), borrow: PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// No other part that overlaps `range` is alive, on any thread.
    #[expect(clippy::mut_from_ref, reason = "parts are disjoint by the caller's promise")]
    #[inline(always)]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "part {range:?} of {} values", self.len);
        // SAFETY: in bounds by the assertion, borrowed by `borrow`, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
