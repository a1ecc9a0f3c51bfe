//! Checks that every family inherits.
