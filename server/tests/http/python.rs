//! OpenAI's own client for Python, where it is installed.

use std::process::Command;

use crate::started::{Served, Setup};

const SCRIPT: &str = r#"
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
hi = [{"role": "user", "content": "What is a list?"}]
assert [model.id for model in client.models.list()] == ["demo"]
whole = client.chat.completions.create(model="demo", messages=hi, temperature=0, max_tokens=24, logprobs=True, top_logprobs=2)
choice = whole.choices[0]
assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
assert len(choice.logprobs.content[0].top_logprobs) == 2
stream = client.chat.completions.create(model="demo", messages=hi, temperature=0, max_tokens=24, stream=True,
                                        stream_options={"include_usage": True})
text, usage = "", None
for chunk in stream:
    usage = chunk.usage or usage
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
assert text == choice.message.content, (text, choice.message.content)
assert usage == whole.usage
classic = client.chat.completions.create(model="demo", messages=hi, temperature=0, max_tokens=24,
                                         extra_body={"speculative": {"enabled": False}})
assert classic.choices[0].message.content == text
assert classic.timings["draft_n"] == 0
raw = client.completions.create(model="demo", prompt="import os", max_tokens=8, temperature=0, logprobs=1)
assert len(raw.choices[0].logprobs.tokens) == 8
for wrong, error in (({"temperature": -1}, openai.BadRequestError), ({"n": 2}, openai.BadRequestError)):
    try:
        client.chat.completions.create(model="demo", messages=hi, **wrong)
        sys.exit(f"{wrong} was taken")
    except error as refusal:
        assert refusal.status_code == 400
try:
    client.chat.completions.create(model="other", messages=hi)
    sys.exit("another model was taken")
except openai.NotFoundError as refusal:
    assert refusal.code == "model_not_found", refusal
print("fine")
"#;

#[test]
fn openais_client_for_python() {
    let there = Command::new("python3").args(["-c", "import openai"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("OpenAI's client for Python: not run, python3 has no package openai");
        return;
    }
    let served = Served::start(Setup::default());
    let url = format!("http://{}/v1", served.address);
    let output = Command::new("python3").args(["-c", SCRIPT, &url]).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.trim(), "fine", "{error}");
}
