//! The backbone that DFlash and DSpark share, in reading order (spec 4.2, 4.3).

use mlxcel_core::{
    Error, Position, Result, TokenId, Width,
    family::{Bound, DrafterContext, Observe},
    nn::{Attention, Embedding, Linear, Loader, Mask, RmsNorm, Rope, Tensor, scale, silu_mul},
    state::KvState,
};

use crate::config::Config;

/// Block tokens in, normed rows out; the context is what the target said of the committed rows.
pub(crate) struct Backbone {
    /// The target's raw table.
    embedding: Embedding,
    /// Factor on its rows.
    embedding_scale: f32,
    /// From the taps, side by side, to one context row.
    fc: Linear,
    hidden_norm: RmsNorm,
    layers: Vec<Layer>,
    norm: RmsNorm,
    /// Rows of a block at most.
    width: Width,
}

struct Layer {
    /// What a row of the block sees of the context and of the block.
    mask: Mask,
    input_layernorm: RmsNorm,
    q: Linear,
    kv: Linear,
    attention: Attention,
    out: Linear,
    post_attention_layernorm: RmsNorm,
    gate_up: Linear,
    down: Linear,
}

impl Backbone {
    /// The backbone of a drafter whose blocks have up to `width` rows.
    pub(crate) fn load(
        config: &Config,
        width: Width,
        loader: &Loader<'_>,
        bound: &Bound<'_>,
    ) -> Result<Self> {
        let (d, eps) = (config.hidden, config.norm_eps);
        Ok(Self {
            embedding: bound.embedding.clone(),
            embedding_scale: config.embedding_scale,
            fc: Linear::load(loader, "fc", d, config.taps.len() * d)?,
            hidden_norm: RmsNorm::load(loader, "hidden_norm", d, eps)?,
            layers: (0..config.layers).map(|n| Layer::load(config, loader, n)).collect::<Result<_>>()?,
            norm: RmsNorm::load(loader, "norm", d, eps)?,
            width,
        })
    }

    pub(crate) fn new_context(&self) -> DrafterContext {
        let state = |Layer { attention, mask, .. }: &Layer| match mask.reach() {
            Some(keep) => KvState::windowed(attention.kv_heads, attention.head_dim, keep, self.width),
            None => KvState::new(attention.kv_heads, attention.head_dim),
        };
        DrafterContext { layers: self.layers.iter().map(state).collect() }
    }

    /// `c = norm(fc·X)`; every layer keeps the keys and values of the same `c`. Rows that no later block sees are not even
    /// encoded.
    pub(crate) fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        for job in jobs {
            check_position(job.context, job.start)?;
            let rows = job.taps.rows();
            let unseen = self.reach().map_or(0, |reach| rows.saturating_sub(reach));
            for context in &mut job.context.layers {
                context.skip(unseen)?;
            }
            let taps = job.taps.slice_rows(unseen..rows)?;
            let c = self.hidden_norm.forward(&self.fc.forward(&taps)?)?;
            for (layer, context) in self.layers.iter().zip(&mut job.context.layers) {
                layer.attention.append(&layer.kv.forward(&c)?, context)?;
            }
        }
        Ok(())
    }

    /// Rows of the context that a block sees at most; `None` if it sees all of them.
    fn reach(&self) -> Option<usize> {
        self.layers.iter().map(|layer| layer.mask.reach()).try_fold(0, |most, reach| Some(most.max(reach?)))
    }

    /// The block `[anchor, mask, …]` of `rows` rows at `position`; gives its rows after the final norm, `[rows, hidden]`.
    /// The block's own keys and values leave the context again.
    pub(crate) fn block(
        &self,
        context: &mut DrafterContext,
        anchor: TokenId,
        mask: TokenId,
        position: Position,
        rows: Width,
    ) -> Result<Tensor> {
        check_position(context, position)?;
        let mut tokens = vec![mask; rows.rows()];
        tokens[0] = anchor;
        let mut x = self.embedding.lookup(&tokens)?;
        if self.embedding_scale != 1.0 {
            x = scale(&x, self.embedding_scale)?;
        }
        for (layer, context) in self.layers.iter().zip(&mut context.layers) {
            context.begin(rows)?;
            let out = layer.forward(&x, context, position);
            context.commit(mlxcel_core::Kept(0))?;
            x = out?;
        }
        self.norm.forward(&x)
    }
}

/// A context has taken every committed row up to `position` and no other.
fn check_position(context: &DrafterContext, position: Position) -> Result<()> {
    if context.len() == position.0 {
        return Ok(());
    }
    Err(Error::Shape { what: "rows of the drafter's context", found: context.len(), expected: position.0 })
}

impl Layer {
    fn load(config: &Config, loader: &Loader<'_>, n: usize) -> Result<Self> {
        let path = |name: &str| format!("layers.{n}.{name}");
        let (d, f, eps) = (config.hidden, config.feed_forward, config.norm_eps);
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let (k_name, v_name) = (path("self_attn.k_proj"), path("self_attn.v_proj"));
        let (gate, up) = (path("mlp.gate_proj"), path("mlp.up_proj"));
        let head_norm = |name: &str| RmsNorm::load(loader, &path(name), config.head_dim, eps);
        Ok(Self {
            mask: config.masks[n],
            input_layernorm: RmsNorm::load(loader, &path("input_layernorm"), d, eps)?,
            q: Linear::load(loader, &path("self_attn.q_proj"), q, d)?,
            kv: Linear::load_joined(loader, &[(&k_name, kv), (&v_name, kv)], d)?,
            attention: Attention {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                scale: (config.head_dim as f32).powf(-0.5),
                q_norm: Some(head_norm("self_attn.q_norm")?),
                k_norm: Some(head_norm("self_attn.k_norm")?),
                rope: Some(Rope::new(config.rope_theta, config.head_dim, config.rope_style)),
            },
            out: Linear::load(loader, &path("self_attn.o_proj"), d, q)?,
            post_attention_layernorm: RmsNorm::load(loader, &path("post_attention_layernorm"), d, eps)?,
            gate_up: Linear::load_joined(loader, &[(&gate, f), (&up, f)], d)?,
            down: Linear::load(loader, &path("mlp.down_proj"), d, f)?,
        })
    }

    /// The block's rows against the context and the block itself, as far as the mask lets them see (spec 4.4).
    fn forward(&self, x: &Tensor, context: &mut KvState, position: Position) -> Result<Tensor> {
        let u = self.input_layernorm.forward(x)?;
        self.attention.append(&self.kv.forward(&u)?, context)?;
        let o = self.attention.attend(&self.q.forward(&u)?, context, position, self.mask)?;
        let mut h = x.clone();
        let u = self.post_attention_layernorm.add_forward(&mut h, &self.out.forward(&o)?)?;
        h.add_assign(&self.down.forward(&silu_mul(&self.gate_up.forward(&u)?)?)?)?;
        Ok(h)
    }
}
