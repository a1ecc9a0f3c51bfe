//! HTTP server over the mlxcel engine.
