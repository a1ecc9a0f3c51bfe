//! Typed reading of the fields of an object.

use mlxcel_core::sampling::Seed;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::error::{ApiError, short};

/// The fields of one object, and what its place is called in messages.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// Empty, or `speculative.` for an object within the body.
    place: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of the body.
    pub(crate) fn new(object: &'a Map<String, Value>) -> Self {
        Self { object, place: "" }
    }

    /// The fields of an object within the body; `place` ends with a dot.
    pub(crate) fn within(object: &'a Map<String, Value>, place: &'static str) -> Self {
        Self { object, place }
    }

    /// A field that is there and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, expected, value))
    }

    /// The refusal of a value.
    pub(crate) fn wrong(&self, name: &str, expected: &str, value: &Value) -> ApiError {
        ApiError::field(
            &format!("{}{name}", self.place),
            format_args!("expected {expected}, found {}", shown(value)),
        )
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.read(name, "a number", Value::as_f64)
    }

    /// An integer of at least `least`.
    pub(crate) fn count(&self, name: &str, least: usize) -> Result<Option<usize>, ApiError> {
        let fits = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|&count| count >= least);
        self.read(name, &format!("an integer of at least {least}"), fits)
    }

    /// An integer of 1 to `most`, which is `what`.
    pub(crate) fn count_up_to(&self, name: &str, most: usize, what: &str) -> Result<Option<usize>, ApiError> {
        let fits =
            |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|count| (1..=most).contains(count));
        self.read(name, &format!("an integer of 1 to {most}, {what}"), fits)
    }

    /// A string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.read(name, "a string", Value::as_str)
    }

    /// An object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        self.read(name, "an object", Value::as_object)
    }

    /// A list.
    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ApiError> {
        self.read(name, "a list", Value::as_array)
    }

    /// Any integer of 64 bits, by its bits.
    pub(crate) fn seed(&self, name: &str) -> Result<Option<Seed>, ApiError> {
        self.read(name, "an integer of 64 bits", |value| Seed::deserialize(value).ok())
    }
}

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A small value as it is, a large one in words.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        small => short(&small.to_string()),
    }
}
