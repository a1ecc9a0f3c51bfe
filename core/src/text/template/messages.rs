//! Messages before they meet the template: checked, brought to the form that it reads, marked.

use serde_json::{Map, Value as Json};

use super::TemplateError;
use crate::text::controls::{Control, Controls};

/// The roles of OpenAI's protocol.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];
/// Lists and objects within each other; serde_json reads no deeper ones.
const MAX_DEPTH: usize = 128;

/// The form of `content` that a template reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentForm {
    /// A string only: text parts are put together.
    Text,
    /// A list of parts only: a string becomes one part.
    Parts,
    /// Either.
    Both,
}

/// Checks every message and brings it to the template's form:
/// * `developer` is `system` where the template does not know the word;
/// * a null `content` beside tool calls is empty;
/// * the arguments of a tool call, JSON in a string on the wire, are an object.
pub(super) fn normalise(
    messages: &[Json],
    source: &str,
    form: ContentForm,
) -> Result<Vec<Json>, TemplateError> {
    if messages.is_empty() {
        return Err(TemplateError::Message { index: 0, detail: " is missing; expected at least one".into() });
    }
    let one = |(index, message): (usize, &Json)| {
        normalise_one(message, source, form).map_err(|detail| TemplateError::Message { index, detail })
    };
    messages.iter().enumerate().map(one).collect()
}

fn normalise_one(message: &Json, source: &str, form: ContentForm) -> Result<Json, String> {
    let Some(fields) = message.as_object() else {
        return Err(format!(" is {}; expected an object", kind(message)));
    };
    let mut fields = fields.clone();
    let expected = || ROLES.join(", ");
    let role = match fields.get("role") {
        None => return Err(format!(".role is missing; expected one of {}", expected())),
        Some(Json::String(role)) if ROLES.contains(&role.as_str()) => role.clone(),
        Some(Json::String(role)) => {
            return Err(format!(".role is `{}`; expected one of {}", shortened(role), expected()));
        }
        Some(other) => return Err(format!(".role is {}; expected one of {}", kind(other), expected())),
    };
    if role == "developer" && !source.contains("developer") {
        fields.insert("role".to_owned(), "system".into());
    }
    normalise_calls(&mut fields)?;

    let optional = role == "assistant"
        && ["tool_calls", "reasoning_content"].iter().any(|field| fields.contains_key(*field));
    let content = match fields.get("content") {
        None | Some(Json::Null) if optional => Json::String(String::new()),
        None => return Err(".content is missing; expected a string or a list of text parts".to_owned()),
        Some(Json::String(text)) if form == ContentForm::Parts => {
            serde_json::json!([{"type": "text", "text": text}])
        }
        Some(Json::String(text)) => Json::String(text.clone()),
        Some(Json::Array(parts)) => {
            let texts = texts(parts)?;
            if form == ContentForm::Text { texts.concat().into() } else { Json::Array(parts.clone()) }
        }
        Some(other) => {
            return Err(format!(".content is {}; expected a string or a list of text parts", kind(other)));
        }
    };
    fields.insert("content".to_owned(), content);
    Ok(Json::Object(fields))
}

fn texts(parts: &[Json]) -> Result<Vec<&str>, String> {
    parts
        .iter()
        .enumerate()
        .map(|(nth, part)| text_of(part).map_err(|why| format!(".content[{nth}]{why}")))
        .collect()
}

fn text_of(part: &Json) -> Result<&str, String> {
    match (part.get("type").and_then(Json::as_str), part.get("text").and_then(Json::as_str)) {
        (Some("text"), Some(text)) => Ok(text),
        (Some("text"), None) => Err(" has no `text` string; expected one".to_owned()),
        (Some(other), _) => Err(format!(".type is `{}`; this model reads `text` only", shortened(other))),
        (None, _) => Err(" has no `type`; expected {\"type\": \"text\", \"text\": ...}".to_owned()),
    }
}

fn normalise_calls(fields: &mut Map<String, Json>) -> Result<(), String> {
    let calls = match fields.get_mut("tool_calls") {
        None => return Ok(()),
        Some(Json::Null) => {
            fields.remove("tool_calls");
            return Ok(());
        }
        Some(Json::Array(calls)) => calls,
        Some(other) => return Err(format!(".tool_calls is {}; expected a list", kind(other))),
    };
    for (nth, call) in calls.iter_mut().enumerate() {
        let Some(function) = call.get_mut("function").and_then(Json::as_object_mut) else {
            return Err(format!(".tool_calls[{nth}].function is missing; expected an object"));
        };
        if !function.get("name").is_some_and(Json::is_string) {
            return Err(format!(".tool_calls[{nth}].function.name is missing; expected a string"));
        }
        if let Some(Json::String(text)) = function.get("arguments")
            && let Ok(arguments @ Json::Object(_)) = serde_json::from_str(text)
        {
            function.insert("arguments".to_owned(), arguments);
        }
    }
    Ok(())
}

/// Marks the control tokens in a message. The assistant's own content keeps the tags that the template looks for,
/// such as `</think>`: it takes past reasoning out by them.
pub(super) fn mark_message(
    message: &mut Json,
    controls: &Controls,
    source: &str,
) -> Result<(), TemplateError> {
    let assistant = message.get("role").and_then(Json::as_str) == Some("assistant");
    let parsed = |control: &Control| !control.token.special && source.contains(&control.token.content);
    let Some(fields) = message.as_object_mut() else { return Ok(()) };
    for (name, value) in fields.iter_mut() {
        if assistant && name == "content" {
            mark_value(value, controls, &parsed)?;
        } else {
            mark_value(value, controls, &|_| false)?;
        }
    }
    Ok(())
}

/// Marks every string within a value, names of fields included.
pub(super) fn mark_value(
    value: &mut Json,
    controls: &Controls,
    keep: &dyn Fn(&Control) -> bool,
) -> Result<(), TemplateError> {
    fn walk(
        value: &mut Json,
        controls: &Controls,
        keep: &dyn Fn(&Control) -> bool,
        depth: usize,
    ) -> Result<(), TemplateError> {
        if depth > MAX_DEPTH {
            return Err(TemplateError::Depth { limit: MAX_DEPTH });
        }
        match value {
            Json::String(text) => *text = controls.mark(text, keep).into_owned(),
            Json::Array(items) => {
                items.iter_mut().try_for_each(|item| walk(item, controls, keep, depth + 1))?;
            }
            Json::Object(fields) => {
                for (name, mut field) in std::mem::take(fields) {
                    walk(&mut field, controls, keep, depth + 1)?;
                    fields.insert(controls.mark(&name, keep).into_owned(), field);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
        Ok(())
    }
    walk(value, controls, keep, 0)
}

/// What a value is, in words.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// Enough of a client's text to recognise it in a message.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
