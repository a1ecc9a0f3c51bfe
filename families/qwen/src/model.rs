//! The model, in reading order (spec 2.3).

use mlxcel_core::{
    Result, Width,
    checkpoint::Checkpoint,
    family::{Output, Segment, Target, TargetFamily, TargetSpec},
    nn::{
        Attention, Batch, DeltaWeights, Embedding, GatedDelta, Linear, Loader, RmsNorm, Rope, RopeStyle,
        Span, Tensor, silu_mul,
    },
    state::{KvState, LayerState, SequenceState},
};

use crate::config::{self, Config};

/// `embed → layers → norm → head`.
pub(crate) struct Qwen {
    spec: TargetSpec,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
}

/// `h + mixer(norm(h))`, then `h + mlp(norm(h))`.
struct Layer {
    input_layernorm: RmsNorm,
    mixer: Mixer,
    post_attention_layernorm: RmsNorm,
    gate_up: Linear,
    down: Linear,
}

enum Mixer {
    /// Attention over `[q | gate]` of every head, k and v.
    Full { qkv: Linear, attention: Attention, out: Linear },
    /// A delta net over q, k, v, the output's gate z, and the gates b and a of the state.
    Linear { input: Linear, delta: GatedDelta, out: Linear },
}

/// How the norms between the mixers are stored: around 0 in the HF layout, around 1 in the converted one.
#[derive(Clone, Copy)]
struct Norms {
    centred: bool,
    eps: f32,
}

impl Norms {
    /// Only the convolution tells the layouts apart: `[channels, 1, taps]` as HF stores it, or transposed (spec 2.2).
    fn of(config: &Config, checkpoint: &Checkpoint) -> Self {
        let untransposed = |n: usize| {
            let kernel = checkpoint.peek(&format!("model.layers.{n}.linear_attn.conv1d.weight"));
            kernel.is_some_and(|(_, shape)| shape.get(1..) == Some(&[1, config.delta.taps]))
        };
        Self { centred: (0..config.mixers.len()).any(untransposed), eps: config.norm_eps }
    }

    fn load(self, loader: &Loader<'_>, path: &str, width: usize) -> Result<RmsNorm> {
        if self.centred {
            RmsNorm::load_centred(loader, path, width, self.eps)
        } else {
            RmsNorm::load(loader, path, width, self.eps)
        }
    }
}

impl Qwen {
    pub(crate) fn load(family: &TargetFamily, config: &Config, loader: &Loader<'_>) -> Result<Self> {
        let embedding = Embedding::load(loader, "model.embed_tokens", config.vocab, config.hidden)?;
        let head = if config.tied {
            loader.checkpoint().pass_over_head("lm_head");
            embedding.to_linear()?
        } else {
            Linear::load(loader, "lm_head", config.vocab, config.hidden)?
        };
        let norms = Norms::of(config, loader.checkpoint());
        Ok(Self {
            spec: TargetSpec {
                family: family.name,
                layers: config.mixers.len(),
                hidden: config.hidden,
                vocab: config.vocab,
                context: config.context,
                supports_batched: family.supports_batched,
                required_drafter_family: family.required_drafter_family,
                suppressed: config.suppressed.clone(),
            },
            layers: (0..config.mixers.len())
                .map(|n| Layer::load(loader, config, norms, n))
                .collect::<Result<_>>()?,
            norm: norms.load(loader, "model.norm", config.hidden)?,
            embedding,
            head,
        })
    }
}

impl Layer {
    fn load(loader: &Loader<'_>, config: &Config, norms: Norms, n: usize) -> Result<Self> {
        let path = |name: &str| format!("model.layers.{n}.{name}");
        let (d, f) = (config.hidden, config.feed_forward);
        let (gate, up) = (path("mlp.gate_proj"), path("mlp.up_proj"));
        Ok(Self {
            input_layernorm: norms.load(loader, &path("input_layernorm"), d)?,
            mixer: match config.mixers[n] {
                config::Mixer::Full => Mixer::full(loader, config, norms, &path("self_attn"))?,
                config::Mixer::Linear => Mixer::linear(loader, config, &path("linear_attn"))?,
            },
            post_attention_layernorm: norms.load(loader, &path("post_attention_layernorm"), d)?,
            gate_up: Linear::load_joined(loader, &[(&gate, f), (&up, f)], d)?,
            down: Linear::load(loader, &path("mlp.down_proj"), d, f)?,
        })
    }
}

impl Mixer {
    fn full(loader: &Loader<'_>, config: &Config, norms: Norms, path: &str) -> Result<Self> {
        let (d, head_dim) = (config.hidden, config.head_dim);
        let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
        let [q_proj, k_proj, v_proj] = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
        let parts = [(q_proj.as_str(), 2 * q), (&k_proj, kv), (&v_proj, kv)];
        let o_proj = format!("{path}.o_proj");
        let (qkv, out) = if config.attention_bias {
            (Linear::load_joined_biased(loader, &parts, d)?, Linear::load_biased(loader, &o_proj, d, q)?)
        } else {
            (Linear::load_joined(loader, &parts, d)?, Linear::load(loader, &o_proj, d, q)?)
        };
        let attention = Attention {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim,
            scale: (head_dim as f32).powf(-0.5),
            q_norm: Some(norms.load(loader, &format!("{path}.q_norm"), head_dim)?),
            k_norm: Some(norms.load(loader, &format!("{path}.k_norm"), head_dim)?),
            rope: Some(Rope::new(config.rope_theta, config.rope_dims, RopeStyle::HalfSplit)),
        };
        Ok(Self::Full { qkv, attention, out })
    }

    fn linear(loader: &Loader<'_>, config: &Config, path: &str) -> Result<Self> {
        let (d, dims) = (config.hidden, config.delta);
        let name = |name: &str| format!("{path}.{name}");
        let [qkv, z, b, a] = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"].map(name);
        let heads = dims.value_heads;
        let parts = [(qkv.as_str(), dims.qkv_width()), (&z, dims.out_width()), (&b, heads), (&a, heads)];
        let weights = DeltaWeights {
            kernel: loader.conv_kernel(&name("conv1d.weight"), dims.qkv_width(), dims.taps)?,
            a_log: loader.vector(&name("A_log"), heads)?,
            dt_bias: loader.vector(&name("dt_bias"), heads)?,
            // Plain in every layout.
            norm: loader.vector(&name("norm.weight"), dims.value_dim)?,
            norm_eps: config.norm_eps,
        };
        Ok(Self::Linear {
            input: Linear::load_joined(loader, &parts, d)?,
            delta: GatedDelta::new(dims, &weights, loader.executor())?,
            out: Linear::load(loader, &name("out_proj"), d, dims.out_width())?,
        })
    }

    fn forward(&self, u: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        match self {
            Self::Full { qkv, attention, out } => {
                out.forward(&attention.forward_gated(&qkv.forward(u)?, spans)?)
            }
            Self::Linear { input, delta, out } => out.forward(&delta.forward(&input.forward(u)?, spans)?),
        }
    }

    fn new_state(&self) -> LayerState {
        match self {
            Self::Full { attention, .. } => {
                LayerState::Kv(KvState::new(attention.kv_heads, attention.head_dim))
            }
            Self::Linear { delta, .. } => LayerState::Delta(delta.new_state()),
        }
    }
}

impl Target for Qwen {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, _slack: Width) -> SequenceState {
        SequenceState::new(self.layers.iter().map(|layer| layer.mixer.new_state()).collect())
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let mut batch = Batch::new(segments, &self.spec)?;
        let mut h = self.embedding.lookup(batch.tokens())?;
        for (n, layer) in self.layers.iter().enumerate() {
            let u = layer.input_layernorm.forward(&h)?;
            let r = layer.mixer.forward(&u, &mut batch.spans(n)?)?;
            let u = layer.post_attention_layernorm.add_forward(&mut h, &r)?;
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
