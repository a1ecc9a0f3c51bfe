//! The model, in reading order.

use mlxcel_core::{
    Result, Width,
    family::{Output, Segment, Target, TargetFamily, TargetSpec},
    nn::{Attention, Batch, Embedding, Linear, Loader, RmsNorm, Rope, RopeStyle, silu_mul},
    state::{KvState, LayerState, SequenceState},
};

use crate::config::Config;

/// `embed → layers → norm → head`.
pub(crate) struct MyModel {
    spec: TargetSpec,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
}

/// `h + attention(norm(h))`, then `h + feed_forward(norm(h))`.
struct Layer {
    attention_norm: RmsNorm,
    qkv: Linear,
    attention: Attention,
    out: Linear,
    ffn_norm: RmsNorm,
    gate_up: Linear,
    down: Linear,
}

impl MyModel {
    pub(crate) fn load(family: &TargetFamily, config: &Config, loader: &Loader<'_>) -> Result<Self> {
        let embedding = Embedding::load(loader, "model.embed_tokens", config.vocab, config.hidden)?;
        loader.checkpoint().pass_over_head("lm_head");
        Ok(Self {
            spec: TargetSpec {
                family: family.name,
                layers: config.layers,
                hidden: config.hidden,
                vocab: config.vocab,
                context: config.context,
                supports_batched: family.supports_batched,
                required_drafter_family: family.required_drafter_family,
                suppressed: config.suppressed.clone(),
            },
            layers: (0..config.layers).map(|n| Layer::load(loader, config, n)).collect::<Result<_>>()?,
            norm: RmsNorm::load(loader, "model.norm", config.hidden, config.norm_eps)?,
            head: embedding.to_linear()?,
            embedding,
        })
    }
}

impl Layer {
    fn load(loader: &Loader<'_>, config: &Config, n: usize) -> Result<Self> {
        let path = |name: &str| format!("model.layers.{n}.{name}");
        let (d, f) = (config.hidden, config.feed_forward);
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let [wq, wk, wv] = ["q_proj", "k_proj", "v_proj"].map(|name| path(&format!("self_attn.{name}")));
        let (gate, up) = (path("mlp.gate_proj"), path("mlp.up_proj"));
        let norm = |name: &str| RmsNorm::load(loader, &path(name), d, config.norm_eps);
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            qkv: Linear::load_joined(loader, &[(&wq, q), (&wk, kv), (&wv, kv)], d)?,
            attention: Attention {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                scale: (config.head_dim as f32).powf(-0.5),
                q_norm: None,
                k_norm: None,
                rope: Some(Rope::new(config.rope_theta, config.head_dim, RopeStyle::HalfSplit)),
            },
            out: Linear::load(loader, &path("self_attn.o_proj"), d, q)?,
            ffn_norm: norm("post_attention_layernorm")?,
            gate_up: Linear::load_joined(loader, &[(&gate, f), (&up, f)], d)?,
            down: Linear::load(loader, &path("mlp.down_proj"), d, f)?,
        })
    }
}

impl Target for MyModel {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, _slack: Width) -> SequenceState {
        let state = |Layer { attention, .. }: &Layer| {
            LayerState::Kv(KvState::new(attention.kv_heads, attention.head_dim))
        };
        SequenceState::new(self.layers.iter().map(state).collect())
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let mut batch = Batch::new(segments, &self.spec)?;
        let mut h = self.embedding.lookup(batch.tokens())?;
        for (n, layer) in self.layers.iter().enumerate() {
            let u = layer.attention_norm.forward(&h)?;
            let o = layer.attention.forward(&layer.qkv.forward(&u)?, &mut batch.spans(n)?)?;
            let u = layer.ffn_norm.add_forward(&mut h, &layer.out.forward(&o)?)?;
            h.add_assign(&layer.down.forward(&silu_mul(&layer.gate_up.forward(&u)?)?)?)?;
            batch.tap(n, &h)?;
        }
        let logits = match batch.wanted(&h)? {
            Some(rows) => Some(self.head.forward(&self.norm.forward(&rows)?)?),
            None => None,
        };
        batch.outputs(logits.as_ref())
    }

    fn embedding(&self) -> Embedding {
        self.embedding.clone()
    }

    fn head(&self) -> Linear {
        self.head.clone()
    }
}
