//! The model, in reading order (spec 1.3).

use mlxcel_core::{
    Result, Width,
    family::{Output, Segment, Target, TargetFamily, TargetSpec},
    nn::{
        Attention, Batch, Embedding, Linear, Loader, RmsNorm, Rope, RopeStyle, ShortConv, Span, Tensor,
        silu_mul,
    },
    state::{ConvState, KvState, LayerState, SequenceState},
};

use crate::config::{Config, Operator};

/// `embed → layers → norm → head`.
pub(crate) struct Lfm2 {
    spec: TargetSpec,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    conv_taps: usize,
}

/// `h + mixer(norm(h))`, then `h + feed_forward(norm(h))`.
struct Layer {
    operator_norm: RmsNorm,
    mixer: Mixer,
    ffn_norm: RmsNorm,
    feed_forward: FeedForward,
}

enum Mixer {
    Attention { qkv: Linear, attention: Attention, out: Linear },
    Conv { input: Linear, conv: ShortConv, out: Linear },
}

/// `w2 · (silu(w1·u) ⊙ w3·u)`.
struct FeedForward {
    gate_up: Linear,
    down: Linear,
}

impl Lfm2 {
    pub(crate) fn load(family: &TargetFamily, config: &Config, loader: &Loader<'_>) -> Result<Self> {
        let embedding = Embedding::load(loader, "model.embed_tokens", config.vocab, config.hidden)?;
        let head = if config.tied {
            loader.checkpoint().pass_over_head("lm_head");
            embedding.to_linear()?
        } else {
            Linear::load(loader, "lm_head", config.vocab, config.hidden)?
        };
        let layer = |(n, operator): (usize, &Operator)| Layer::load(loader, config, n, *operator);
        Ok(Self {
            spec: TargetSpec {
                family: family.name,
                layers: config.operators.len(),
                hidden: config.hidden,
                vocab: config.vocab,
                context: config.context,
                supports_batched: family.supports_batched,
                required_drafter_family: family.required_drafter_family,
                suppressed: config.suppressed.clone(),
            },
            layers: config.operators.iter().enumerate().map(layer).collect::<Result<_>>()?,
            norm: RmsNorm::load(loader, "model.embedding_norm", config.hidden, config.norm_eps)?,
            embedding,
            head,
            conv_taps: config.conv_taps,
        })
    }
}

impl Layer {
    fn load(loader: &Loader<'_>, config: &Config, n: usize, operator: Operator) -> Result<Self> {
        let path = |name: &str| format!("model.layers.{n}.{name}");
        let (d, f, eps) = (config.hidden, config.feed_forward, config.norm_eps);
        let mixer = match operator {
            Operator::Attention => Mixer::attention(loader, config, &path("self_attn"))?,
            Operator::Conv => Mixer::conv(loader, config, &path("conv"))?,
        };
        let gates = [path("feed_forward.w1"), path("feed_forward.w3")];
        Ok(Self {
            operator_norm: RmsNorm::load(loader, &path("operator_norm"), d, eps)?,
            mixer,
            ffn_norm: RmsNorm::load(loader, &path("ffn_norm"), d, eps)?,
            feed_forward: FeedForward {
                gate_up: Linear::load_joined(loader, &[(&gates[0], f), (&gates[1], f)], d)?,
                down: Linear::load(loader, &path("feed_forward.w2"), d, f)?,
            },
        })
    }
}

impl Mixer {
    fn attention(loader: &Loader<'_>, config: &Config, path: &str) -> Result<Self> {
        let head_dim = config.head_dim();
        let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
        let names = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
        let head_norm =
            |name: &str| RmsNorm::load(loader, &format!("{path}.{name}"), head_dim, config.norm_eps);
        Ok(Self::Attention {
            qkv: Linear::load_joined(
                loader,
                &[(&names[0], q), (&names[1], kv), (&names[2], kv)],
                config.hidden,
            )?,
            attention: Attention {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim,
                scale: (head_dim as f32).powf(-0.5),
                q_norm: Some(head_norm("q_layernorm")?),
                k_norm: Some(head_norm("k_layernorm")?),
                rope: Some(Rope::new(config.rope_theta, head_dim, RopeStyle::HalfSplit)),
            },
            out: Linear::load(loader, &format!("{path}.out_proj"), config.hidden, q)?,
        })
    }

    fn conv(loader: &Loader<'_>, config: &Config, path: &str) -> Result<Self> {
        let (d, k) = (config.hidden, config.conv_taps);
        let kernel = loader.conv_kernel(&format!("{path}.conv.weight"), d, k)?;
        let bias = config.conv_bias.then(|| loader.vector(&format!("{path}.conv.bias"), d)).transpose()?;
        let linear = |name: &str, out| {
            let name = format!("{path}.{name}");
            if config.conv_bias {
                Linear::load_biased(loader, &name, out, d)
            } else {
                Linear::load(loader, &name, out, d)
            }
        };
        Ok(Self::Conv {
            input: linear("in_proj", 3 * d)?,
            conv: ShortConv::new(&kernel, bias.as_deref(), d, loader.executor())?,
            out: linear("out_proj", d)?,
        })
    }

    fn forward(&self, u: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        match self {
            Self::Attention { qkv, attention, out } => {
                out.forward(&attention.forward(&qkv.forward(u)?, spans)?)
            }
            Self::Conv { input, conv, out } => out.forward(&conv.forward(&input.forward(u)?, spans)?),
        }
    }

    fn new_state(&self, conv_taps: usize, hidden: usize) -> LayerState {
        match self {
            Self::Attention { attention, .. } => {
                LayerState::Kv(KvState::new(attention.kv_heads, attention.head_dim))
            }
            Self::Conv { .. } => LayerState::Conv(ConvState::new(conv_taps, hidden)),
        }
    }
}

impl FeedForward {
    fn forward(&self, u: &Tensor) -> Result<Tensor> {
        self.down.forward(&silu_mul(&self.gate_up.forward(u)?)?)
    }
}

impl Target for Lfm2 {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, _slack: Width) -> SequenceState {
        let state = |layer: &Layer| layer.mixer.new_state(self.conv_taps, self.spec.hidden);
        SequenceState::new(self.layers.iter().map(state).collect())
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let mut batch = Batch::new(segments, &self.spec)?;
        let mut h = self.embedding.lookup(batch.tokens())?;
        for (n, layer) in self.layers.iter().enumerate() {
            let u = layer.operator_norm.forward(&h)?;
            let r = layer.mixer.forward(&u, &mut batch.spans(n)?)?;
            let u = layer.ffn_norm.add_forward(&mut h, &r)?;
            h.add_assign(&layer.feed_forward.forward(&u)?)?;
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
