//! The text model inside a checkpoint that may hold more.

use super::{Checkpoint, Result};

/// What image and video weights are called, after an optional `model.`.
const VISION: [&str; 7] = [
    "visual.",
    "vision_tower.",
    "vision_model.",
    "vision_adapter.",
    "vision_projection.",
    "perception_emb_norm.",
    "multi_modal_projector.",
];

/// Whether a tensor belongs to the vision side: its tower, and what brings images into the text.
fn is_vision(name: &str) -> bool {
    let name = name.strip_prefix("model.").unwrap_or(name);
    VISION.iter().any(|prefix| name.starts_with(prefix))
}

/// The name of a tensor in the layout of a text-only checkpoint: `model.…` and `lm_head.…`, whether it lies inside a
/// vision model as released or as converted for MLX.
fn text_name(name: &str) -> String {
    match name.strip_prefix("model.language_model.") {
        Some(text) => format!("model.{text}"),
        None => name.strip_prefix("language_model.").unwrap_or(name).to_owned(),
    }
}

impl Checkpoint {
    /// The text model alone, by the names of a text-only checkpoint. Vision weights are left out, which is said in a
    /// line; so is what `left_out` names. Whatever else a file holds is refused once the model has taken its own
    /// ([`Checkpoint::finish`]).
    ///
    /// # Errors
    /// As [`Checkpoint::with_names`].
    pub fn text_only(self, left_out: impl Fn(&str) -> bool) -> Result<Self> {
        let vision = self.names().filter(|name| is_vision(name)).count();
        if vision > 0 {
            tracing::warn!("{vision} vision weights are skipped: images and videos are not read, text is");
        }
        self.with_names(|name| {
            if is_vision(name) {
                return None;
            }
            let name = text_name(name);
            (!left_out(&name)).then_some(name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_layouts_give_one_name() {
        for name in [
            "model.layers.0.mlp.up_proj.weight",
            "model.language_model.layers.0.mlp.up_proj.weight",
            "language_model.model.layers.0.mlp.up_proj.weight",
        ] {
            assert_eq!(text_name(name), "model.layers.0.mlp.up_proj.weight");
        }
        for head in ["lm_head.weight", "language_model.lm_head.weight"] {
            assert_eq!(text_name(head), "lm_head.weight");
        }
    }

    #[test]
    fn vision_weights_are_told_in_both_spellings_and_nothing_else_is() {
        for name in [
            "visual.pos_embed.weight",
            "vision_tower.layers.0.attn.q_proj.weight",
            "vision_adapter.fc1.weight",
            "vision_projection.weight",
            "perception_emb_norm.weight",
            "multi_modal_projector.linear_1.bias",
        ] {
            assert!(is_vision(name) && is_vision(&format!("model.{name}")), "{name}");
        }
        for name in ["model.layers.0.extra", "model.language_model.layers.0.visual.weight", "lm_head.weight"]
        {
            assert!(!is_vision(name), "{name}");
        }
    }
}
