//! What is asked: a pool of requests, and the first answer to each.

use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::client::{Answer, Outcome, Reply, ask};

/// Requests in the pool: few enough to be asked again and again, in other company.
const POOL: usize = 60;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

const PROMPTS: [&str; 8] = [
    "def fibonacci(n):\n",
    "Write a function that reads a file and counts its words.",
    "What is a hash table?",
    "import os\nimport sys\n\ndef main():\n",
    "NAME\n       cp - copy files and directories\n\nSYNOPSIS\n",
    "Hi",
    "class Stack:\n    def __init__(self):\n",
    "Wie heißt du? Ünïcödé, 日本語 and 🦀.",
];

/// SplitMix64: a run is repeated by its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Numbers of their own for a thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// One request of the pool: whatever decides its answer.
pub(crate) struct Ask {
    pub(crate) path: &'static str,
    fields: Value,
    answer: OnceLock<Answer>,
}

impl Ask {
    fn new(chat: bool, prompt: &str, mut fields: Value) -> Self {
        let (path, name, value) = if chat {
            (CHAT, "messages", json!([{"role": "user", "content": prompt}]))
        } else {
            (COMPLETIONS, "prompt", json!(prompt))
        };
        fields[name] = value;
        Self { path, fields, answer: OnceLock::new() }
    }

    /// Its body with what must not change the answer.
    pub(crate) fn body(&self, streamed: bool, random: &mut Random) -> String {
        let mut body = self.fields.clone();
        body["stream"] = json!(streamed);
        body["timings_per_token"] = json!(streamed && random.chance(30));
        let speculative = [
            Value::Null,
            Value::Null,
            json!(false),
            json!({"enabled": true, "max_width": 2}),
            json!({"max_width": 8}),
        ];
        body["speculative"] = random.one(&speculative).clone();
        body.to_string()
    }

    /// Looks at a reply: the name of what came out, or what is wrong with it.
    pub(crate) fn check(&self, reply: &Reply, streamed: bool) -> Outcome<&'static str> {
        match reply.status {
            200 => {}
            429 if reply.field("retry-after").is_some() => return Ok("429"),
            _ => return Err(format!("{} got {reply:?}", self.fields).into()),
        }
        let answer = if streamed { Answer::streamed(reply)? } else { Answer::whole(reply)? };
        let first = self.answer.get_or_init(|| answer.clone());
        if *first == answer {
            return Ok("the same answer");
        }
        Err(format!("{} was answered with {first:?} first, and now with {answer:?}", self.fields).into())
    }
}

/// The requests.
pub(crate) struct Pool(Vec<Ask>);

impl Pool {
    /// Requests of all kinds.
    pub(crate) fn mixed(random: &mut Random) -> Self {
        Self((0..POOL).map(|index| mixed(index, random)).collect())
    }

    /// Short prompts and answers of four tokens.
    pub(crate) fn short() -> Self {
        let fields = |seed: usize| json!({"max_tokens": 4, "temperature": seed as f64 / 2.0, "seed": seed});
        Self((0..32).map(|index| Ask::new(index < 16, PROMPTS[index % 8], fields(index / 8 % 2))).collect())
    }

    /// Asks each once, alone and without a drafter. These are the answers that all others are compared with.
    pub(crate) fn learn(&self, address: &str) -> Outcome<()> {
        for wanted in &self.0 {
            let mut body = wanted.fields.clone();
            body["speculative"] = json!(false);
            wanted.check(&ask(address, wanted.path, &body.to_string())?, false)?;
        }
        let longest = self.0.iter().filter_map(|ask| Some(ask.answer.get()?.text.len())).max();
        println!(
            "{} requests asked alone; the longest answer has {} bytes",
            self.0.len(),
            longest.unwrap_or(0)
        );
        Ok(())
    }

    pub(crate) fn draw(&self, random: &mut Random) -> &Ask {
        random.one(&self.0)
    }

    /// A request of the pool whose answer is long, for clients that leave in the middle or read slowly.
    pub(crate) fn draw_long(&self, random: &mut Random) -> &Ask {
        let long: Vec<_> = self.0.iter().filter(|ask| ask.fields["ignore_eos"] == true).collect();
        long[random.below(long.len())]
    }
}

/// A request at random, with its place in the pool deciding about what must not be missing.
fn mixed(index: usize, random: &mut Random) -> Ask {
    let chat = random.chance(50);
    let mut prompt = (*random.one(&PROMPTS)).to_owned();
    if index.is_multiple_of(10) {
        prompt = long(random);
    }
    let tokens = *random.one(&[1, 2, 5, 16, 48, 96, 160]);
    let mut fields = json!({"max_tokens": tokens, "seed": index});
    match index % 4 {
        0 | 1 => fields["temperature"] = json!(0),
        2 => fields["temperature"] = json!(*random.one(&[0.5, 1.0, 1.5])),
        _ => {
            fields["temperature"] = json!(1.0);
            fields["top_p"] = json!(0.9);
            fields["top_k"] = json!(40);
            fields["repetition_penalty"] = json!(1.1);
        }
    }
    if index % 5 == 1 {
        fields["stop"] = json!([":", "\n\n", "the"]);
    }
    if index % 5 == 2 {
        fields["logprobs"] = if chat { json!(true) } else { json!(3) };
    }
    if index % 6 == 3 {
        fields["max_tokens"] = json!(400);
        fields["ignore_eos"] = json!(true);
    }
    Ask::new(chat, &prompt, fields)
}

/// About 1500 tokens.
fn long(random: &mut Random) -> String {
    let lines = (0..118).map(|line| format!("    value_{line} = compute({}, size)\n", random.below(1000)));
    format!("def build(size):\n{}", lines.collect::<String>())
}

/// What went wrong and what went well, by kind of client.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Mutex<std::collections::BTreeMap<(&'static str, &'static str), u64>>,
}

impl Tally {
    /// Counts what came out of a client; a violation is told at once.
    pub(crate) fn add(&self, kind: &'static str, outcome: Outcome<&'static str>) {
        let outcome = outcome.unwrap_or_else(|error| {
            eprintln!("VIOLATION, {kind}: {error}");
            "VIOLATION"
        });
        *crate::lock(&self.counts).entry((kind, outcome)).or_default() += 1;
    }

    pub(crate) fn violations(&self) -> u64 {
        crate::lock(&self.counts)
            .iter()
            .filter(|((_, outcome), _)| *outcome == "VIOLATION")
            .map(|(_, count)| count)
            .sum()
    }

    pub(crate) fn all(&self) -> u64 {
        crate::lock(&self.counts).values().sum()
    }

    pub(crate) fn print(&self) {
        println!("| client | outcome | times |\n| --- | --- | --- |");
        for ((kind, outcome), count) in &*crate::lock(&self.counts) {
            println!("| {kind} | {outcome} | {count} |");
        }
    }
}
