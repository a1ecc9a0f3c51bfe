//! A typed reader of `config.json` that knows where it is.
//!
//! Every value is bounded as it is read, so that later arithmetic cannot overflow and nothing too large reaches an
//! i32. `null` counts as absent. An integer may be written as a float with no fraction (`1e6`, `2.0`). A value of the
//! wrong type is refused, never converted: `"64"` and `true` are not numbers.

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::json::{self, kind};
use super::words::shortened;
use super::{CheckpointError, Result};

/// Bounds of one dimension: hidden sizes, vocabularies, contexts.
pub const DIM: RangeInclusive<usize> = 1..=1 << 24;
/// Bases of rotary frequencies (`rope_theta`).
pub const ROPE_BASE: RangeInclusive<f64> = 1.0..=1e12;
/// What a norm adds under its root.
pub const NORM_EPS: RangeInclusive<f64> = 0.0..=1.0;
/// Bounds of a number of layers.
pub const LAYERS: RangeInclusive<usize> = 1..=1024;
/// Token ids that any vocabulary within [`DIM`] can have.
const IDS: RangeInclusive<usize> = 0..=(1 << 24) - 1;
/// Numbers that an f32 can hold.
const FLOATS: RangeInclusive<f64> = f32::MIN as f64..=f32::MAX as f64;
/// Elements of one axis or one product of dimensions: MLX counts in i32.
const ELEMENTS: usize = i32::MAX as usize;
/// Entries of one list, far above any real one.
const LIST: usize = 1 << 16;

/// One object of a JSON file, with the file's name and the path of fields that leads to it.
///
/// ```
/// use mlxcel_core::checkpoint::Config;
///
/// let config = Config::parse("config.json", br#"{"text_config": {"hidden_size": 3000000000}}"#)?;
/// let error = config.section("text_config")?.dim("hidden_size").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "config.json: text_config.hidden_size is 3000000000, expected an integer in 1..=16777216"
/// );
/// # Ok::<(), mlxcel_core::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    file: Arc<str>,
    /// Path of this object with a dot behind it, empty for the root.
    prefix: String,
    object: Arc<Map<String, Value>>,
}

impl Config {
    /// Reads the whole file `file` (its name is used in messages only).
    ///
    /// # Errors
    /// [`CheckpointError::Json`] for anything but one JSON object without repeated keys.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        let object = json::object(file, bytes)?;
        Ok(Self { file: file.into(), prefix: String::new(), object: Arc::new(object) })
    }

    /// Name of the file this came from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Path of this object with a dot behind it, empty for the root.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether both objects hold the same fields, in whatever order and file.
    pub(super) fn same_fields(&self, other: &Self) -> bool {
        self.object == other.object
    }

    /// The fields as they stand, in the file's order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.object.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of `name`, if it is there and not null.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Whether `name` is there and not null.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The object `name`.
    pub fn section(&self, name: &str) -> Result<Self> {
        self.opt_section(name)?.ok_or_else(|| self.refuse(name, "an object"))
    }

    /// The object `name`, if it is there.
    pub fn opt_section(&self, name: &str) -> Result<Option<Self>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Self {
                file: self.file.clone(),
                prefix: format!("{}{name}.", self.prefix),
                object: Arc::new(object.clone()),
            })),
            Some(_) => Err(self.refuse(name, "an object")),
        }
    }

    /// A dimension: an integer within [`DIM`].
    pub fn dim(&self, name: &str) -> Result<usize> {
        self.int(name, DIM)
    }

    /// A dimension, or `default` when it is absent.
    pub fn dim_or(&self, name: &str, default: usize) -> Result<usize> {
        Ok(self.opt_dim(name)?.unwrap_or(default))
    }

    /// A dimension, if it is there.
    pub fn opt_dim(&self, name: &str) -> Result<Option<usize>> {
        self.opt_int(name, DIM)
    }

    /// A number of layers: an integer within [`LAYERS`].
    pub fn layers(&self, name: &str) -> Result<usize> {
        self.int(name, LAYERS)
    }

    /// An integer within `range`.
    pub fn int(&self, name: &str, range: RangeInclusive<usize>) -> Result<usize> {
        self.opt_int(name, range.clone())?.ok_or_else(|| self.refuse(name, &integer_in(&range)))
    }

    /// An integer within `range`, if it is there.
    pub fn opt_int(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match integer(value).filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(self.refuse(name, &integer_in(&range))),
        }
    }

    /// A number that an f32 can hold.
    pub fn float(&self, name: &str) -> Result<f64> {
        self.float_in(name, FLOATS)
    }

    /// A number that an f32 can hold, or `default` when it is absent.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.opt_float(name)?.unwrap_or(default))
    }

    /// A number that an f32 can hold, if it is there.
    pub fn opt_float(&self, name: &str) -> Result<Option<f64>> {
        self.opt_float_in(name, FLOATS)
    }

    /// A number within `range`.
    pub fn float_in(&self, name: &str, range: RangeInclusive<f64>) -> Result<f64> {
        self.opt_float_in(name, range.clone())?.ok_or_else(|| self.refuse(name, &number_in(&range)))
    }

    /// A number within `range`, if it is there.
    pub fn opt_float_in(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_f64().filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(self.refuse(name, &number_in(&range))),
        }
    }

    /// `true` or `false`.
    pub fn bool(&self, name: &str) -> Result<bool> {
        self.opt_bool(name)?.ok_or_else(|| self.refuse(name, "true or false"))
    }

    /// `true` or `false`, or `default` when it is absent.
    pub fn bool_or(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.opt_bool(name)?.unwrap_or(default))
    }

    /// `true` or `false`, if it is there.
    pub fn opt_bool(&self, name: &str) -> Result<Option<bool>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.refuse(name, "true or false"))
    }

    /// A string.
    pub fn str(&self, name: &str) -> Result<&str> {
        self.opt_str(name)?.ok_or_else(|| self.refuse(name, "a string"))
    }

    /// A string, if it is there.
    pub fn opt_str(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.refuse(name, "a string"))
    }

    /// A list of strings.
    pub fn list_of_str(&self, name: &str) -> Result<Vec<&str>> {
        self.opt_list_of_str(name)?.ok_or_else(|| self.refuse(name, "a list of strings"))
    }

    /// A list of strings, if it is there.
    pub fn opt_list_of_str(&self, name: &str) -> Result<Option<Vec<&str>>> {
        self.opt_list(name, "a list of strings", Value::as_str)
    }

    /// A list of integers, each within `range`.
    pub fn list_of_int(&self, name: &str, range: RangeInclusive<usize>) -> Result<Vec<usize>> {
        let expected = list_of_int(&range);
        self.opt_list_of_int(name, range)?.ok_or_else(|| self.refuse(name, &expected))
    }

    /// A list of integers, each within `range`, if it is there.
    pub fn opt_list_of_int(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<Vec<usize>>> {
        self.opt_list(name, &list_of_int(&range), |item| integer(item).filter(|item| range.contains(item)))
    }

    /// A list of numbers that an f32 can hold, and nulls, if it is there.
    pub fn opt_list_of_float(&self, name: &str) -> Result<Option<Vec<Option<f64>>>> {
        self.opt_list(name, &format!("a list, each null or {}", number_in(&FLOATS)), |item| match item {
            Value::Null => Some(None),
            item => item.as_f64().filter(|item| FLOATS.contains(item)).map(Some),
        })
    }

    /// Token ids: one id or a list of ids; none when absent.
    pub fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let expected = format!("a token id or a list of them, each in {IDS:?}");
        let id = |value: &Value| integer(value).filter(|id| IDS.contains(id)).map(|id| id as u32);
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(_)) => Ok(self.opt_list(name, &expected, id)?.unwrap_or_default()),
            Some(value) => Ok(vec![id(value).ok_or_else(|| self.refuse(name, &expected))?]),
        }
    }

    /// The product of dimensions, bounded to what an i32 can count. `what` names it: `num_attention_heads * head_dim`.
    pub fn product(&self, what: &str, factors: &[usize]) -> Result<usize> {
        let product = factors.iter().try_fold(1usize, |product, factor| product.checked_mul(*factor));
        product.filter(|product| *product <= ELEMENTS).ok_or_else(|| CheckpointError::Field {
            file: self.file.to_string(),
            field: format!("{}{what}", self.prefix),
            found: factors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" * "),
            expected: format!("a product of at most {ELEMENTS}"),
        })
    }

    /// `num_attention_heads` and `num_key_value_heads`, or `default` where they are absent: as many query heads for every
    /// key head, of `head_dim` elements each.
    pub fn heads(&self, default: (usize, usize)) -> Result<(usize, usize)> {
        let heads = self.dim_or("num_attention_heads", default.0)?;
        let kv_heads = self.dim_or("num_key_value_heads", default.1)?;
        if heads % kv_heads != 0 {
            let expected = format!("a multiple of num_key_value_heads ({kv_heads})");
            return Err(self.refuse("num_attention_heads", &expected));
        }
        Ok((heads, kv_heads))
    }

    /// Refuses any activation of the feed-forward but SiLU.
    pub fn only_silu(&self) -> Result<()> {
        for field in ["hidden_act", "hidden_activation"] {
            if self.opt_str(field)?.is_some_and(|name| name != "silu") {
                return Err(self.refuse(field, "\"silu\""));
            }
        }
        Ok(())
    }

    /// As [`Self::refuse`], as the result of whatever was to be read.
    pub fn reject<T>(&self, name: &str, expected: &str) -> crate::Result<T> {
        Err(self.refuse(name, expected).into())
    }

    /// The refusal of field `name` with its value as found: for rules that only the architecture knows.
    pub fn refuse(&self, name: &str, expected: &str) -> CheckpointError {
        CheckpointError::Field {
            file: self.file.to_string(),
            field: format!("{}{name}", self.prefix),
            found: self.value(name).map_or_else(|| "missing".to_owned(), shown),
            expected: expected.to_owned(),
        }
    }

    fn opt_list<'a, T>(
        &'a self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let Some(items) = value.as_array().filter(|items| items.len() <= LIST) else {
            return Err(self.refuse(name, expected));
        };
        let item = |(at, item)| {
            read(item).ok_or_else(|| CheckpointError::Field {
                file: self.file.to_string(),
                field: format!("{}{name}[{at}]", self.prefix),
                found: shown(item),
                expected: expected.to_owned(),
            })
        };
        items.iter().enumerate().map(item).collect::<Result<Vec<_>>>().map(Some)
    }
}

/// An integer, also one written as a float without fraction. Beyond 2^53 a float is no exact integer.
fn integer(value: &Value) -> Option<usize> {
    const EXACT: f64 = (1u64 << 53) as f64;
    let whole = |value: f64| (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)).then_some(value as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole)).and_then(|value| usize::try_from(value).ok())
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => {
            format!("{} ({})", kind(value), shortened(&value.to_string(), 48))
        }
        scalar => shortened(&scalar.to_string(), 64),
    }
}

fn integer_in(range: &RangeInclusive<usize>) -> String {
    format!("an integer in {range:?}")
}

fn list_of_int(range: &RangeInclusive<usize>) -> String {
    format!("a list of integers in {range:?}")
}

fn number_in(range: &RangeInclusive<f64>) -> String {
    if *range == FLOATS {
        return "a number that an f32 can hold".to_owned();
    }
    format!("a number in {:?}..={:?}", range.start(), range.end())
}

#[cfg(test)]
mod tests;
