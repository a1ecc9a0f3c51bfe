//! Language models, faster, with the same tokens.
