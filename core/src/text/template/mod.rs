//! The chat template: messages to the text of a prompt.
//!
//! A template comes with the model folder and is not trusted: it has fuel (steps and bytes made), a limit on depth and
//! on output, and reads no files.

mod environment;
mod error;
mod json;
mod messages;
mod source;
#[cfg(test)]
mod tests;

use minijinja::Environment;
use serde_json::{Map, Value as Json, json};

pub use error::TemplateError;

use self::{environment::NAME, messages::ContentForm, source::Sources};
use super::{controls::Controls, files::TextFiles, rendered::Rendered, tokenizer::Tokenizer};

/// What a chat template is rendered with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatRequest<'a> {
    /// The conversation as OpenAI's objects: `role`, `content` (a string or a list of text parts), `tool_calls`, ...
    pub messages: &'a [Json],
    /// Tools that the model may call, as OpenAI's objects.
    pub tools: &'a [Json],
    /// Ends the prompt with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Further variables of the template, `enable_thinking` for one.
    pub kwargs: Option<&'a Map<String, Json>>,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    default: Compiled,
    /// Taken where the request has tools.
    tool_use: Option<Compiled>,
    /// `bos_token`, `eos_token`, `pad_token`, `unk_token` as far as the tokenizer has them.
    special: Map<String, Json>,
}

#[derive(Debug)]
struct Compiled {
    environment: Environment<'static>,
    source: String,
    content: ContentForm,
}

impl ChatTemplate {
    /// The template of a checkpoint: `chat_template.jinja`, else `chat_template.json`, else `chat_template` of
    /// `tokenizer_config.json`. A syntax error is found here, with its line.
    pub fn load(files: &TextFiles<'_>) -> Result<Self, TemplateError> {
        let config = files.tokenizer_config().map_err(|error| TemplateError::files(&error))?;
        let tokens = [
            ("bos_token", &config.bos_token),
            ("eos_token", &config.eos_token),
            ("pad_token", &config.pad_token),
            ("unk_token", &config.unk_token),
        ];
        let special = tokens
            .into_iter()
            .filter_map(|(name, token)| Some((name.to_owned(), token.as_ref()?.text().into())))
            .collect();
        let Sources { file, default, tool_use } = source::find(files, config.chat_template)?;
        let compile = |source| Compiled::new(file, source, &special);
        Ok(Self { default: compile(default)?, tool_use: tool_use.map(compile).transpose()?, special })
    }

    /// Whether the template asks for the variable, `enable_thinking` for one.
    pub fn reads(&self, variable: &str) -> bool {
        std::iter::once(&self.default).chain(&self.tool_use).any(|compiled| {
            let template = compiled.environment.get_template(NAME);
            template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
        })
    }

    /// Renders a conversation. Control tokens in messages, tools and further variables are marked as text; only
    /// reasoning tags that the template itself looks for stay whole in the assistant's own messages.
    pub fn render(&self, request: ChatRequest<'_>, tokenizer: &Tokenizer) -> Result<Rendered, TemplateError> {
        let template = match &self.tool_use {
            Some(tool_use) if !request.tools.is_empty() => tool_use,
            _ => &self.default,
        };
        template.render(request, &self.special, tokenizer.controls()).map(Rendered::new)
    }
}

impl Compiled {
    fn new(file: &'static str, source: String, special: &Map<String, Json>) -> Result<Self, TemplateError> {
        let environment = environment::compile(file, &source)?;
        let mut compiled = Self { environment, source, content: ContentForm::Both };
        compiled.content = compiled.probe(special);
        Ok(compiled)
    }

    fn render(
        &self,
        request: ChatRequest<'_>,
        special: &Map<String, Json>,
        controls: &Controls,
    ) -> Result<String, TemplateError> {
        let mut messages = messages::normalise(request.messages, &self.source, self.content)?;
        for message in &mut messages {
            messages::mark_message(message, controls, &self.source)?;
        }
        let mut variables = special.clone();
        for (name, value) in request.kwargs.into_iter().flatten() {
            if special.contains_key(name)
                || ["messages", "tools", "add_generation_prompt"].contains(&name.as_str())
            {
                return Err(TemplateError::Reserved { name: name.clone() });
            }
            let mut value = value.clone();
            messages::mark_value(&mut value, controls, &|_| false)?;
            variables.insert(name.clone(), value);
        }
        let mut tools = Json::Array(request.tools.to_vec());
        messages::mark_value(&mut tools, controls, &|_| false)?;
        variables.insert("messages".to_owned(), messages.into());
        // Templates test `tools` for truth or for `is not none`; both see an absent list in the same way.
        variables.insert("tools".to_owned(), if request.tools.is_empty() { Json::Null } else { tools });
        variables.insert("add_generation_prompt".to_owned(), request.add_generation_prompt.into());
        self.run(&variables)
    }

    fn run(&self, variables: &Map<String, Json>) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME).map_err(|error| TemplateError::render(&error))?;
        environment::render(
            &template,
            variables.iter().map(|(name, value)| (name.as_str(), json::from_json(value))),
        )
    }

    /// Which form of `content` the template reads, found by showing it both.
    fn probe(&self, special: &Map<String, Json>) -> ContentForm {
        const WORD: &str = "probe-of-content";
        let reads = |content: Json| {
            let mut variables = special.clone();
            variables.insert("messages".to_owned(), json!([{"role": "user", "content": content}]));
            variables.insert("tools".to_owned(), Json::Null);
            variables.insert("add_generation_prompt".to_owned(), true.into());
            // A template that prints the list as such does not read it.
            self.run(&variables).is_ok_and(|text| text.contains(WORD) && !text.contains("'type'"))
        };
        match (reads(WORD.into()), reads(json!([{"type": "text", "text": WORD}]))) {
            (true, false) => ContentForm::Text,
            (false, true) => ContentForm::Parts,
            _ => ContentForm::Both,
        }
    }
}
