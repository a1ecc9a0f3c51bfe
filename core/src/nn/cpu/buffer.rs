//! Memory for activations, used again and again.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
};

/// Buffers kept for later; more are given back to the system.
const KEPT: usize = 64;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// f32 values. Its memory comes from buffers that this thread has dropped, where one fits: fresh pages cost more than
/// the small kernels that fill them.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<f32>);

impl Buffer {
    /// `len` values, of any content.
    pub(super) fn new(len: usize) -> Self {
        let fits = |buffer: &Vec<f32>| buffer.capacity() >= len && buffer.capacity() / 4 <= len;
        let found = FREE.with_borrow_mut(|free| {
            let index = free.iter().rposition(fits)?;
            Some(free.swap_remove(index))
        });
        let mut values = found.unwrap_or_else(|| Vec::with_capacity(len));
        values.resize(len, 0.0);
        Self(values)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.0);
        // The list is gone while the thread ends; then the memory goes with it.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT && values.capacity() > 0 {
                free.push(values);
            }
        });
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn memory_is_used_again_for_sizes_that_fit() {
        let first = Buffer::new(1000);
        let address = first.as_ptr();
        drop(first);
        let again = Buffer::new(900);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(again.len(), 900);
        drop(again);
        assert_ne!(Buffer::new(10).as_ptr(), address, "a small buffer does not take a large one");
        assert_eq!(Buffer::new(0).len(), 0);
    }
}
