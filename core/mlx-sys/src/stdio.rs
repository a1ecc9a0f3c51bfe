//! Whether standard output was open when the process started.
//!
//! Rust's start-up code opens `/dev/null` in the place of a closed descriptor 1 before `main`, and every write then succeeds
//! and is lost. Only code that runs before it can tell, and such code is the linker's: this is the one place of the
//! workspace where it may live, beside the other things that no safe Rust can say.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

const STDOUT: c_int = 1;
/// The same number on Linux and macOS.
const F_GETFD: c_int = 1;

extern "C" {
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
}

extern "C" fn look() {
    // SAFETY: F_GETFD takes no further argument and changes nothing; a closed descriptor gives −1.
    let flags = unsafe { fcntl(STDOUT, F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY of the section: the loader calls every pointer in it once, before `main`, as a function without arguments, and
// `look` is such a function (Linux passes arguments that it does not read). It needs nothing that std sets up.
#[used]
#[cfg_attr(target_vendor = "apple", link_section = "__DATA,__mod_init_func")]
#[cfg_attr(not(target_vendor = "apple"), link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether descriptor 1 was closed when the process started.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
