//! Tests of the file beside this folder.
