//! Warnings of the libraries, on stderr.

use tracing_subscriber::filter::LevelFilter;

/// Shows warnings, or errors only. Call it once.
pub(crate) fn init(quiet: bool) {
    let level = if quiet { LevelFilter::ERROR } else { LevelFilter::WARN };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    // A program that links this library may have its own.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
