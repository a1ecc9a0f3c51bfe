//! Tensor names of the layouts in use.

/// The name this crate reads a tensor by: mlx-vlm puts `language_model.` in front, LFM2-VL nests the text in the
/// middle (spec 1.2).
pub(crate) fn rename(name: &str) -> Option<String> {
    if let Some(text) = name.strip_prefix("model.language_model.") {
        return Some(format!("model.{text}"));
    }
    let text = name.strip_prefix("language_model.").unwrap_or(name);
    let is_text =
        text.starts_with("model.layers.") || text.starts_with("model.embed") || text.starts_with("lm_head.");
    is_text.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::rename;

    #[test]
    fn all_layouts_give_one_name() {
        for name in [
            "model.layers.0.conv.conv.weight",
            "language_model.model.layers.0.conv.conv.weight",
            "model.language_model.layers.0.conv.conv.weight",
        ] {
            assert_eq!(rename(name).as_deref(), Some("model.layers.0.conv.conv.weight"));
        }
        assert_eq!(rename("model.vision_tower.patch.weight"), None);
        assert_eq!(rename("model.embedding_norm.weight").as_deref(), Some("model.embedding_norm.weight"));
    }
}
