//! Settings by the names that the command line gives them: the core's errors say `temperature`, the user wrote `--temp`.

use mlxcel_core::speculative::AnswerError;

/// The error with flags in place of fields.
pub(crate) fn spelled(error: &AnswerError) -> String {
    with_dashes(error, "--")
}

/// The same, as `/set` names settings.
pub(crate) fn spelled_as_setting(error: &AnswerError) -> String {
    with_dashes(error, "")
}

/// Messages begin with the field, or with a list's field and the place in it: `stop[0]`.
fn with_dashes(error: &AnswerError, dashes: &str) -> String {
    let message = error.to_string();
    let end = message.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(message.len());
    let (field, mut rest) = message.split_at(end);
    if let Some((_, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        rest = after;
    }
    let flag = if field == "temperature" { "temp".to_owned() } else { field.replace('_', "-") };
    format!("{dashes}{flag}{}", rest.replace("max_tokens", &format!("{dashes}max-tokens")))
}

#[cfg(test)]
mod tests {
    use mlxcel_core::{sampling::SamplingSettings, speculative::AnswerSettings};

    use super::*;

    fn refusal(change: impl FnOnce(&mut AnswerSettings)) -> String {
        let mut settings = AnswerSettings {
            sampling: SamplingSettings::default(),
            stop: Vec::new(),
            max_tokens: 5,
            min_tokens: 0,
            ignore_eos: false,
        };
        change(&mut settings);
        spelled(&settings.check(10).unwrap_err())
    }

    #[test]
    fn errors_name_flags() {
        let said = [
            refusal(|settings| settings.sampling.temperature = -1.0),
            refusal(|settings| settings.sampling.top_p = 0.0),
            refusal(|settings| settings.stop = vec![String::new()]),
            refusal(|settings| settings.min_tokens = 6),
        ];
        insta::assert_snapshot!(said.join("\n"), @r"
        --temp: -1 is out of range, expected 0 to 1000000 (0 is greedy)
        --top-p: 0 is out of range, expected more than 0 and at most 1 (1 is off)
        --stop is empty; expected at least one letter
        --min-tokens: 6 is out of range, expected 0 to --max-tokens = 5
        ");
    }
}
