//! The family passes what every family inherits.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use conformance::random::{Packed, RandomModel, RandomPair, Weights, dflash};
use mlxcel_core::{
    Error, Width,
    family::{self, Segment, Want},
};
use mlxcel_dflash as _;
use my_family as _;
use serde_json::json;

conformance::suite!(my_model {
    golden: { exact: [], reference: [], drafters: [] },
    model_types: &["my_model"],
    random: pairs,
    misfits: |pair| conformance::random::dflash::misfits(&pair.drafter.config),
    trained: None,
});

const VOCAB: usize = 64;
const HIDDEN: usize = 32;
const LAYERS: usize = 4;

fn pairs() -> Vec<RandomPair> {
    let drafter = dflash::Shape {
        hidden: HIDDEN,
        vocab: VOCAB,
        target_layers: LAYERS,
        taps: [0, 2],
        sliding: None,
        causal: None,
        scaled: false,
    };
    vec![RandomPair { name: "plain", target: target(1), drafter: drafter.model(2) }]
}

fn target(seed: u64) -> RandomModel {
    let config = json!({
        "model_type": "my_model", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 48,
        "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 2048,
    });
    let mut weights = Weights::new(seed, Packed::No);
    weights.table("model.embed_tokens", VOCAB, HIDDEN, 0.25);
    weights.norm("model.norm", HIDDEN);
    for n in 0..LAYERS {
        let path = |name: &str| format!("model.layers.{n}.{name}");
        weights.norm(&path("input_layernorm"), HIDDEN);
        weights.norm(&path("post_attention_layernorm"), HIDDEN);
        for (name, out, input) in [
            ("self_attn.q_proj", 32, HIDDEN),
            ("self_attn.k_proj", 16, HIDDEN),
            ("self_attn.v_proj", 16, HIDDEN),
            ("self_attn.o_proj", HIDDEN, 32),
            ("mlp.gate_proj", 48, HIDDEN),
            ("mlp.up_proj", 48, HIDDEN),
            ("mlp.down_proj", HIDDEN, 48),
        ] {
            weights.matrix(&path(name), out, input, 1.0);
        }
    }
    RandomModel { config, tensors: weights.finish() }
}

/// A family that takes one segment at a time is given one at a time, and refuses to be given more.
#[test]
fn segments_come_one_at_a_time() {
    let target = pairs()[0].load().unwrap().target;
    let tokens = conformance::random::tokens(3, 5, VOCAB);
    let mut states = [target.new_state(Width::ONE), target.new_state(Width::ONE)];
    let [a, b] = &mut states;
    let segment = |state| Segment { tokens: &tokens, state, want: Want::default() };
    let mut segments = [segment(a), segment(b)];
    match target.forward(&mut segments).map(drop) {
        Err(Error::Shape { what: "segments for a family that takes one", found: 2, expected: 1 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(family::forward(target.as_ref(), &mut segments).unwrap().len(), 2);
    assert!(states.iter().all(|state| state.len().unwrap() == 5));
}
