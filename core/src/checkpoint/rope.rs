//! The base of the rotary frequencies, wherever a config keeps it.

use super::{Config, ROPE_BASE, Result};

/// Sections that hold the rotation's fields, the newest layout first.
const SECTIONS: [&str; 2] = ["rope_parameters", "rope_scaling"];

impl Config {
    /// The base of an unscaled rotation: `rope_parameters.rope_theta`, else `rope_theta` of this object, else `default`.
    /// Where the file names two bases, or none, a warning says which one counts.
    ///
    /// # Errors
    /// A base out of bounds, or a kind of rotation other than `default`: its angles are not these.
    pub fn rope_base(&self, default: f64) -> Result<f64> {
        for section in SECTIONS {
            let Some(rope) = self.opt_section(section)? else { continue };
            for field in ["rope_type", "type"] {
                if rope.opt_str(field)?.is_some_and(|kind| kind != "default") {
                    return Err(rope.refuse(field, "\"default\""));
                }
            }
        }
        let nested = match self.opt_section(SECTIONS[0])? {
            Some(rope) => rope.opt_float_in("rope_theta", ROPE_BASE)?,
            None => None,
        };
        let flat = self.opt_float_in("rope_theta", ROPE_BASE)?;
        let place = format!("{}: {}", self.file(), self.prefix());
        match (nested, flat) {
            (Some(nested), Some(flat)) if nested != flat => {
                tracing::warn!(
                    "{place}rope_theta is {flat} and {}.rope_theta is {nested}: the latter counts",
                    SECTIONS[0]
                );
            }
            (None, None) => tracing::warn!("{place}rope_theta is missing: taken to be {default}"),
            _ => {}
        }
        Ok(nested.or(flat).unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn base(config: &Value) -> Result<f64> {
        Config::parse("config.json", config.to_string().as_bytes())?.rope_base(5e5)
    }

    #[test]
    fn the_base_is_found_in_both_places() {
        let nested = json!({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}});
        for (config, expected) in [
            (nested, 1e6),
            (json!({"rope_theta": 1_000_000}), 1e6),
            (json!({"rope_theta": 10_000, "rope_parameters": {"rope_theta": 1e6}}), 1e6),
            (json!({"rope_theta": 1e6, "rope_parameters": {"rope_type": "default"}}), 1e6),
            (json!({"rope_theta": 1e6, "rope_parameters": null, "rope_scaling": null}), 1e6),
            (json!({"rope_theta": 1e6, "rope_scaling": {"type": "default"}}), 1e6),
            (json!({}), 5e5),
        ] {
            assert_eq!(base(&config).unwrap(), expected, "{config}");
        }
    }

    #[test]
    fn other_rotations_are_refused_and_never_ignored() {
        for config in [
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}),
            json!({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}),
            json!({"rope_theta": 1e6, "rope_scaling": {"rope_type": "llama3"}}),
            json!({"rope_parameters": {"rope_type": 3}}),
            json!({"rope_parameters": "default"}),
            json!({"rope_theta": "1e6"}),
            json!({"rope_theta": 0}),
        ] {
            assert!(base(&config).is_err(), "{config}");
        }
    }
}
