use ::safetensors::SafeTensors;
use proptest::prelude::*;

use super::*;

const FILE: &str = "model.safetensors";

/// A file with this header and `data` bytes behind it.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..data).map(|at| at as u8));
    bytes
}

fn entry(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

fn parse(bytes: Vec<u8>) -> Result<Shard> {
    Shard::parse(FILE, bytes.into())
}

fn refused(entries: &[String], data: usize) -> String {
    parse(file(&format!("{{{}}}", entries.join(",")), data)).unwrap_err().to_string()
}

#[test]
fn tensors_lie_where_the_header_says() {
    let header = format!(
        r#"{{"__metadata__":{{"format":"mlx"}},{},{},{}}}   "#,
        entry("b", "U8", "[3]", 4, 7),
        entry("a", "BF16", "[1,2]", 0, 4),
        entry("empty", "F32", "[0,5]", 4, 4),
    );
    let shard = parse(file(&header, 7)).unwrap();
    let names = shard.tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["a", "empty", "b"]);
    assert_eq!(shard.tensor(0), [0, 1, 2, 3]);
    assert_eq!(shard.tensor(1), [0; 0]);
    assert_eq!(shard.tensor(2), [4, 5, 6]);
    assert_eq!(shard.header().len() + 7, shard.len());
}

#[test]
fn a_file_may_hold_no_tensor() {
    assert!(parse(file("{}", 0)).unwrap().tensors.is_empty());
}

#[test]
fn a_range_must_fit_its_shape_and_the_file() {
    let one = |shape, start, end, data| refused(&[entry("a", "F32", shape, start, end)], data);
    assert!(one("[2]", 0, 4, 4).contains("expected 8 bytes for F32 [2]"));
    assert!(one("[1]", 4, 0, 4).contains("data_offsets [4, 0]"));
    assert!(one("[2]", 0, 8, 4).contains("4 bytes of data, expected 8 or more"));
    assert!(one("[1]", 4, 8, 8).contains("a start at 0: the bytes between belong to no tensor"));
    assert!(one("[1]", 0, 4, 6).contains("2 bytes after the last tensor"));
    assert!(one("[]", 0, 8, 8).contains("expected 4 bytes for F32 []"));
    let overlap = refused(&[entry("a", "U8", "[4]", 0, 4), entry("b", "U8", "[4]", 2, 6)], 6);
    assert!(overlap.contains("b has data_offsets [2, 6], expected a start at 4"), "{overlap}");
    let half = refused(&[entry("a", "F4", "[3]", 0, 1)], 1);
    assert!(half.contains("a whole number of bytes"), "{half}");
}

#[test]
fn absurd_shapes_do_not_overflow() {
    let one = |shape: &str, end| refused(&[entry("a", "F32", shape, 0, end)], 4);
    assert!(one("[4294967296, 4294967296]", 4).contains("at most 8 axes of at most 2147483647"));
    assert!(one("[2147483647,2147483647,2147483647]", 4).contains("a whole number of bytes"));
    assert!(one("[1,1,1,1,1,1,1,1,1]", 4).contains("at most 8 axes"));
    assert!(one("[-1]", 4).contains("header entry"));
    assert!(one("[18446744073709551616]", 4).contains("header entry"));
    // Eight ranges of 2^61 bytes: their ends add up beyond 64 bits, which the crate's own sum does not notice.
    let huge = 1u64 << 60;
    let entries = (0..16).map(|at| {
        entry(&format!("t{at}"), "U8", "[1073741824,1073741824]", at * huge, (at + 1).wrapping_mul(huge))
    });
    let entries = entries.collect::<Vec<_>>();
    assert!(parse(file(&format!("{{{}}}", entries.join(",")), 4)).is_err());
}

#[test]
fn the_header_must_lie_in_the_file() {
    for bytes in [vec![], vec![0; 7], u64::MAX.to_le_bytes().to_vec(), 100_000_001u64.to_le_bytes().to_vec()]
    {
        assert!(matches!(parse(bytes), Err(CheckpointError::Malformed { .. })));
    }
    let mut short = file("{}", 0);
    short[0] = 3;
    assert!(parse(short).unwrap_err().to_string().contains("2 bytes after the header's length"));
}

#[test]
fn entries_of_the_wrong_form_are_named() {
    assert!(refused(&[entry("a", "Q4", "[1]", 0, 4)], 4).contains(r#"a has the header entry {"dtype":"Q4""#));
    assert!(refused(&[r#""a": 3"#.to_owned()], 0).contains("a has the header entry 3"));
    let twice = entry("a", "F32", "[1]", 0, 4);
    assert!(refused(&[twice.clone(), twice], 4).contains("key \"a\" appears twice"));
    assert!(refused(&[r#""__metadata__":{"n":1}"#.to_owned()], 0).contains("__metadata__"));
}

/// Tensors with ranges that mostly fit, then shifted a little.
fn nearly_valid() -> impl Strategy<Value = Vec<u8>> {
    let dtypes = prop::sample::select(vec![("F32", 4), ("BF16", 2), ("U8", 1), ("I64", 8)]);
    let slip = prop_oneof![12 => Just(0i64), 1 => -2i64..3];
    let tensor = (dtypes, prop::collection::vec(0u64..4, 0..3), (slip.clone(), slip.clone()));
    (prop::collection::vec(tensor, 0..6), slip).prop_map(|(tensors, rest)| {
        let mut at = 0i64;
        let mut entries = Vec::new();
        for (number, ((dtype, width), shape, (first, last))) in tensors.into_iter().enumerate() {
            let size = shape.iter().product::<u64>() as i64 * width;
            // What follows a slipped range follows it closely, so that overlaps are not always holes as well.
            at = (at + first).max(0);
            let (start, end) = (at, (at + size + last).max(0));
            entries.push(entry(
                &format!("t{number}"),
                dtype,
                &format!("{shape:?}"),
                start as u64,
                end as u64,
            ));
            at += size;
        }
        entries.reverse();
        file(&format!("{{{}}}", entries.join(",")), (at + rest).max(0) as usize)
    })
}

fn damaged(mut bytes: Vec<u8>, flips: &[(usize, u8)], cut: usize) -> Vec<u8> {
    for (at, bits) in flips {
        let length = bytes.len();
        bytes[at % length] ^= bits;
    }
    bytes.truncate(cut);
    bytes
}

/// Whatever is accepted can be read whole, and the crate's reader gives the same.
fn agrees_with_the_crate(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(shard) = parse(bytes.to_vec()) else { return Ok(()) };
    let theirs = SafeTensors::deserialize(bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(theirs.len(), shard.tensors.len());
    for (at, tensor) in shard.tensors.iter().enumerate() {
        let their = theirs.tensor(&tensor.name).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(their.dtype(), tensor.dtype);
        prop_assert_eq!(their.shape(), &tensor.shape);
        prop_assert_eq!(their.data(), shard.tensor(at));
    }
    Ok(())
}

proptest! {
    #[test]
    fn both_readers_accept_the_same_files(bytes in nearly_valid()) {
        prop_assert_eq!(parse(bytes.clone()).is_ok(), SafeTensors::deserialize(&bytes).is_ok());
        agrees_with_the_crate(&bytes)?;
    }

    #[test]
    fn a_damaged_file_is_refused_or_valid(
        bytes in nearly_valid(),
        flips in prop::collection::vec((0usize..400, 1u8..=255), 0..3),
        cut in prop_oneof![Just(usize::MAX), 0usize..400],
    ) {
        agrees_with_the_crate(&damaged(bytes, &flips, cut))?;
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), header in ".{0,40}") {
        let _ = parse(bytes);
        let _ = parse(file(&header, 4));
    }
}
