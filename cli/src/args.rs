//! The command line.

use std::{path::PathBuf, sync::LazyLock};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use mlxcel_core::{
    TokenId, Width,
    family::DraftKind,
    nn::Executor,
    sampling::{SamplingSettings, Seed},
    speculative::{AnswerSettings, width::ConfidenceUse},
};
use serde_json::{Map, Value};

use crate::{exactness::ExactnessArgs, learning::EvidenceArgs, serve_args::ServeArgs, values};

/// The program's version and MLX's.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mlx = option_env!("MLX_VERSION").map(|version| format!(" (MLX {version})")).unwrap_or_default();
    format!("{}{mlx}", env!("CARGO_PKG_VERSION"))
});

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 failure, 2 a command line that cannot be served, 130 after Ctrl-C, 141 when the reader of the \
output has gone.";

/// Language models, faster, with the same tokens.
#[derive(Debug, Parser)]
#[command(name = "mlxcel", version = VERSION.as_str(), after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer a prompt, or hold a conversation.
    ///
    /// The answer goes to stdout as it is made; everything else goes to stderr. The prompt is the user's message in
    /// the model's chat template; with --raw, or for a model without a template, the model continues the text itself.
    /// On a terminal, without -p, it is a conversation.
    ///
    /// With a drafter the tokens are the same as without; there is less to wait for.
    Run(Box<RunArgs>),
    /// Serve the model over HTTP, with OpenAI's routes and a chat page.
    Serve(Box<ServeArgs>),
    /// List the model families that this program knows.
    Families,
    /// Say what a checkpoint holds, without loading it.
    Inspect(InspectArgs),
    /// Measure what forwards cost by width, and what speculation gains.
    Bench(BenchArgs),
    /// Say what this machine and these models are, which widths may run, and what they cost.
    Doctor(DoctorArgs),
    /// Compare speculative with classic decoding on prompts: the tokens, and the time.
    Prove(ProveArgs),
    /// Print a script that completes commands in a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    /// The prompt [default: stdin, without the newline at its end].
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// System message before the prompt.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "raw")]
    pub(crate) system: Option<String>,

    /// Let the model continue the prompt as it stands, after the start token, without the chat template.
    #[arg(long)]
    pub(crate) raw: bool,

    /// Tokens of the answer at most.
    #[arg(short = 'n', long, value_name = "N", default_value = "256", value_parser = values::tokens)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_tokens: usize,

    /// Tokens before an end token may come, up to --max-tokens.
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) min_tokens: usize,

    /// End the answer before this text; give the flag once for each.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) stop: Vec<String>,

    /// Let end tokens end nothing; the answer goes on to --max-tokens.
    #[arg(long)]
    pub(crate) ignore_eos: bool,

    /// Tools that the chat template shows the model: a file with a JSON list of OpenAI's objects.
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    pub(crate) tools: Option<PathBuf>,

    /// Further variables of the chat template, a JSON object: {"enable_thinking": false} for one.
    #[arg(long, value_name = "JSON", value_parser = values::object, conflicts_with = "raw")]
    pub(crate) chat_template_kwargs: Option<Map<String, Value>>,

    /// How the closing line on stderr is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) stats: Stats,

    /// Nothing on stderr but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Threads of the CPU kernels [default: one a physical core].
    #[arg(long, value_name = "N", value_parser = values::threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,

    #[command(flatten)]
    pub(crate) models: ModelArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,

    #[command(flatten)]
    pub(crate) exactness: ExactnessArgs,
}

impl RunArgs {
    /// What is asked of the answer, not yet checked.
    pub(crate) fn answer(&self) -> AnswerSettings {
        AnswerSettings {
            sampling: self.sampling.settings(),
            stop: self.stop.clone(),
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
            ignore_eos: self.ignore_eos,
        }
    }
}

/// Which models.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Models")]
pub(crate) struct ModelArgs {
    /// The target: a folder, or owner/name in the Hugging Face cache [default: the pair inside the program].
    #[arg(short, long, value_name = "MODEL", value_parser = values::model())]
    pub(crate) model: Option<String>,

    /// Its drafter, named in the same way. Without one, decoding is classic.
    #[arg(long, value_name = "MODEL", value_parser = values::model(), requires = "model")]
    pub(crate) draft_model: Option<String>,

    /// How the drafter drafts [possible values: dflash].
    #[arg(long, value_name = "KIND", value_parser = values::draft_kind)]
    pub(crate) draft_kind: Option<DraftKind>,

    /// Where they run: cpu (row-exact kernels), mlx-f32 or mlx-bf16 (MLX's operators) [default: mlx-bf16 on a GPU, else cpu].
    #[arg(long, value_name = "NAME", value_parser = values::executor)]
    pub(crate) executor: Option<Executor>,
}

impl ModelArgs {
    /// Where the models run.
    pub(crate) fn executor(&self) -> mlxcel_core::Result<Executor> {
        let detected = Executor::detect()?;
        Ok(self.executor.unwrap_or(detected))
    }

    /// Whether there is a drafter: the pair inside the program has one.
    pub(crate) fn names_drafter(&self) -> bool {
        self.draft_model.is_some() || self.model.is_none()
    }
}

/// How tokens are chosen. With one seed the tokens are the same with speculation and without.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Temperature, 0 to 1000000; 0 takes the most likely token.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) temp: f32,

    /// Keep the likeliest tokens that together have this probability, above 0 and up to 1.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) top_p: f64,

    /// Keep this many of the likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K", default_value = "0", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) top_k: usize,

    /// Keep tokens at least this probable relative to the likeliest, 0 to 1.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) min_p: f64,

    /// Divide the logits of tokens in prompt and answer by this, or multiply those below 0; 0.01 to 100, 1 is off.
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) repetition_penalty: f32,

    /// Take this from the logit of each token that is in the answer, -2 to 2.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f32,

    /// Take this from the logit of a token for every time it is in the answer, -2 to 2.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f32,

    /// Add VALUE, -100 to 100, to the logit of the token ID; give the flag once for each.
    #[arg(long, value_name = "ID=VALUE", value_parser = values::logit_bias, allow_hyphen_values = true)]
    pub(crate) logit_bias: Vec<(TokenId, f32)>,

    /// Log-probabilities of the tokens and of the N likeliest in their places, 0 to 20, in the line of --stats json.
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) logprobs: Option<usize>,

    /// Seed of the noise, a 64-bit integer [default: drawn, and named in the closing line].
    #[arg(long, value_name = "SEED", value_parser = values::seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<Seed>,
}

impl SamplingArgs {
    /// As the core takes them, not yet checked.
    pub(crate) fn settings(&self) -> SamplingSettings {
        SamplingSettings {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
            logprobs: self.logprobs,
        }
    }
}

/// How wide to speculate.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Speculation")]
pub(crate) struct SpeculationArgs {
    /// Rows of a block at most, 1 to the drafter's trained width [default: the trained width; with --draft-width fixed, what
    /// the drafter says].
    #[arg(long, value_name = "ROWS", value_parser = values::width, allow_negative_numbers = true)]
    pub(crate) draft_block_size: Option<Width>,

    /// How the rows of a block are chosen.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) draft_width: DraftWidth,

    /// Whether blocks lose the rows of proposals that the drafter itself is not sure of, if it says how sure it is.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) draft_confidence: DraftConfidence,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Decode classically, one token at a time.
    #[arg(long, conflicts_with = "draft_block_size")]
    pub(crate) no_draft: bool,

    /// Mark the tokens that the drafter proposed and the target accepted, and those that are the target's own.
    #[arg(long)]
    pub(crate) show_speculation: bool,
}

/// How the rows of a block are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DraftWidth {
    /// By what is measured: as wide as pays, and one row where nothing does.
    #[default]
    Adaptive,
    /// Always as many.
    Fixed,
}

/// What is made of a drafter's confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DraftConfidence {
    /// Once that is seen to gain.
    #[default]
    Auto,
    /// Never.
    Off,
    /// From the start.
    On,
}

impl From<DraftConfidence> for ConfidenceUse {
    fn from(flag: DraftConfidence) -> Self {
        match flag {
            DraftConfidence::Auto => Self::Auto,
            DraftConfidence::Off => Self::Off,
            DraftConfidence::On => Self::On,
        }
    }
}

/// Form of the closing line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stats {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A folder, or owner/name in the Hugging Face cache [default: the pair inside the program].
    pub(crate) model: Option<String>,
}

/// Measure what forwards cost by width, and what speculation gains.
///
/// The prompt is made up of ids spread over the vocabulary, so any checkpoint can be measured. What is compared is
/// measured in turn, and the shortest of the repeats counts.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) models: ModelArgs,

    #[command(flatten)]
    pub(crate) exactness: ExactnessArgs,

    /// Rows of context that blocks are forwarded on, and tokens of the prompt that answers follow.
    #[arg(long, value_name = "ROWS", default_value_t = 256, value_parser = values::tokens)]
    pub(crate) context: usize,

    /// Tokens of the prompt that prefill is measured with; 0 leaves it out.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    pub(crate) prefill: usize,

    /// Tokens of an answer.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = values::tokens)]
    pub(crate) tokens: usize,

    /// Widths to measure [default: 1, 2, 4, 8 and 16, as far as the drafter's trained width goes].
    #[arg(long, value_name = "ROWS", value_delimiter = ',', value_parser = values::width)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) widths: Vec<Width>,

    /// How often everything is measured.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::several)]
    pub(crate) repeat: usize,

    /// Run the drafter for its cost, but propose what a recorded classic run emitted, right with these probabilities by
    /// position: measures the loop alone.
    #[arg(long, value_name = "P1,P2,…", value_delimiter = ',', value_parser = crate::commands::rate)]
    pub(crate) draft_synthetic: Vec<f64>,

    /// One JSON object instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what this machine and these models are, which widths may run, and what they cost.
///
/// What is wrong is a row of the report, with exit code 1. Costs are medians of repeats taken in turn.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) models: ModelArgs,

    #[command(flatten)]
    pub(crate) exactness: ExactnessArgs,

    /// Rows of context that the costs are measured behind.
    #[arg(long, value_name = "ROWS", default_value_t = 256, value_parser = values::tokens)]
    pub(crate) context: usize,

    /// How often every width is measured.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = values::several)]
    pub(crate) repeat: usize,

    /// Threads of the CPU kernels [default: one a physical core].
    #[arg(long, value_name = "N", value_parser = values::threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,

    /// One JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare speculative with classic decoding on prompts: the tokens, and the time.
///
/// Every prompt is answered classically and speculatively in turn, greedily and sampled. Exit code 1 says that tokens
/// differ; times do not change it.
#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    #[command(flatten)]
    pub(crate) models: ModelArgs,

    #[command(flatten)]
    pub(crate) speculation: ProveSpeculationArgs,

    #[command(flatten)]
    pub(crate) exactness: ExactnessArgs,

    /// A file with a prompt a line, as text or as JSON objects with "prompt" or "messages" [default: twelve prompts of the
    /// program's own].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,

    /// Take prompts of plain text for the user's message in the model's chat template, instead of text to be continued.
    #[arg(long)]
    pub(crate) chat: bool,

    /// Tokens of an answer at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = values::tokens)]
    pub(crate) max_tokens: usize,

    /// Answers of each kind to each prompt.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::several)]
    pub(crate) repeat: usize,

    /// Temperature of the sampled answers; 0 leaves them out.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub(crate) temp: f32,

    /// Seed of the sampled answers.
    #[arg(long, value_name = "SEED", value_parser = values::seed, default_value = "1", allow_negative_numbers = true)]
    pub(crate) seed: Seed,

    /// Threads of the CPU kernels [default: one a physical core].
    #[arg(long, value_name = "N", value_parser = values::threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,

    /// One JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How wide `prove` speculates.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Speculation")]
pub(crate) struct ProveSpeculationArgs {
    /// Rows of every block, 1 to the drafter's trained width [default: chosen by what is measured].
    #[arg(long, value_name = "ROWS", value_parser = values::width, allow_negative_numbers = true)]
    pub(crate) draft_block_size: Option<Width>,

    /// Whether blocks lose the rows of proposals that the drafter itself is not sure of, if it says how sure it is.
    #[arg(long, value_enum, default_value_t, conflicts_with = "draft_block_size")]
    pub(crate) draft_confidence: DraftConfidence,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,
}
