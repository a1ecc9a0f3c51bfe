//! The families that this program links. A crate that nobody names is not linked, and then it registers nothing.

use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;
