//! `mlxcel serve`.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use mlxcel_core::{
    Width, engine::Limits, nn::set_threads, sampling::SamplingSettings, speculative::AnswerError,
};
use mlxcel_server::{Http, Model, ServeError, Server, Speculate};

use crate::{
    args::DraftWidth,
    error::Usage,
    learning::Keeper,
    load::Opened,
    logging,
    serve_args::{Access, Bounds, Defaults, ServeArgs},
};

/// Rows of context unless a flag says otherwise: long ones are to be asked for, since requests may take all of it.
const CONTEXT: usize = 32768;
/// How often what was learned of widths is kept while the server runs: no more of it is lost to a kill.
const KEEP: Duration = Duration::from_mins(1);
/// Bytes of states where the system does not say what is free.
const MEMORY: usize = 4 << 30;

/// Serves until a signal.
pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    logging::init_server(args.log.log_format, args.log.log_level);
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    let keys = keys(&args.access)?;
    if keys.is_empty() && !is_loopback(&args.host) {
        tracing::warn!("everybody who reaches {} may ask: there is no API key (--api-key-file)", args.host);
    }
    let models = &args.models;
    check_rows(models.draft_block_size.filter(|_| models.draft_width == DraftWidth::Fixed), &args.bounds)?;
    let start = Instant::now();
    let block_size = models.draft_block_size;
    let opened = Opened::open(&models.names(), &args.exactness, block_size, args.threads, models.no_draft)?;
    let speculate = match block_size {
        _ if models.no_draft => Speculate::Off,
        width if models.draft_width == DraftWidth::Fixed => Speculate::Fixed(width),
        width => Speculate::Adaptive(width),
    };
    let server = Server {
        http: http(args, keys),
        model: Model {
            name: opened.name.clone(),
            alias: args.alias.clone(),
            bos: opened.text.bos.clone(),
            text: Arc::clone(&opened.text.model),
            defaults: defaults(&args.defaults, opened.text.model.sampling.clone())?,
            max_tokens: args.defaults.max_tokens,
            speculate,
            confidence: models.draft_confidence.into(),
        },
        limits: limits(&args.bounds),
    };
    let name = opened.name.clone();
    let listening = |address| tracing::info!("listening on http://{address}");
    let ready = move || tracing::info!("ready: {name}, loaded in {:.2} s", start.elapsed().as_secs_f64());
    let (keeper, handover) = Keeper::start(KEEP).context("cannot start a thread")?;
    let evidence = models.evidence.clone();
    let load = move || {
        let (models, learning) = opened.load(&evidence)?;
        handover.hand_over(learning);
        Ok(models)
    };
    let ended = mlxcel_server::run(server, load, listening, ready);
    // What was learned last is kept before anything is said of the end.
    drop(keeper);
    match ended {
        Ok(()) => Ok(()),
        // What a load says needs no frame.
        Err(ServeError::Load(error)) => Err(error),
        Err(error) => Err(error.into()),
    }
}

/// One block is never cut, so a bound below the width that all blocks have could not be kept.
fn check_rows(fixed: Option<Width>, bounds: &Bounds) -> Result<()> {
    match fixed {
        Some(width) if width.rows() > bounds.batch_rows => {
            let (width, rows) = (width.rows(), bounds.batch_rows);
            let what = format!("blocks of {width} rows do not fit --batch-rows {rows}");
            Err(Usage::new(format!("{what}\nhint: --batch-rows of at least {width}, or narrower blocks"))
                .into())
        }
        _ => Ok(()),
    }
}

fn http(args: &ServeArgs, keys: Vec<String>) -> Http {
    let bounds = &args.bounds;
    Http {
        host: args.host.clone(),
        port: args.port,
        keys,
        origins: args.access.cors_origins.clone(),
        connections: bounds.connections,
        body: bounds.max_body,
        request_time: Duration::from_secs(bounds.request_timeout),
        keep_alive: Http::default().keep_alive,
        // What the engine gives up is gone first, and its answer can still say so.
        patience: Duration::from_secs(bounds.reader_timeout * 2),
        drain: Duration::from_secs(bounds.drain_timeout),
    }
}

fn limits(bounds: &Bounds) -> Limits {
    Limits {
        parallel: bounds.parallel,
        queue: bounds.queue,
        context: bounds.ctx_size.unwrap_or(CONTEXT),
        rows: bounds.batch_rows,
        memory: bounds.state_memory.unwrap_or_else(memory),
        patience: Duration::from_secs(bounds.reader_timeout),
        ..Limits::default()
    }
}

/// Half of the memory that is free now.
fn memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok()).map_or(MEMORY, |kib| kib / 2 * 1024)
}

/// What requests leave open: as the flags have it, else as the checkpoint has it.
fn defaults(flags: &Defaults, base: SamplingSettings) -> Result<SamplingSettings> {
    let settings = SamplingSettings {
        temperature: flags.temp.unwrap_or(base.temperature),
        top_p: flags.top_p.unwrap_or(base.top_p),
        top_k: flags.top_k.unwrap_or(base.top_k),
        min_p: flags.min_p.unwrap_or(base.min_p),
        ..base
    };
    settings.clone().validate(usize::MAX).map_err(AnswerError::from)?;
    Ok(settings)
}

/// All keys: an empty one is a mistake, and never means that no key is needed.
fn keys(access: &Access) -> Result<Vec<String>> {
    let mut keys = access.api_key.clone();
    if let Some(file) = &access.api_key_file {
        keys.extend(keys_of(file)?);
    }
    if keys.iter().any(|key| key.trim().is_empty()) {
        return Err(Usage::new("an API key is empty\nhint: leave the flag out to serve without a key").into());
    }
    if keys.iter().any(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(Usage::new("an API key holds a space or a letter that no header can carry").into());
    }
    Ok(keys)
}

fn keys_of(file: &Path) -> Result<Vec<String>> {
    let place = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the API keys in {place}"))?;
    let keys: Vec<_> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if keys.is_empty() {
        bail!("{place} holds no API key\nhint: one key a line");
    }
    Ok(keys)
}

fn is_loopback(host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}
