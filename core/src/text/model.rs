//! All that a checkpoint says about text, in one place.

use serde_json::Value;

use super::{
    detokenizer::SpecialTokens,
    eos::{EosError, EosSet},
    files::{FilesError, TextFiles},
    generation,
    reasoning::ReasoningFormat,
    rendered::Rendered,
    stop::StopMatcher,
    stream::TextStream,
    template::{ChatRequest, ChatTemplate, TemplateError},
    tokenizer::{Tokenizer, TokenizerError},
};
use crate::{TokenId, sampling::SamplingSettings};

/// Bytes of a prompt: some two million tokens, more than any context. Longer texts are refused unread.
pub const MAX_PROMPT_BYTES: usize = 8 << 20;

/// Why a checkpoint's text files cannot be used, or there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The end tokens.
    #[error(transparent)]
    Eos(#[from] EosError),
    /// A file that says how to sample.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The chat template; [`TemplateError::is_request`] tells whose fault it is.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A prompt that no context holds.
    #[error(
        "the prompt has more than {limit} bytes of text, and no model reads so much\nhint: shorten the prompt"
    )]
    TooLong {
        /// Bytes allowed.
        limit: usize,
    },
}

impl TextError {
    /// Whether the request is at fault: the same checkpoint may serve another one.
    pub fn is_request(&self) -> bool {
        match self {
            Self::Template(error) => error.is_request(),
            Self::TooLong { .. } | Self::Tokenizer(TokenizerError::Encode { .. }) => true,
            Self::Tokenizer(_) | Self::Eos(_) | Self::Files(_) => false,
        }
    }
}

/// Tokenizer, chat template, end tokens and reasoning format of a checkpoint.
#[derive(Debug)]
pub struct TextModel {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The chat template. A missing or broken one is no reason to refuse the checkpoint: raw prompts work without.
    pub template: Result<ChatTemplate, TemplateError>,
    /// The tokens that end an answer.
    pub eos: EosSet,
    /// How reasoning is marked.
    pub reasoning: ReasoningFormat,
    /// How the checkpoint wants to be sampled, for requests that leave it open; not yet checked.
    pub sampling: SamplingSettings,
}

/// A prompt that is ready for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its tokens.
    pub ids: Vec<TokenId>,
    /// Its text as people read it.
    pub text: String,
}

impl TextModel {
    /// Reads the files of a checkpoint.
    pub fn load(files: &TextFiles<'_>) -> Result<Self, TextError> {
        let tokenizer = Tokenizer::from_json(&files.tokenizer_json)?;
        let mut eos = EosSet::load(files, &tokenizer)?;
        let reasoning = ReasoningFormat::detect(&tokenizer);
        if let ReasoningFormat::Messages { end_of_message, end_of_turn, .. } = reasoning {
            // More messages may follow a message: a file that lists its end among the end tokens is wrong.
            eos.swap(end_of_message, end_of_turn);
        }
        let sampling = generation::sampling(files)?;
        Ok(Self { tokenizer, template: ChatTemplate::load(files), eos, reasoning, sampling })
    }

    /// The prompt of a conversation.
    pub fn chat_prompt(&self, request: ChatRequest<'_>) -> Result<Prompt, TextError> {
        let template = self.template.as_ref().map_err(Clone::clone)?;
        bounded(request.messages.iter().chain(request.tools).map(text_bytes).sum())?;
        let rendered: Rendered = template.render(request, &self.tokenizer)?;
        Ok(Prompt { ids: self.tokenizer.encode_template(&rendered)?, text: rendered.text() })
    }

    /// Ids of a text that the model continues as it stands: control tokens in it are control tokens.
    pub fn continued(&self, text: &str) -> Result<Vec<TokenId>, TextError> {
        bounded(text.len())?;
        Ok(self.tokenizer.encode(text)?)
    }

    /// A raw prompt, as [`Tokenizer::encode_document`] encodes it.
    pub fn raw_prompt(&self, text: &str) -> Result<Prompt, TextError> {
        bounded(text.len())?;
        Ok(Prompt { ids: self.tokenizer.encode_document(text)?, text: text.to_owned() })
    }

    /// The text of the answer to a chat prompt: split into channels, without special tokens.
    pub fn chat_stream(&self, prompt: &[TokenId], stops: StopMatcher) -> TextStream {
        TextStream::new(self.reasoning.splitter(&self.tokenizer, prompt), stops, SpecialTokens::Skip)
    }

    /// The text of the continuation of a raw prompt: all of it content.
    pub fn raw_stream(&self, stops: StopMatcher, special: SpecialTokens) -> TextStream {
        TextStream::new(ReasoningFormat::None.splitter(&self.tokenizer, &[]), stops, special)
    }
}

fn bounded(bytes: usize) -> Result<(), TextError> {
    if bytes > MAX_PROMPT_BYTES { Err(TextError::TooLong { limit: MAX_PROMPT_BYTES }) } else { Ok(()) }
}

/// Bytes of all text in a value that a parser, which bounds its depth, has made.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + text_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::{
        Channel,
        testing::{byte_level_json, tracked_files},
    };

    #[test]
    fn from_messages_to_an_answer() {
        let model = TextModel::load(&tracked_files()).unwrap();
        let messages = [json!({"role": "user", "content": "Hi"})];
        let request =
            ChatRequest { messages: &messages, add_generation_prompt: true, ..ChatRequest::default() };
        let prompt = model.chat_prompt(request).unwrap();
        assert_eq!(prompt.text, "<|startoftext|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
        assert_eq!(prompt.ids[..2], [TokenId(1), TokenId(3)]);

        let answer = model.tokenizer.encode("<think>\nHm.\n</think>\n\nHello STOP it").unwrap();
        let mut stream = model.chat_stream(&prompt.ids, StopMatcher::new(&["STOP"]).unwrap());
        let mut text = String::new();
        for &id in &answer {
            let step = stream.push(&model.tokenizer, id);
            for piece in step.pieces.iter().filter(|piece| piece.channel == Channel::Content) {
                text.push_str(&piece.text);
            }
        }
        assert_eq!(text, "Hello ");
        assert!(stream.tokens() < answer.len());
    }

    #[test]
    fn raw_prompts_work_without_a_template() {
        let files = TextFiles { chat_template_jinja: None, tokenizer_config: None, ..tracked_files() };
        let model = TextModel::load(&files).unwrap();
        let messages = [json!({"role": "user", "content": "Hi"})];
        let chat = model.chat_prompt(ChatRequest { messages: &messages, ..ChatRequest::default() });
        assert!(matches!(chat, Err(TextError::Template(TemplateError::Missing))));

        let prompt = model.raw_prompt("Hi<|im_end|>").unwrap();
        assert_eq!(prompt.ids.last(), Some(&TokenId(4)));
        let mut stream = model.raw_stream(StopMatcher::new::<&str>(&[]).unwrap(), SpecialTokens::Keep);
        let text: String = prompt
            .ids
            .iter()
            .flat_map(|&id| stream.push(&model.tokenizer, id).pieces)
            .map(|piece| piece.text)
            .collect();
        assert_eq!(text, "Hi<|im_end|>");
    }

    #[test]
    fn a_prompt_that_no_context_holds_is_refused_unread() {
        let model = TextModel::load(&tracked_files()).unwrap();
        let long = "a".repeat(MAX_PROMPT_BYTES);
        let messages = [json!({"role": "user", "content": [{"type": "text", "text": long}]})];
        let errors = [
            model.chat_prompt(ChatRequest { messages: &messages, ..ChatRequest::default() }).unwrap_err(),
            model.raw_prompt(&format!("{long}a")).unwrap_err(),
            model.continued(&format!("{long}a")).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, TextError::TooLong { .. }) && error.is_request(), "{error}");
        }
    }

    /// A turn of several messages: reasoning, a call, the answer. It ends with the turn, not with the first message.
    #[test]
    fn a_turn_of_messages_is_read_to_its_end() {
        let tokens = ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<|end_of_text|>"];
        let json = byte_level_json(&[], &tokens.map(|token| (token, true))).to_string();
        let id = |nth: u32| TokenId(256 + nth);
        for eos in [json!([260, 259]), json!([260, 258]), json!(258)] {
            let generation = json!({"eos_token_id": eos}).to_string().into_bytes();
            let files = TextFiles {
                tokenizer_json: json.clone().into_bytes().into(),
                generation_config: Some(generation.into()),
                ..TextFiles::default()
            };
            let model = TextModel::load(&files).unwrap();
            assert!(model.eos.contains(id(3)) && !model.eos.contains(id(2)), "{eos}");
            // As the template leaves it, inside a header.
            let prompt = model.continued("<|start|>user<|message|>Hi<|eot|><|start|>assistant ").unwrap();
            let written = "to=self<|message|>Hm.\n<|eom|><|start|>assistant to=clock<|message|><now/><|eom|>\
                           <|start|>assistant to=user<|message|>It is noon.<|eot|>never read";
            let mut stream = model.chat_stream(&prompt, StopMatcher::new(&["never"]).unwrap());
            let mut said: Vec<(Channel, String)> = Vec::new();
            for token in model.continued(written).unwrap() {
                if model.eos.contains(token) {
                    break;
                }
                for piece in stream.push(&model.tokenizer, token).pieces {
                    match said.last_mut() {
                        Some((channel, text)) if *channel == piece.channel => text.push_str(&piece.text),
                        _ => said.push((piece.channel, piece.text)),
                    }
                }
            }
            let said: Vec<_> = said.iter().map(|(channel, text)| (*channel, text.as_str())).collect();
            let expected = [
                (Channel::Reasoning, "Hm.\n"),
                (Channel::ToolCall, "<now/>"),
                (Channel::Content, "It is noon."),
            ];
            assert_eq!(said, expected, "{eos}");
        }
    }
}
