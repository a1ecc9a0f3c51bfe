//! What the random drafters have in common: DFlash, DSpark and assistants share one backbone (spec 4.2).

use serde_json::{Map, Value, json};

use super::{Weights, weights::Packed};
use crate::pairing::Misfit;

const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const HEAD_DIM: usize = 16;

/// Shape of a backbone.
pub(super) struct Backbone {
    /// Width of the residual stream.
    pub(super) hidden: usize,
    /// Layers.
    pub(super) layers: usize,
    /// Layers of the target that are read.
    pub(super) taps: usize,
    /// How its matrices are stored.
    pub(super) packed: Packed,
}

impl Backbone {
    /// Its fields of the config.
    pub(super) fn config(&self) -> Map<String, Value> {
        let fields = [
            ("hidden_size", self.hidden),
            ("num_attention_heads", HEADS),
            ("num_key_value_heads", KV_HEADS),
            ("head_dim", HEAD_DIM),
            ("num_hidden_layers", self.layers),
            ("intermediate_size", self.hidden),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// Its tensors, with `prefix` in front of every name; `encoder` names the matrix over the taps and the norm behind it.
    pub(super) fn weights(&self, seed: u64, prefix: &str, encoder: [&str; 2]) -> Weights {
        let d = self.hidden;
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        let mut weights = Weights::new(seed, self.packed);
        weights.matrix(&format!("{prefix}{}", encoder[0]), d, self.taps * d, 1.0);
        weights.norm(&format!("{prefix}{}", encoder[1]), d);
        weights.norm(&format!("{prefix}norm"), d);
        for layer in 0..self.layers {
            let path = |name: &str| format!("{prefix}layers.{layer}.{name}");
            weights.norm(&path("input_layernorm"), d);
            weights.norm(&path("post_attention_layernorm"), d);
            weights.norm(&path("self_attn.q_norm"), HEAD_DIM);
            weights.norm(&path("self_attn.k_norm"), HEAD_DIM);
            for (name, out, input) in [
                ("self_attn.q_proj", q, d),
                ("self_attn.k_proj", kv, d),
                ("self_attn.v_proj", kv, d),
                ("self_attn.o_proj", d, q),
                ("mlp.gate_proj", d, d),
                ("mlp.up_proj", d, d),
                ("mlp.down_proj", d, d),
            ] {
                weights.matrix(&path(name), out, input, 1.0);
            }
        }
        weights
    }
}

/// `config` with one thing changed.
pub(super) fn misfit(config: &Value, refusal: &'static str, change: impl FnOnce(&mut Value)) -> Misfit {
    let mut config = config.clone();
    change(&mut config);
    Misfit { refusal, config }
}

/// The config of a drafter for a target of four layers, wrong in the ways that are the same for all of them; its own
/// fields lie in the section `own`, if there is one.
pub(super) fn misfits(config: &Value, own: Option<&str>) -> Vec<Misfit> {
    let root = |refusal, field: &str, value: Value| misfit(config, refusal, |config| config[field] = value);
    let own = |refusal, field: &str, value: Value| {
        misfit(config, refusal, |config| match own {
            Some(section) => config[section][field] = value,
            None => config[field] = value,
        })
    };
    vec![
        root("Hidden", "hidden_size", json!(48)),
        root("Vocab", "vocab_size", json!(65)),
        own("NoTaps", "target_layer_ids", json!([])),
        own("TapTwice", "target_layer_ids", json!([1, 1])),
        own("TapRange", "target_layer_ids", json!([0, 4])),
        own("TapRange", "target_layer_ids", json!([0, 200])),
        own("MaskToken", "mask_token_id", json!(64)),
    ]
}
