//! Requests, read field by field: whatever is wrong, the error names the field.
//!
//! Fields that are unknown and harmless are ignored; fields that would change the answer and are not built are refused by
//! name. `null` is the same as an absent field.

mod chat;
mod common;
mod completion;
mod fields;
mod refused;
mod sampling;

pub(crate) use chat::{ChatBody, Conversation};
pub(crate) use common::{Common, Wish};
pub(crate) use completion::{CompletionBody, PromptInput};
pub(crate) use fields::Fields;

use serde_json::{Map, Value};

use crate::error::{ApiError, short};

/// The JSON object of a body.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    // Some clients on Windows send a byte order mark.
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => {
            Err(ApiError::invalid(format!("the body is {}, expected a JSON object", fields::kind(&other))))
        }
        Err(error) if body.is_empty() => {
            Err(ApiError::invalid(format!("the body is empty, expected a JSON object ({error})")))
        }
        Err(error) => Err(not_json(body, &error)),
    }
}

/// Names the field that is being read where the JSON breaks, as far as one can be told.
fn not_json(body: &[u8], error: &serde_json::Error) -> ApiError {
    let before = body.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    let at = (before.map(<[u8]>::len).sum::<usize>() + error.column()).min(body.len());
    let text = String::from_utf8_lossy(&body[..at]);
    let message = format!("the body is not JSON: {error}");
    match last_key(&text) {
        Some(key) => ApiError::field(&short(key), message),
        None => ApiError::invalid(message),
    }
}

/// The last `"key":` of a text whose value has not ended.
fn last_key(text: &str) -> Option<&str> {
    let colon = text.rfind(':')?;
    if text[colon + 1..].contains([',', '}', ']']) {
        return None;
    }
    let key = text[..colon].trim_end().strip_suffix('"')?;
    let key = &key[key.rfind('"')? + 1..];
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> String {
        object(body).unwrap_err().json()["error"]["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_no_object_is_said() {
        let bodies: [&[u8]; 9] = [
            b"",
            b"[]",
            b"null",
            b"\"x\"",
            b"5",
            b"{\"model\": default}",
            b"{\"max_tokens\": 4, \"temperature\":NaN}",
            b"{\"a\": [1, 2], \"temperature\": 1e999}",
            b"{\"\xff\xfe",
        ];
        insta::assert_snapshot!(bodies.map(refusal).join("\n"), @r"
        the body is empty, expected a JSON object (EOF while parsing a value at line 1 column 0)
        the body is a list, expected a JSON object
        the body is null, expected a JSON object
        the body is a string, expected a JSON object
        the body is a number, expected a JSON object
        model: the body is not JSON: expected value at line 1 column 11
        temperature: the body is not JSON: expected value at line 1 column 33
        temperature: the body is not JSON: number out of range at line 1 column 34
        the body is not JSON: EOF while parsing a string at line 1 column 4
        ");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert!(object(b"\xEF\xBB\xBF{\"a\": 1}").is_ok());
    }

    #[test]
    fn nesting_without_end_is_an_error() {
        let deep = format!("{{\"x\": {}", "[".repeat(100_000));
        assert!(refusal(deep.as_bytes()).contains("recursion limit"), "{}", refusal(deep.as_bytes()));
    }
}
