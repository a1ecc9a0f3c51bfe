//! Block drafters that read the target's residual stream: DFlash (spec 4) and DSpark, its form with a Markov head
//! (spec 5). Both share one backbone; a family whose drafter is a DFlash under other names builds on [`DFlash::load`].

mod backbone;
mod config;
mod dflash;
mod dspark;

pub use config::{Config, trained_width};
pub use dflash::DFlash;

use mlxcel_core::family::DrafterFamily;

inventory::submit! {
    DrafterFamily { name: "dflash", recognises: config::is_dflash, trained_width, load: dflash::load }
}

inventory::submit! {
    DrafterFamily {
        name: "dspark",
        recognises: config::is_dspark,
        trained_width: dspark::trained_width,
        load: dspark::load,
    }
}
