//! JSON into the template and out of it, written as Python writes it.

use std::fmt::Write as _;

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};
use serde_json::Value as Json;

use super::environment::MAX_OUTPUT;
use crate::text::controls::MARK;

/// Lists and objects within each other that are written out.
const MAX_DEPTH: usize = 128;

/// A JSON value as the template sees it. The depth of `json` is bounded by who made it.
pub(super) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect::<Vec<_>>().into(),
        Json::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(name, value)| (name.as_str(), from_json(value))))
        }
    }
}

/// `value | tojson`: `json.dumps(value, ensure_ascii=False)`, with `indent`, `separators`, `sort_keys` and
/// `ensure_ascii` where they are given. Unlike Jinja2's own filter it escapes no HTML.
#[expect(clippy::needless_pass_by_value, reason = "the engine gives keyword arguments away by value")]
pub(super) fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    let sort: Option<bool> = kwargs.get("sort_keys")?;
    kwargs.assert_all_used()?;
    let item = if indent.is_some() { "," } else { ", " };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.as_str(), key.as_str()),
        _ => (item, ": "),
    };
    let style = Style {
        item,
        key,
        indent: indent.map(|spaces| spaces.min(16)),
        sort: sort == Some(true),
        ascii: ascii == Some(true),
    };
    let mut text = String::new();
    style.write(&mut text, value, 0)?;
    Ok(text)
}

/// How a value is written.
struct Style<'s> {
    item: &'s str,
    key: &'s str,
    indent: Option<usize>,
    sort: bool,
    ascii: bool,
}

impl Style<'_> {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        // A value can hold itself many times over, so that its text grows without bounds at no cost in fuel.
        if out.len() > MAX_OUTPUT {
            return Err(Error::new(ErrorKind::OutOfFuel, "value is too large to be written"));
        }
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "value is nested too deep to be written"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => quote(out, value.as_str().unwrap_or_default(), self.ascii),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort {
                    keys.sort();
                }
                self.list(out, ['{', '}'], depth, &keys, |out, key| {
                    self.write(out, key, depth + 1)?;
                    out.push_str(self.key);
                    self.write(out, &value.get_item(key)?, depth + 1)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(out, ['[', ']'], depth, &items, |out, item| self.write(out, item, depth + 1))?;
            }
            ValueKind::Undefined => {
                return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be written"));
            }
            _ => out.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn list(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        depth: usize,
        items: &[Value],
        write: impl Fn(&mut String, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, depth: usize| {
            if let Some(spaces) = self.indent.filter(|_| !items.is_empty()) {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', spaces * depth));
            }
        };
        out.push(open);
        for (nth, item) in items.iter().enumerate() {
            out.push_str(if nth == 0 { "" } else { self.item });
            line(out, depth + 1);
            write(out, item)?;
        }
        line(out, depth);
        out.push(close);
        Ok(())
    }
}

fn quote(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            // A mark is no letter of the text; it is taken out after rendering.
            letter if letter < ' ' || (ascii && !letter.is_ascii() && letter != MARK) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}
