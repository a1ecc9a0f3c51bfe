//! How the linear weights of an MLX checkpoint are packed: the `quantization` block of `config.json`.
//!
//! The rule of mlx-lm 0.32.2, for each module path after renaming: an object of its own in the block decides; `false`
//! there means not quantized; else the module is quantized if it has scales, and its packing follows from the shapes
//! of the file, which win over the block's default.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::{CheckpointError, Config, Result};

/// Bits of one stored word.
pub(super) const WORD: usize = 32;
/// Group sizes of affine quantization.
const AFFINE_GROUPS: [usize; 3] = [32, 64, 128];
/// Code widths of affine quantization.
const AFFINE_BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// How codes become numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Integer code times scale plus bias, both floats per group.
    Affine,
    /// 4-bit floats times a power of two per group of 32.
    Mxfp4,
    /// 8-bit floats times a power of two per group of 32.
    Mxfp8,
    /// 4-bit floats times an 8-bit float per group of 16.
    Nvfp4,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Affine => "affine",
            Self::Mxfp4 => "mxfp4",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        })
    }
}

/// Mode, bits of a code and codes that share a scale; one of the combinations that MLX knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    /// How codes become numbers.
    pub mode: Mode,
    /// Bits of one code.
    pub bits: usize,
    /// Codes (along the input axis) that share one scale.
    pub group: usize,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}-bit group {}", self.mode, self.bits, self.group)
    }
}

impl Packing {
    /// The packing, if MLX knows it.
    pub fn new(mode: Mode, bits: usize, group: usize) -> Option<Self> {
        let known = match mode {
            Mode::Affine => AFFINE_BITS.contains(&bits) && AFFINE_GROUPS.contains(&group),
            Mode::Mxfp4 => (bits, group) == (4, 32),
            Mode::Mxfp8 => (bits, group) == (8, 32),
            Mode::Nvfp4 => (bits, group) == (4, 16),
        };
        known.then_some(Self { mode, bits, group })
    }

    /// The packing that follows from the shapes of a file: `words` columns of the packed weight, `groups` columns of
    /// the scales, for rows of `input` numbers.
    pub(super) fn infer(input: usize, words: usize, groups: usize, byte_scales: bool) -> Option<Self> {
        let exact = |numerator: usize, denominator: usize| {
            numerator.checked_rem(denominator).filter(|rest| *rest == 0).map(|_| numerator / denominator)
        };
        let (group, bits) = (exact(input, groups)?, exact(words.checked_mul(WORD)?, input)?);
        let mode = match (byte_scales, bits, group) {
            (false, ..) => Mode::Affine,
            (true, 4, 16) => Mode::Nvfp4,
            (true, 4, 32) => Mode::Mxfp4,
            (true, 8, 32) => Mode::Mxfp8,
            _ => return None,
        };
        Self::new(mode, bits, group)
    }

    /// Words of one packed row of `input` numbers.
    pub fn words(&self, input: usize) -> usize {
        input * self.bits / WORD
    }
}

/// What the block says about one module path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Not quantized.
    Dense,
    /// Quantized like this.
    Packed(Packing),
    /// What the shapes in the file say.
    Inferred,
}

/// The block, checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Quantization {
    /// Module paths with a rule of their own.
    pub(super) modules: BTreeMap<String, Rule>,
}

impl Quantization {
    /// Reads the block of a config; a model without one has no rules.
    pub(super) fn read(config: &Config) -> Result<Self> {
        for section in [Some(config.clone()), text_config(config)].into_iter().flatten() {
            refuse_foreign(&section)?;
        }
        let (ours, theirs) =
            (config.opt_section("quantization")?, config.opt_section("quantization_config")?);
        if let (Some(ours), Some(theirs)) = (&ours, &theirs)
            && !ours.same_fields(theirs)
        {
            return Err(config.refuse("quantization_config", "the same object as quantization, or none"));
        }
        ours.or(theirs).map_or_else(|| Ok(Self::default()), |block| Self::from_block(&block))
    }

    fn from_block(block: &Config) -> Result<Self> {
        let default = packing(block, None)?;
        let mut modules = BTreeMap::new();
        for (path, value) in block.fields() {
            let rule = match value {
                Value::Bool(false) => Rule::Dense,
                Value::Bool(true) => Rule::Packed(default),
                Value::Object(_) => Rule::Packed(packing(&block.section(path)?, Some(default))?),
                _ => continue,
            };
            modules.insert(path.to_owned(), rule);
        }
        Ok(Self { modules })
    }

    /// What the block says about module `path`.
    pub(super) fn rule(&self, path: &str) -> Rule {
        self.modules.get(path).copied().unwrap_or(Rule::Inferred)
    }
}

/// The packing of one object of the block; missing fields come from `default`.
fn packing(object: &Config, default: Option<Packing>) -> Result<Packing> {
    let mode = match object.opt_str("mode")? {
        None | Some("affine") => Mode::Affine,
        Some("mxfp4") => Mode::Mxfp4,
        Some("mxfp8") => Mode::Mxfp8,
        Some("nvfp4") => Mode::Nvfp4,
        Some(_) => return Err(object.refuse("mode", "affine, mxfp4, mxfp8 or nvfp4")),
    };
    let field = |name: &str, range, default: Option<usize>| match (object.opt_int(name, range)?, default) {
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => Err(object.refuse(name, "an integer")),
    };
    let bits = field("bits", 1..=WORD, default.map(|default| default.bits))?;
    let group = field("group_size", 1..=1 << 16, default.map(|default| default.group))?;
    Packing::new(mode, bits, group).ok_or_else(|| match mode {
        Mode::Affine if AFFINE_BITS.contains(&bits) => object.refuse("group_size", "32, 64 or 128"),
        Mode::Affine => object.refuse("bits", "2, 3, 4, 5, 6 or 8"),
        Mode::Mxfp4 => object.refuse("mode", "bits 4 and group_size 32 beside it"),
        Mode::Mxfp8 => object.refuse("mode", "bits 8 and group_size 32 beside it"),
        Mode::Nvfp4 => object.refuse("mode", "bits 4 and group_size 16 beside it"),
    })
}

fn text_config(config: &Config) -> Option<Config> {
    config.opt_section("text_config").ok().flatten()
}

/// Refuses blocks written by other tools, by name.
fn refuse_foreign(section: &Config) -> Result<()> {
    for name in ["quantization", "quantization_config"] {
        let Some(block) = section.opt_section(name)? else { continue };
        if block.has("quant_method") {
            return Err(CheckpointError::ForeignQuantization {
                file: block.file().to_owned(),
                field: format!("{}{name}.quant_method", section.prefix()),
                found: block.value("quant_method").map_or_else(String::new, ToString::to_string),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
