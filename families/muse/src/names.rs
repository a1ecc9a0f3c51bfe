//! Tensor names of the layouts in use (spec 3.1).

/// Whether a tensor belongs to the vision side: its tower, and what brings images into the text.
pub(crate) fn is_vision(name: &str) -> bool {
    let name = name.strip_prefix("model.").unwrap_or(name);
    ["vision_tower.", "vision_adapter.", "vision_projection.", "perception_emb_norm."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The name this crate reads a tensor by: that of the text-only layout. Vision weights and stored rotation frequencies
/// are no part of the text model, nor is an output matrix next to a tied embedding.
pub(crate) fn rename(name: &str, tied: bool) -> Option<String> {
    if is_vision(name) || name.ends_with("rotary_emb.inv_freq") {
        return None;
    }
    let name = match name.strip_prefix("model.language_model.") {
        Some(text) => format!("model.{text}"),
        None => name.strip_prefix("language_model.").unwrap_or(name).to_owned(),
    };
    (!(tied && name.starts_with("lm_head."))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::rename;

    #[test]
    fn all_layouts_give_one_name() {
        for name in [
            "model.layers.0.self_attn.gate_proj.weight",
            "model.language_model.layers.0.self_attn.gate_proj.weight",
            "language_model.model.layers.0.self_attn.gate_proj.weight",
        ] {
            assert_eq!(rename(name, false).as_deref(), Some("model.layers.0.self_attn.gate_proj.weight"));
        }
        for head in ["lm_head.weight", "language_model.lm_head.weight"] {
            assert_eq!(rename(head, false).as_deref(), Some("lm_head.weight"));
            assert_eq!(rename(head, true), None);
        }
    }

    #[test]
    fn vision_weights_are_dropped_in_both_spellings_and_nothing_else() {
        for name in [
            "vision_tower.layers.0.attn.q_proj.weight",
            "vision_adapter.fc1.weight",
            "vision_projection.weight",
            "perception_emb_norm.weight",
        ] {
            assert_eq!(rename(name, false), None, "{name}");
            assert_eq!(rename(&format!("model.{name}"), false), None, "model.{name}");
        }
        assert_eq!(rename("model.layers.3.self_attn.rotary_emb.inv_freq", false), None);
        // Whatever else a file holds is refused by name once the model has taken its own.
        assert_eq!(rename("model.layers.0.extra", false).as_deref(), Some("model.layers.0.extra"));
    }
}
