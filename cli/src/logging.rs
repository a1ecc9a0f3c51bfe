//! Warnings of the libraries, on stderr.

use tracing_subscriber::filter::LevelFilter;

use crate::serve_args::{LogFormat, LogLevel};

/// The log of a server. A reader of the log that goes away does not end the server.
pub(crate) fn init_server(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false);
    let _ = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(builder.finish()),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish())
        }
    };
}

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
