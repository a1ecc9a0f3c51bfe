//! The command line of `serve`. Every flag has a twin in the environment; the flag wins.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::FalseyValueParser};
use mlxcel_core::{Width, family::DraftKind, nn::Executor};

use crate::{
    args::{DraftConfidence, DraftWidth, ModelArgs},
    exactness::ExactnessArgs,
    learning::EvidenceArgs,
    values,
};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Name or address to listen on; 0.0.0.0 for all networks of this machine.
    #[arg(long, value_name = "HOST", env = "MLXCEL_HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// Port; 0 takes a free one.
    #[arg(long, value_name = "PORT", env = "MLXCEL_PORT", default_value_t = 8080)]
    pub(crate) port: u16,

    /// Name by which the model is listed [default: its own].
    #[arg(long, value_name = "NAME", env = "MLXCEL_ALIAS")]
    pub(crate) alias: Option<String>,

    /// Threads of the CPU kernels [default: one a physical core].
    #[arg(long, value_name = "N", env = "MLXCEL_THREADS", value_parser = values::threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,

    #[command(flatten)]
    pub(crate) models: ServedModels,

    #[command(flatten)]
    pub(crate) exactness: ExactnessArgs,

    #[command(flatten)]
    pub(crate) bounds: Bounds,

    #[command(flatten)]
    pub(crate) access: Access,

    #[command(flatten)]
    pub(crate) defaults: Defaults,

    #[command(flatten)]
    pub(crate) log: Log,
}

/// Which models, and how wide to speculate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(crate) struct ServedModels {
    /// The target: a folder, or owner/name in the Hugging Face cache [default: the pair inside the program].
    #[arg(short, long, value_name = "MODEL", env = "MLXCEL_MODEL")]
    model: Option<String>,

    /// Its drafter, named in the same way. Without one, decoding is classic.
    #[arg(
        long,
        visible_alias = "model-draft",
        value_name = "MODEL",
        env = "MLXCEL_DRAFT_MODEL",
        requires = "model"
    )]
    draft_model: Option<String>,

    /// How the drafter drafts [possible values: dflash].
    #[arg(long, value_name = "KIND", env = "MLXCEL_DRAFT_KIND", value_parser = values::draft_kind)]
    draft_kind: Option<DraftKind>,

    /// Rows of a block at most, 1 to the drafter's trained width [default: the trained width].
    #[arg(long, value_name = "ROWS", env = "MLXCEL_DRAFT_BLOCK_SIZE", value_parser = values::width)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) draft_block_size: Option<Width>,

    /// Whether blocks are as wide as pays, or all of one width.
    #[arg(long, value_enum, env = "MLXCEL_DRAFT_WIDTH", default_value_t)]
    pub(crate) draft_width: DraftWidth,

    /// Whether blocks lose the rows of proposals that the drafter itself is not sure of, if it says how sure it is.
    #[arg(long, value_enum, env = "MLXCEL_DRAFT_CONFIDENCE", default_value_t)]
    pub(crate) draft_confidence: DraftConfidence,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Where they run: cpu (row-exact kernels), mlx-f32 or mlx-bf16 (MLX's operators) [default: mlx-bf16 on a GPU, else cpu].
    #[arg(long, value_name = "NAME", env = "MLXCEL_EXECUTOR", value_parser = values::executor)]
    executor: Option<Executor>,

    /// Decode classically, one token at a time.
    #[arg(long, env = "MLXCEL_NO_DRAFT", value_parser = FalseyValueParser::new(), conflicts_with = "draft_block_size")]
    pub(crate) no_draft: bool,
}

impl ServedModels {
    /// As other commands name them.
    pub(crate) fn names(&self) -> ModelArgs {
        ModelArgs {
            model: self.model.clone(),
            draft_model: self.draft_model.clone(),
            draft_kind: self.draft_kind,
            executor: self.executor,
        }
    }
}

/// What bounds the server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct Bounds {
    /// Tokens of a prompt and its answer together [default: the model's own, up to 32768].
    #[arg(short, long, value_name = "TOKENS", env = "MLXCEL_CTX_SIZE", value_parser = values::tokens)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) ctx_size: Option<usize>,

    /// Requests that are answered at once (-np).
    #[arg(long, value_name = "N", env = "MLXCEL_PARALLEL", default_value = "4", value_parser = values::several)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) parallel: usize,

    /// Requests that may wait; beyond them the answer is 429.
    #[arg(long, value_name = "N", env = "MLXCEL_QUEUE", default_value_t = 64)]
    pub(crate) queue: usize,

    /// Rows of a forward over the blocks of all requests.
    #[arg(long, value_name = "ROWS", env = "MLXCEL_BATCH_ROWS", default_value = "64", value_parser = values::several)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) batch_rows: usize,

    /// MiB for what requests keep of their tokens, all together [default: half of what is free at the start].
    #[arg(long, value_name = "MIB", env = "MLXCEL_STATE_MEMORY", value_parser = values::mebibytes)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) state_memory: Option<usize>,

    /// Connections at once; more wait.
    #[arg(long, value_name = "N", env = "MLXCEL_CONNECTIONS", default_value = "512", value_parser = values::several)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) connections: usize,

    /// MiB of a request's body.
    #[arg(long, value_name = "MIB", env = "MLXCEL_MAX_BODY", default_value = "16", value_parser = values::mebibytes)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_body: usize,

    /// Seconds for a request to come, its head and its body each, and for a connection to be idle.
    #[arg(long, value_name = "SECONDS", env = "MLXCEL_REQUEST_TIMEOUT", default_value = "30", value_parser = values::seconds)]
    pub(crate) request_timeout: u64,

    /// Seconds for which an answer waits for a client that reads nothing.
    #[arg(long, value_name = "SECONDS", env = "MLXCEL_READER_TIMEOUT", default_value = "30", value_parser = values::seconds)]
    pub(crate) reader_timeout: u64,

    /// Seconds for answers to end after SIGINT or SIGTERM.
    #[arg(long, value_name = "SECONDS", env = "MLXCEL_DRAIN_TIMEOUT", default_value = "30", value_parser = values::seconds)]
    pub(crate) drain_timeout: u64,
}

/// Who may ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct Access {
    /// A key that requests must have (Authorization: Bearer KEY); may be given several times. Other users of this machine
    /// can see it: the environment or a file is better.
    #[arg(long, value_name = "KEY", env = "MLXCEL_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Vec<String>,

    /// A file with keys, one a line.
    #[arg(long, value_name = "FILE", env = "MLXCEL_API_KEY_FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Sites whose pages may ask, such as https://chat.example; * for all [default: none].
    #[arg(long, value_name = "ORIGIN,…", env = "MLXCEL_CORS_ORIGINS", value_delimiter = ',')]
    pub(crate) cors_origins: Vec<String>,
}

/// Settings of requests that leave them open. Without a flag they are as generation_config.json has them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Defaults of requests")]
pub(crate) struct Defaults {
    /// Tokens of an answer at most [default: as many as the context has room for; 16 on /v1/completions].
    #[arg(short = 'n', long, value_name = "N", env = "MLXCEL_MAX_TOKENS", value_parser = values::tokens)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,

    /// Temperature, 0 to 1000000; 0 takes the most likely token.
    #[arg(long, value_name = "T", env = "MLXCEL_TEMP", allow_negative_numbers = true)]
    pub(crate) temp: Option<f32>,

    /// Keep the likeliest tokens that together have this probability, above 0 and up to 1.
    #[arg(long, value_name = "P", env = "MLXCEL_TOP_P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,

    /// Keep this many of the likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K", env = "MLXCEL_TOP_K", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) top_k: Option<usize>,

    /// Keep tokens at least this probable relative to the likeliest, 0 to 1.
    #[arg(long, value_name = "P", env = "MLXCEL_MIN_P", allow_negative_numbers = true)]
    pub(crate) min_p: Option<f64>,
}

/// The log, on stderr. Prompts and answers are never in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct Log {
    /// Form of the log.
    #[arg(long, value_enum, env = "MLXCEL_LOG_FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,

    /// How much is logged.
    #[arg(long, value_enum, env = "MLXCEL_LOG_LEVEL", default_value_t)]
    pub(crate) log_level: LogLevel,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// What failed.
    Error,
    /// And what is odd.
    Warn,
    /// And a line a request.
    #[default]
    Info,
    /// And a line a response and a connection.
    Debug,
}
