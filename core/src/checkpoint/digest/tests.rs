use serde_json::json;

use super::super::CheckpointWriter;
use super::super::tests::{opened, writer};
use super::samples;

/// One tensor that is read whole, one that is sampled.
fn base(flip: Option<usize>) -> CheckpointWriter {
    let mut large = vec![7; 4096];
    if let Some(at) = flip {
        large[at] = 8;
    }
    writer(json!({"hidden_size": 2})).f32("small", &[1, 2], &[1.0, 2.0]).tensor(
        "large",
        super::super::Dtype::U8,
        &[4096],
        large,
    )
}

fn digest(writer: &CheckpointWriter) -> String {
    opened(writer).unwrap().digest()
}

#[test]
fn the_digest_is_pinned() {
    insta::assert_snapshot!(digest(&base(None)));
}

#[test]
fn everything_that_makes_a_model_counts() {
    let first = digest(&base(None));
    assert_eq!(first, digest(&base(None)), "the folder does not count");
    assert_eq!(first, digest(&base(None).file("README.md", "other")), "nor do other files");
    let different = [
        base(None).config(json!({"hidden_size": 3})),
        base(None).f32("small", &[1, 2], &[1.0, 2.5]),
        base(None).f32("small", &[2, 1], &[1.0, 2.0]),
        base(None).f32("more", &[0], &[]),
        base(Some(0)),
        base(Some(4095)),
        base(None).tensors_per_shard(1),
    ];
    for (at, writer) in different.iter().enumerate() {
        assert_ne!(first, digest(writer), "change {at}");
    }
}

#[test]
fn names_of_the_family_do_not_count() {
    let renamed = opened(&base(None)).unwrap().with_names(|name| Some(format!("model.{name}"))).unwrap();
    assert_eq!(renamed.digest(), digest(&base(None)));
}

#[test]
fn samples_reach_from_the_first_byte_to_the_last() {
    let bytes = (0..1024u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>();
    let pieces = samples(&bytes).collect::<Vec<_>>();
    assert_eq!(pieces.len(), 8);
    assert_eq!(pieces[0], &bytes[..64]);
    assert_eq!(pieces[7], &bytes[4032..]);
    assert_eq!(samples(&bytes[..512]).collect::<Vec<_>>(), [&bytes[..512]]);
    assert_eq!(samples(&bytes[..513]).count(), 8);
    assert_eq!(samples(&[]).collect::<Vec<_>>(), [&[] as &[u8]]);
}
