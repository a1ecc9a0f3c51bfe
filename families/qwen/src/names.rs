//! Tensor names of the layouts in use (spec 2.2).

/// The name this crate reads a tensor by: that of the text-only layout. Vision towers and MTP heads are no part of the
/// text model, nor is an output matrix next to a tied embedding.
pub(crate) fn rename(name: &str, tied: bool) -> Option<String> {
    let other = ["model.visual.", "visual.", "vision_tower.", "model.vision_tower."];
    if name.contains("mtp.") || other.iter().any(|prefix| name.starts_with(prefix)) {
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
            "model.layers.0.mlp.up_proj.weight",
            "model.language_model.layers.0.mlp.up_proj.weight",
            "language_model.model.layers.0.mlp.up_proj.weight",
        ] {
            assert_eq!(rename(name, false).as_deref(), Some("model.layers.0.mlp.up_proj.weight"));
        }
        for head in ["lm_head.weight", "language_model.lm_head.weight"] {
            assert_eq!(rename(head, false).as_deref(), Some("lm_head.weight"));
            assert_eq!(rename(head, true), None);
        }
    }

    #[test]
    fn vision_and_mtp_are_dropped_and_nothing_else() {
        for name in [
            "model.visual.pos_embed.weight",
            "vision_tower.blocks.0.norm1.weight",
            "mtp.layers.0.mlp.up_proj.weight",
            "language_model.mtp.norm.weight",
        ] {
            assert_eq!(rename(name, false), None, "{name}");
        }
        // Whatever else a file holds is refused by name once the model has taken its own.
        assert_eq!(rename("model.layers.0.extra", false).as_deref(), Some("model.layers.0.extra"));
    }
}
