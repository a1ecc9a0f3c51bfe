//! What would change the answer and is not built: refused by name, never ignored.

use serde_json::Value;

use super::Fields;
use crate::error::ApiError;

/// Fields that are refused unless they have a value that asks for nothing.
const REFUSED: &[&str] = &[
    "audio",
    "dry_multiplier",
    "function_call",
    "functions",
    "grammar",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "json_schema",
    "mirostat",
    "structured_outputs",
    "suffix",
    "top_a",
    "use_beam_search",
    "xtc_probability",
];

/// Checks everything that both routes refuse.
pub(super) fn check(fields: &Fields<'_>) -> Result<(), ApiError> {
    for name in REFUSED {
        if fields.get(name).is_some_and(asks) {
            return Err(ApiError::unsupported(name, "this field"));
        }
    }
    for name in ["n", "best_of"] {
        if fields.count(name, 1)?.is_some_and(|count| count > 1) {
            return Err(ApiError::unsupported(name, "more than one choice"));
        }
    }
    // Filters of other samplers; 1 is off.
    for name in ["typical_p", "tfs_z"] {
        if fields.number(name)?.is_some_and(|value| value != 1.0) {
            return Err(ApiError::unsupported(name, "a value other than 1"));
        }
    }
    if let Some(format) = fields.object("response_format")? {
        let kind = Fields::within(format, "response_format.").text("type")?;
        if kind != Some("text") {
            return Err(ApiError::unsupported("response_format", "a type other than \"text\""));
        }
    }
    if let Some(modalities) = fields.list("modalities")?
        && modalities.iter().any(|modality| modality != "text")
    {
        return Err(ApiError::unsupported("modalities", "anything but [\"text\"]"));
    }
    Ok(())
}

/// Whether tools are to be rendered; a choice that binds the model is refused.
pub(super) fn tools_wanted(fields: &Fields<'_>) -> Result<bool, ApiError> {
    match fields.get("tool_choice") {
        None => Ok(true),
        Some(Value::String(choice)) if choice == "auto" => Ok(true),
        Some(Value::String(choice)) if choice == "none" => Ok(false),
        Some(Value::String(choice)) if choice == "required" => {
            Err(ApiError::unsupported("tool_choice", "\"required\""))
        }
        Some(Value::Object(_)) => Err(ApiError::unsupported("tool_choice", "a named tool")),
        Some(other) => Err(fields.wrong("tool_choice", "\"auto\" or \"none\"", other)),
    }
}

/// Whether a value asks for anything.
fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) | Value::Bool(true) => true,
    }
}
