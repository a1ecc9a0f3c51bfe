//! What a DFlash drafter's config says of masks and factors, where no reference has outputs: each by its own definition.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use conformance::random::{self, Numbers, RandomModel, RandomPair};
use mlxcel_core::{
    Position, Result, TokenId,
    family::{Draft, Drafter, Observe, Pick, Target},
    nn::{Executor, Tensor},
};
use mlxcel_dflash as _;
use mlxcel_qwen as _;
use serde_json::{Value, json};

/// Rows of the context.
const ROWS: usize = 20;
/// Window of the sliding layers.
const WINDOW: usize = 8;

fn pair() -> RandomPair {
    random::qwen::pairs().swap_remove(1)
}

fn target(pair: &RandomPair) -> Box<dyn Target> {
    conformance::load::target(pair.target.open().unwrap()).unwrap()
}

/// The pair's drafter under a changed config, every layer of one type.
fn drafter(pair: &RandomPair, layer: &str, change: impl FnOnce(&mut Value)) -> Box<dyn Drafter> {
    let mut config = pair.drafter.config.clone();
    config["layer_types"] = json!(vec![layer; 3]);
    config["sliding_window"] = json!(WINDOW);
    change(&mut config);
    let opened = pair.drafter.open_as(config).unwrap();
    conformance::load::drafter(opened, target(pair).as_ref()).unwrap()
}

/// Remembers the logits; always picks the same.
#[derive(Default)]
struct Seen(Vec<f32>);

impl Pick for Seen {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        self.0.extend_from_slice(logits);
        Ok(TokenId(0))
    }
}

/// Taps of [`ROWS`] rows; those before `changed` are other ones.
fn taps(width: usize, changed: usize) -> Vec<f32> {
    let (mut numbers, mut other) = (Numbers::new(1), Numbers::new(2));
    let mut value = |i| {
        let (a, b) = (numbers.unit(), other.unit());
        if i / width < changed { b } else { a }
    };
    (0..ROWS * width).map(&mut value).collect()
}

/// Logits of `count` proposals after a context whose first `changed` rows are other ones.
fn logits(drafter: &dyn Drafter, changed: usize, count: usize) -> Vec<f32> {
    let width = drafter.spec().taps.len() * drafter.spec().hidden;
    let taps = taps(width, changed);
    let mut context = drafter.new_context();
    // Two pieces, so that rows are dropped between them.
    for (start, end) in [(0, 5), (5, ROWS)] {
        let rows = &taps[start * width..end * width];
        let rows = Tensor::from_host(rows, end - start, width, Executor::detect().unwrap()).unwrap();
        drafter
            .observe(&mut [Observe { context: &mut context, taps: &rows, start: Position(start) }])
            .unwrap();
    }
    let mut seen = Seen::default();
    let position = Position(ROWS);
    let job = Draft {
        context: &mut context,
        anchor: TokenId(3),
        position,
        count,
        pick: &mut seen,
        confidence: None,
    };
    drafter.propose(&mut [job]).unwrap();
    seen.0
}

/// Row i of a causal block does not know the rows after it; row i of a bidirectional one does.
#[test]
fn blocks_are_causal_as_the_config_says() {
    let pair = pair();
    let cases: [(&str, &[&str], Option<bool>, bool); 7] = [
        ("full_attention", &["is_causal"], None, false),
        ("full_attention", &["is_causal"], Some(false), false),
        ("full_attention", &["is_causal"], Some(true), true),
        ("full_attention", &["dflash_config", "causal"], Some(true), true),
        // The authors' code: causal unless the config says otherwise.
        ("sliding_attention", &["is_causal"], None, true),
        ("sliding_attention", &["is_causal"], Some(false), false),
        ("sliding_attention", &["dflash_config", "dflash_query_causal"], Some(false), false),
    ];
    for (layer, field, causal, expected) in cases {
        let drafter = drafter(&pair, layer, |config| match field {
            [name] => config[*name] = causal.into(),
            names => config[names[0]][names[1]] = causal.into(),
        });
        let (few, many) = (logits(drafter.as_ref(), 0, 3), logits(drafter.as_ref(), 0, 7));
        assert_eq!(few == many[..few.len()], expected, "{layer}, {field:?} {causal:?}");
    }
}

/// The anchor's row is the one that looks furthest back: W − 1 rows before its own position, and none before these.
#[test]
fn a_window_ends_where_the_config_says() {
    let pair = pair();
    let oldest = ROWS - (WINDOW - 1);
    for causal in [None, Some(false), Some(true)] {
        let sliding = drafter(&pair, "sliding_attention", |config| config["is_causal"] = causal.into());
        let expected = logits(sliding.as_ref(), 0, 7);
        assert_eq!(logits(sliding.as_ref(), oldest, 7), expected, "is_causal {causal:?}: a row too many");
        assert_ne!(
            logits(sliding.as_ref(), oldest + 1, 7),
            expected,
            "is_causal {causal:?}: a row is missing"
        );
    }
    let full = drafter(&pair, "full_attention", |_| {});
    assert_ne!(logits(full.as_ref(), 1, 7), logits(full.as_ref(), 0, 7), "the first row of the context");
}

/// Factor and bound on the logits, as numbers of their own.
#[test]
fn logits_are_scaled_and_bounded() {
    let pair = pair();
    let with = |fields: &[(&str, f64)]| {
        let change = |config: &mut Value| {
            for (name, value) in fields {
                config["dflash_config"][*name] = json!(value);
            }
        };
        logits(drafter(&pair, "full_attention", change).as_ref(), 0, 7)
    };
    let raw = with(&[]);
    let halves: Vec<f32> = raw.iter().map(|logit| logit / 2.0).collect();
    assert_eq!(with(&[("output_multiplier", 0.5)]), halves);
    let capped = with(&[("output_multiplier", 0.5), ("final_logit_softcapping", 2.0)]);
    for (found, half) in capped.iter().zip(&halves) {
        let expected = 2.0 * (f64::from(*half) / 2.0).tanh();
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found}, expected {expected}");
    }
}

/// A factor on embedding rows is that of a target whose table is larger by it.
#[test]
fn embedding_rows_are_scaled() {
    let pair = pair();
    let scaled = drafter(&pair, "full_attention", |config| {
        config["dflash_config"]["input_embedding_scale"] = json!(2.0);
    });
    let mut doubled = pair.clone();
    doubled.target = with_doubled_table(&pair.target);
    let plain = drafter(&doubled, "full_attention", |_| {});
    assert_eq!(logits(scaled.as_ref(), 0, 7), logits(plain.as_ref(), 0, 7));
    let unscaled = drafter(&pair, "full_attention", |_| {});
    assert_ne!(logits(scaled.as_ref(), 0, 7), logits(unscaled.as_ref(), 0, 7));
}

/// The target with its embedding table times 2; its head is a matrix of its own.
fn with_doubled_table(model: &RandomModel) -> RandomModel {
    let name = "model.language_model.embed_tokens.weight";
    let checkpoint = model.open().unwrap();
    let table = checkpoint.tensor(name).unwrap();
    let values: Vec<f32> = table.to_f32().unwrap().iter().map(|value| 2.0 * value).collect();
    let mut doubled = model.clone();
    doubled.tensors = doubled.tensors.f32(name, table.shape, &values);
    doubled
}
