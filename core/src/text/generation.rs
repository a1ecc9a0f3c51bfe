//! How a checkpoint wants to be sampled: `generation_config.json`.

use serde::Deserialize;

use super::files::{FilesError, TextFiles, parse};
use crate::sampling::SamplingSettings;

/// Fields of `generation_config.json` that are about sampling.
#[derive(Debug, Default, Deserialize)]
struct Generation {
    do_sample: Option<bool>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f32>,
}

/// The settings that the checkpoint proposes, for requests that leave them open; not yet checked. `do_sample: false` is
/// greedy whatever else is there.
pub(super) fn sampling(files: &TextFiles<'_>) -> Result<SamplingSettings, FilesError> {
    let file: Generation = parse("generation_config.json", files.generation_config.as_deref())?;
    let base = SamplingSettings::default();
    let temperature = file.temperature.unwrap_or(base.temperature);
    Ok(SamplingSettings {
        temperature: if file.do_sample == Some(false) { 0.0 } else { temperature },
        top_k: file.top_k.unwrap_or(base.top_k),
        top_p: file.top_p.unwrap_or(base.top_p),
        min_p: file.min_p.unwrap_or(base.min_p),
        repetition_penalty: file.repetition_penalty.unwrap_or(base.repetition_penalty),
        ..base
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: Option<&'static str>) -> Result<SamplingSettings, FilesError> {
        let generation_config = json.map(|json| json.as_bytes().into());
        sampling(&TextFiles { generation_config, ..TextFiles::default() })
    }

    #[test]
    fn what_the_file_says_and_leaves_open() {
        let base = SamplingSettings::default();
        assert_eq!(read(None).unwrap(), base);
        assert_eq!(read(Some(r#"{"eos_token_id": [2, 4], "top_k": null}"#)).unwrap(), base);
        let some = r#"{"do_sample": true, "temperature": 0.3, "min_p": 0.15, "repetition_penalty": 1.05}"#;
        let expected =
            SamplingSettings { temperature: 0.3, min_p: 0.15, repetition_penalty: 1.05, ..base.clone() };
        assert_eq!(read(Some(some)).unwrap(), expected);
        let greedy = read(Some(r#"{"do_sample": false, "temperature": 0.6, "top_k": 20}"#)).unwrap();
        assert_eq!((greedy.temperature, greedy.top_k), (0.0, 20));
    }

    #[test]
    fn a_field_of_another_kind_is_refused() {
        let error = read(Some(r#"{"temperature": "hot"}"#)).unwrap_err();
        assert_eq!(error.to_string(), "generation_config.json is not valid");
    }
}
