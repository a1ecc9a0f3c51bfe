//! Row-exact CPU kernels of mlxcel.
