//! The model, in reading order (spec 3.4).

use mlxcel_core::{
    Result, Width,
    family::{Output, Segment, Target, TargetFamily, TargetSpec},
    nn::{
        Attention, Batch, Embedding, Linear, Loader, RmsNorm, Rope, RopeStyle, Span, Tensor, sigmoid_mul,
        silu_mul, softcap,
    },
    state::{KvState, LayerState, SequenceState, WindowState},
};

use crate::config::{Config, Reach};

/// `embed → norm → layers → norm → head → softcap`.
pub(crate) struct Muse {
    spec: TargetSpec,
    embedding: Embedding,
    embedding_norm: RmsNorm,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    output_multiplier: f32,
    softcap: f32,
    window: usize,
}

/// `h + norm(attention(norm(h)))`, then `h + norm(feed_forward(norm(h)))`.
struct Layer {
    reach: Reach,
    input_layernorm: RmsNorm,
    attention: GatedAttention,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    feed_forward: FeedForward,
    post_feedforward_layernorm: RmsNorm,
}

/// `Wo · (attention(u) ⊙ σ(Wgate·u))`: the gate reads what the layer reads.
struct GatedAttention {
    qkv: Linear,
    attention: Attention,
    gate: Linear,
    out: Linear,
}

/// `down · (silu(gate·u) ⊙ up·u)`.
struct FeedForward {
    gate_up: Linear,
    down: Linear,
}

impl Muse {
    pub(crate) fn load(family: &TargetFamily, config: &Config, loader: &Loader<'_>) -> Result<Self> {
        let embedding = Embedding::load(loader, "model.embed_tokens", config.vocab, config.hidden)?;
        let head = if config.tied {
            loader.checkpoint().pass_over_head("lm_head");
            embedding.to_linear()?
        } else {
            Linear::load(loader, "lm_head", config.vocab, config.hidden)?
        };
        let layer = |(n, reach): (usize, &Reach)| Layer::load(loader, config, n, *reach);
        Ok(Self {
            spec: TargetSpec {
                family: family.name,
                layers: config.layers.len(),
                hidden: config.hidden,
                vocab: config.vocab,
                context: config.context,
                supports_batched: family.supports_batched,
                required_drafter_family: family.required_drafter_family,
                suppressed: config.suppressed.clone(),
            },
            embedding_norm: RmsNorm::scaleless(config.norm_eps),
            layers: config.layers.iter().enumerate().map(layer).collect::<Result<_>>()?,
            norm: RmsNorm::load(loader, "model.norm", config.hidden, config.norm_eps)?,
            embedding,
            head,
            output_multiplier: config.output_multiplier,
            softcap: config.softcap,
            window: config.window,
        })
    }
}

impl Layer {
    fn load(loader: &Loader<'_>, config: &Config, n: usize, reach: Reach) -> Result<Self> {
        let path = |name: &str| format!("model.layers.{n}.{name}");
        let norm = |name: &str, eps: f32| RmsNorm::load_centred(loader, &path(name), config.hidden, eps);
        Ok(Self {
            reach,
            input_layernorm: norm("input_layernorm", config.norm_eps)?,
            attention: GatedAttention::load(loader, config, &path("self_attn"), reach)?,
            post_attention_layernorm: norm("post_attention_layernorm", config.post_norm_eps)?,
            pre_feedforward_layernorm: norm("pre_feedforward_layernorm", config.norm_eps)?,
            feed_forward: FeedForward::load(loader, config, &path("mlp"))?,
            post_feedforward_layernorm: norm("post_feedforward_layernorm", config.post_norm_eps)?,
        })
    }

    fn forward(&self, h: &mut Tensor, spans: &mut [Span<'_>]) -> Result<()> {
        let r = self.attention.forward(&self.input_layernorm.forward(h)?, spans)?;
        h.add_assign(&self.post_attention_layernorm.forward(&r)?)?;
        let r = self.feed_forward.forward(&self.pre_feedforward_layernorm.forward(h)?)?;
        h.add_assign(&self.post_feedforward_layernorm.forward(&r)?)
    }

    fn new_state(&self, window: usize, slack: Width) -> LayerState {
        let Attention { kv_heads, head_dim, .. } = self.attention.attention;
        match self.reach {
            Reach::Window => LayerState::Window(WindowState::new(kv_heads, head_dim, window, slack)),
            Reach::Global => LayerState::Kv(KvState::new(kv_heads, head_dim)),
        }
    }
}

impl GatedAttention {
    fn load(loader: &Loader<'_>, config: &Config, path: &str, reach: Reach) -> Result<Self> {
        let (d, head_dim) = (config.hidden, config.head_dim);
        let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
        let names = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
        let rotated = reach == Reach::Window;
        Ok(Self {
            qkv: Linear::load_joined(loader, &[(&names[0], q), (&names[1], kv), (&names[2], kv)], d)?,
            attention: Attention {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim,
                // The model scales normed queries; on the scores the factor is the same, and rounds once.
                scale: config.qk_scale * (head_dim as f32).powf(-0.5),
                q_norm: Some(RmsNorm::scaleless(config.norm_eps)),
                k_norm: Some(RmsNorm::scaleless(config.norm_eps)),
                rope: rotated.then(|| Rope::new(config.rope_theta, head_dim, RopeStyle::HalfSplit)),
            },
            gate: Linear::load(loader, &format!("{path}.gate_proj"), q, d)?,
            out: Linear::load(loader, &format!("{path}.o_proj"), d, q)?,
        })
    }

    fn forward(&self, u: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        let o = self.attention.forward(&self.qkv.forward(u)?, spans)?;
        self.out.forward(&sigmoid_mul(&o, &self.gate.forward(u)?)?)
    }
}

impl FeedForward {
    fn load(loader: &Loader<'_>, config: &Config, path: &str) -> Result<Self> {
        let (d, f) = (config.hidden, config.feed_forward);
        let names = ["gate_proj", "up_proj"].map(|name| format!("{path}.{name}"));
        Ok(Self {
            gate_up: Linear::load_joined(loader, &[(&names[0], f), (&names[1], f)], d)?,
            down: Linear::load(loader, &format!("{path}.down_proj"), d, f)?,
        })
    }

    fn forward(&self, u: &Tensor) -> Result<Tensor> {
        self.down.forward(&silu_mul(&self.gate_up.forward(u)?)?)
    }
}

impl Target for Muse {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        let state = |layer: &Layer| layer.new_state(self.window, slack);
        SequenceState::new(self.layers.iter().map(state).collect())
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let mut batch = Batch::new(segments, &self.spec)?;
        let mut h = self.embedding_norm.forward(&self.embedding.lookup(batch.tokens())?)?;
        for (n, layer) in self.layers.iter().enumerate() {
            layer.forward(&mut h, &mut batch.spans(n)?)?;
            batch.tap(n, &h)?;
        }
        let logits = match batch.wanted(&h)? {
            Some(rows) => {
                let raw = self.head.forward(&self.norm.forward(&rows)?)?;
                Some(softcap(&raw, self.output_multiplier, self.softcap)?)
            }
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
