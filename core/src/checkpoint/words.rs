//! Pieces of messages.

/// Names shown before "and N more".
const SHOWN: usize = 5;

/// `a, b, c` or `a, b, c, d, e and 7 more`.
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let shown = names.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// At most `limit` characters of `text`, with a sign that there was more.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
