//! A small trained pair inside the program: an LFM2 target of 7 million parameters in 4 bits, and its DSpark drafter in 8.
//!
//! Files as name and content, the form that `Checkpoint::embedded` takes.

/// Name and content of each file of a checkpoint.
pub type Files = &'static [(&'static str, &'static [u8])];

/// What the pair is called.
pub const NAME: &str = "lfm2-demo";

macro_rules! files {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("../assets/", $folder, "/", $name)))),+]
    };
}

/// The target.
pub static TARGET: Files = files!("lfm2/target":
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
);

/// Its drafter.
pub static DRAFTER: Files = files!("lfm2/drafter": "config.json", "model.safetensors");
