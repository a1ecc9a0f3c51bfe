//! The trained LFM2 pair, embedded.
