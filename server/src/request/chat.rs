//! The body of `/v1/chat/completions`.

use mlxcel_core::{sampling::MAX_LOGPROBS, text::ChatRequest};
use serde_json::{Map, Value};

use super::{Common, Fields, refused};
use crate::{app::App, error::ApiError};

/// A conversation, and how it is to be answered.
pub(crate) struct ChatBody {
    pub(crate) conversation: Conversation,
    pub(crate) common: Common,
}

/// What the chat template is rendered with.
pub(crate) struct Conversation {
    messages: Vec<Value>,
    tools: Vec<Value>,
    kwargs: Map<String, Value>,
}

impl Conversation {
    /// Reads it from a body; the template checks the messages.
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let messages = fields.list("messages")?;
        let messages = messages.ok_or_else(|| ApiError::field("messages", "a list of messages is needed"))?;
        let wanted = refused::tools_wanted(fields)?;
        let tools = fields.list("tools")?.filter(|_| wanted);
        if let Some(odd) = tools.into_iter().flatten().find(|tool| !tool.is_object()) {
            return Err(fields.wrong("tools", "a list of objects", odd));
        }
        let kwargs = fields.object("chat_template_kwargs")?;
        Ok(Self {
            messages: messages.clone(),
            tools: tools.cloned().unwrap_or_default(),
            kwargs: kwargs.cloned().unwrap_or_default(),
        })
    }

    /// As the template takes it.
    pub(crate) fn request(&self) -> ChatRequest<'_> {
        ChatRequest {
            messages: &self.messages,
            tools: &self.tools,
            add_generation_prompt: true,
            kwargs: Some(&self.kwargs),
        }
    }
}

impl ChatBody {
    /// Reads and checks a body.
    pub(crate) fn read(fields: &Fields<'_>, app: &App) -> Result<Self, ApiError> {
        // An answer may be as long as the context has room for.
        let common = Common::read(fields, app, logprobs(fields)?, app.max_tokens.unwrap_or(usize::MAX))?;
        Ok(Self { conversation: Conversation::read(fields)?, common })
    }
}

/// `logprobs` is a flag here, and `top_logprobs` needs it.
fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0)?;
    match top {
        Some(top) if top > MAX_LOGPROBS => Err(ApiError::field(
            "top_logprobs",
            format_args!("{top} is out of range, expected 0 to {MAX_LOGPROBS}"),
        )),
        Some(_) if !wanted => Err(ApiError::field("top_logprobs", "needs \"logprobs\": true")),
        _ => Ok(wanted.then(|| top.unwrap_or(0))),
    }
}
