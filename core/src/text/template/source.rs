//! Where a checkpoint keeps its chat template.

use serde::Deserialize;

use super::TemplateError;
use crate::text::files::{NamedTemplate, TemplateField, TextFiles, parse};

/// Templates of a checkpoint, before they are compiled.
#[derive(Debug)]
pub(super) struct Sources {
    /// The file they come from.
    pub(super) file: &'static str,
    pub(super) default: String,
    /// For conversations with tools.
    pub(super) tool_use: Option<String>,
}

#[derive(Default, Deserialize)]
struct ChatTemplateFile {
    chat_template: Option<TemplateField>,
}

/// Looks in the order `chat_template.jinja`, `chat_template.json`, `tokenizer_config.json`; `of_config` is the
/// field of the last.
pub(super) fn find(
    files: &TextFiles<'_>,
    of_config: Option<TemplateField>,
) -> Result<Sources, TemplateError> {
    if let Some(bytes) = &files.chat_template_jinja {
        let file = "chat_template.jinja";
        let text = std::str::from_utf8(bytes)
            .map_err(|error| TemplateError::Files { detail: format!("{file} is not UTF-8: {error}") })?;
        return Ok(Sources { file, default: text.to_owned(), tool_use: None });
    }
    let file = "chat_template.json";
    let of_file: ChatTemplateFile =
        parse(file, files.chat_template_json.as_deref()).map_err(|error| TemplateError::files(&error))?;
    match (of_file.chat_template, of_config) {
        (Some(field), _) => choose(file, field),
        (None, Some(field)) => choose("tokenizer_config.json", field),
        (None, None) => Err(TemplateError::Missing),
    }
}

fn choose(file: &'static str, field: TemplateField) -> Result<Sources, TemplateError> {
    let named = match field {
        TemplateField::One(default) => return Ok(Sources { file, default, tool_use: None }),
        TemplateField::Named(named) => named,
    };
    let find = |name: &str| named.iter().find(|entry| entry.name == name).map(|entry| entry.template.clone());
    let default = find("default").ok_or_else(|| TemplateError::NoDefault { found: names(&named) })?;
    Ok(Sources { file, default, tool_use: find("tool_use") })
}

fn names(named: &[NamedTemplate]) -> String {
    let names: Vec<String> = named.iter().map(|entry| format!("`{}`", entry.name)).collect();
    if names.is_empty() { "no template".to_owned() } else { names.join(", ") }
}
