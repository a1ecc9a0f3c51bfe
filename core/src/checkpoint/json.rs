//! JSON objects whose keys are all different.
//!
//! A key that appears twice means two values for one fact; Python's reader takes the last, others the first. No
//! tool writes such a file, so it is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use super::{CheckpointError, Result};

/// Parses `bytes` as one object. Numbers that f64 cannot hold (`1e999`), `NaN` and `Infinity` are errors of syntax.
pub(super) fn object(file: &str, bytes: &[u8]) -> Result<Map<String, Value>> {
    let refuse =
        |found: String| CheckpointError::Json { file: file.to_owned(), found, expected: "a JSON object" };
    if bytes.trim_ascii().is_empty() {
        return Err(refuse("empty".to_owned()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Unique
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| match error.classify() {
            Category::Data => refuse(error.to_string()),
            Category::Syntax | Category::Eof | Category::Io => refuse(format!("not valid JSON ({error})")),
        })?;
    match value {
        Value::Object(object) => Ok(object),
        other => Err(refuse(kind(&other).to_owned())),
    }
}

/// What kind of value it is, with its article.
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

/// Deserializes any value, refusing repeated keys at every depth.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Unique)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Unique)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key \"{key}\" appears twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
