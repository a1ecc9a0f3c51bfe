//! The one place that maps a file into memory.
#![expect(unsafe_code, reason = "memmap2 cannot know that nobody changes the file while it is mapped")]

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// Stated limit: a file that another process truncates while it is mapped ends this process with SIGBUS when the
/// lost part is read, and one that is overwritten in place changes under us. Downloads are renamed into place and
/// blobs of the Hugging Face cache are never rewritten, so this needs someone who edits a model that is in use.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private to this process, and we rely on checkpoint files not being
    // truncated or rewritten in place while a model is loaded (the stated limit above). Only plain bytes are read
    // from it, so a file that does change can give wrong numbers but never an invalid value.
    unsafe { Mmap::map(file) }
}

/// Takes the whole pages of a byte range out of this process's memory; whoever reads them again gets them from the file
/// again. Only a hint: nothing happens where the system refuses or does not know it.
#[cfg(unix)]
pub(super) fn release(map: &Mmap, range: Range<usize>) {
    use memmap2::UncheckedAdvice;

    /// The largest page of a supported system; pages that the range shares with others stay.
    const PAGE: usize = 64 << 10;
    let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
    if start < end && end <= map.len() {
        // SAFETY: the mapping is read-only and of a file, so a dropped page comes back with the bytes of the file, as
        // if it had never been read (under the stated limit of `map`).
        let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
    }
}

#[cfg(not(unix))]
pub(super) fn release(_: &Mmap, _: Range<usize>) {}
