//! The template engine, set up as Hugging Face's `apply_chat_template` sets up Jinja2.

use std::io;

use minijinja::{Environment, Error, ErrorKind, Template, UndefinedBehavior, Value, syntax::SyntaxConfig};

use super::{
    TemplateError,
    error::{Raise, describe},
    json,
};

/// Name of the one template of an environment.
pub(super) const NAME: &str = "chat_template";
/// Steps of one rendering; a step makes at most 64 bytes of text.
pub(super) const FUEL: u64 = 8_000_000;
/// Bytes of a prompt: some two million tokens.
pub(super) const MAX_OUTPUT: usize = 8 << 20;
/// Bytes of a template. The longest published ones have some 20 thousand.
const MAX_SOURCE: usize = 1 << 20;
/// Macro calls and blocks within each other.
const MAX_DEPTH: usize = 64;

/// Compiles the template that stands in `file`.
pub(super) fn compile(file: &'static str, source: &str) -> Result<Environment<'static>, TemplateError> {
    if source.len() > MAX_SOURCE {
        return Err(TemplateError::TooLong { file, found: source.len(), limit: MAX_SOURCE });
    }
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| TemplateError::render(&error))?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", json::to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(NAME, without_generation_tags(source)).map_err(|error| {
        TemplateError::Syntax { file, line: error.line().unwrap_or(0), detail: describe(&error) }
    })?;
    Ok(environment)
}

/// Runs the template; the output is bounded while it is written.
pub(super) fn render<'v>(
    template: &Template<'_, '_>,
    variables: impl Iterator<Item = (&'v str, Value)>,
) -> Result<String, TemplateError> {
    let mut output = Bounded(Vec::new());
    template
        .render_captured_to(Value::from_pairs(variables), &mut output)
        .map_err(|error| TemplateError::render(&error))?;
    Ok(String::from_utf8_lossy(&output.0).into_owned())
}

struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raise(message)))
}

/// Local date and time in the format of `strftime`.
fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now()).map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {error}"))
    })
}

/// `{% generation %}` marks the assistant's words for training. It changes no text: it becomes an `if` that holds.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let inner = tag.trim_start_matches(['-', '+']).trim_start();
        for (word, stand_in) in [("generation", "if true"), ("endgeneration", "endif")] {
            let Some(after) = inner.strip_prefix(word) else { continue };
            if after.trim_start().trim_start_matches(['-', '+']).starts_with("%}") {
                out.push_str(&tag[..tag.len() - inner.len()]);
                out.push_str(stand_in);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
