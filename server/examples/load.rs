//! Measures a running server: tokens per second and time to the first token by the number of streams, with speculation and
//! without in turn, and whether both give the same answers.
//!
//! `cargo run --release -p mlxcel-server --example load -- 127.0.0.1:8080 [STREAMS,… [TOKENS [ROUNDS]]]`
//!
//! Each stream asks one prompt after the other and reads its answer as it comes. The arms alternate; shown are the best round of
//! each, and the median of the ratios of rounds that follow each other, with the quartiles: on a machine that others use, only
//! neighbours compare. The server must have as many places as there are streams (`--parallel`).

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::{Barrier, Mutex},
    thread::scope,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Prompts of one stream in one round.
const PROMPTS: [&str; 4] = [
    "def fibonacci(n):\n",
    "Write a function that reads a file and counts its words.",
    "What is a hash table?",
    "import os\nimport sys\n\ndef main():\n",
];

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What one answer was and took.
struct Answer {
    text: String,
    tokens: u64,
    first: Duration,
    whole: Duration,
}

/// Asks for a streamed answer and reads it.
fn ask(address: &str, prompt: &str, tokens: usize, speculative: bool) -> Outcome<Answer> {
    let body = json!({
        "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
        "stream": true, "stream_options": {"include_usage": true}, "speculative": {"enabled": speculative},
    })
    .to_string();
    let start = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Answer { text: String::new(), tokens: 0, first: Duration::ZERO, whole: Duration::ZERO };
    let mut done = false;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let Some(data) = line.strip_prefix("data: ") else { continue };
        if data == "[DONE]" {
            done = true;
            break;
        }
        let chunk: Value = serde_json::from_str(data)?;
        if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            if answer.text.is_empty() {
                answer.first = start.elapsed();
            }
            answer.text.push_str(text);
        }
        if let Some(tokens) = chunk["usage"]["completion_tokens"].as_u64() {
            answer.tokens = tokens;
        }
    }
    answer.whole = start.elapsed();
    if done { Ok(answer) } else { Err(format!("an answer broke off after {:?}", answer.text).into()) }
}

/// What a round of all streams was and took.
struct Round {
    /// Tokens per second of all streams together.
    total: f64,
    /// Tokens per second of a stream, the mean.
    each: f64,
    first: Vec<Duration>,
    /// Answers by stream and prompt.
    texts: BTreeMap<(usize, usize), String>,
}

fn round(address: &str, streams: usize, tokens: usize, speculative: bool) -> Outcome<Round> {
    let barrier = Barrier::new(streams + 1);
    let answers = Mutex::new(Vec::new());
    let failure = Mutex::new(None);
    let wall = scope(|scope| {
        for stream in 0..streams {
            let (barrier, answers, failure) = (&barrier, &answers, &failure);
            scope.spawn(move || {
                barrier.wait();
                for turn in 0..PROMPTS.len() {
                    let prompt = PROMPTS[(stream + turn) % PROMPTS.len()];
                    match ask(address, prompt, tokens, speculative) {
                        Ok(answer) => lock(answers).push((stream, turn, answer)),
                        Err(error) => *lock(failure) = Some(error),
                    }
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        start.elapsed()
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    let answers = std::mem::take(&mut *lock(&answers));
    let count: u64 = answers.iter().map(|(_, _, answer)| answer.tokens).sum();
    let rates = answers.iter().map(|(_, _, answer)| answer.tokens as f64 / answer.whole.as_secs_f64());
    let each = rates.sum::<f64>() / answers.len() as f64;
    let mut first: Vec<_> = answers.iter().map(|(_, _, answer)| answer.first).collect();
    first.sort_unstable();
    let texts = answers.into_iter().map(|(stream, turn, answer)| ((stream, turn), answer.text)).collect();
    Ok(Round { total: count as f64 / wall.as_secs_f64(), each, first, texts })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn millis(sorted: &[Duration], share: f64) -> f64 {
    let at = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[at].as_secs_f64() * 1e3
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let address = arguments.first().ok_or("usage: load ADDRESS [STREAMS,… [TOKENS [ROUNDS]]]")?;
    let counts = arguments.get(1).map_or("1,4,8,16", String::as_str).split(',');
    let counts = counts.map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let tokens = arguments.get(2).map_or(Ok(128), |tokens| tokens.parse())?;
    let rounds = arguments.get(3).map_or(Ok(5), |rounds| rounds.parse())?;
    println!(
        "| streams | | total tok/s | per stream tok/s | first token p50 / p99 ms | of classic | the same answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for streams in counts {
        let mut best: [Option<Round>; 2] = [None, None];
        let (mut ratios, mut same) = (Vec::new(), true);
        for turn in 0..=rounds {
            let (mut texts, mut totals) = (Vec::new(), [0.0; 2]);
            for arm in [turn % 2, 1 - turn % 2] {
                let found = round(address, streams, tokens, arm == 1)?;
                texts.push(found.texts.clone());
                totals[arm] = found.total;
                // The first turn warms up: what speculation learns, and the caches of the machine.
                let better = best[arm].as_ref().is_none_or(|best| found.total > best.total);
                if turn > 0 && better {
                    best[arm] = Some(found);
                }
            }
            same &= texts[0] == texts[1];
            if turn > 0 {
                ratios.push(totals[1] / totals[0]);
            }
        }
        let [Some(classic), Some(speculative)] = best else {
            return Err("at least one round is needed".into());
        };
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
        let ratio = format!("{:.2} ({:.2} to {:.2})", at(0.5), at(0.25), at(0.75));
        for (name, arm, ratio) in [("classic", &classic, "1"), ("speculative", &speculative, ratio.as_str())]
        {
            println!(
                "| {streams} | {name} | {:.0} | {:.0} | {:.1} / {:.1} | {ratio} | {} |",
                arm.total,
                arm.each,
                millis(&arm.first, 0.5),
                millis(&arm.first, 0.99),
                if same { "yes" } else { "NO" },
            );
        }
    }
    Ok(())
}
