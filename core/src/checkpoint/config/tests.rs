use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Config {
    Config::parse("config.json", text.as_bytes()).unwrap()
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn integers_are_bounded_and_may_be_whole_floats() {
    let dim = |text: &str| parse(&format!(r#"{{"n": {text}}}"#)).dim("n");
    for (text, value) in
        [("1", 1), ("64", 64), ("2.0", 2), ("1e6", 1_000_000), ("16777216", 1 << 24), ("1.5e1", 15)]
    {
        assert_eq!(dim(text).unwrap(), value, "{text}");
    }
    for text in [
        "0",
        "-1",
        "-0.0",
        "2.5",
        "16777217",
        "3000000000",
        "18446744073709551615",
        "18446744073709551616",
        "1e300",
        "\"64\"",
        "true",
        "[64]",
        "{}",
    ] {
        assert!(refused(dim(text)).contains("n is "), "{text}");
    }
    assert_eq!(parse(r#"{"n": 1024}"#).layers("n").unwrap(), 1024);
    assert_eq!(
        refused(parse(r#"{"n": 1025}"#).layers("n")),
        "config.json: n is 1025, expected an integer in 1..=1024"
    );
}

#[test]
fn null_is_absent() {
    let config = parse(r#"{"n": null, "s": null, "o": null, "l": null, "b": null}"#);
    assert!(!config.has("n"));
    assert_eq!(config.opt_dim("n").unwrap(), None);
    assert_eq!(config.dim_or("n", 7).unwrap(), 7);
    assert_eq!(config.opt_str("s").unwrap(), None);
    assert_eq!(config.opt_float("n").unwrap(), None);
    assert!(config.bool_or("b", true).unwrap());
    assert_eq!(config.opt_section("o").unwrap(), None);
    assert_eq!(config.opt_list_of_str("l").unwrap(), None);
    assert_eq!(config.ids("l").unwrap(), [0; 0]);
    assert_eq!(refused(config.dim("n")), "config.json: n is missing, expected an integer in 1..=16777216");
    assert_eq!(refused(config.section("o")), "config.json: o is missing, expected an object");
}

#[test]
fn a_wrong_type_is_refused_even_where_there_is_a_default() {
    let config = parse(r#"{"n": "64", "b": "true", "s": 1, "l": "x", "o": 3, "f": "1.0"}"#);
    assert!(config.dim_or("n", 1).is_err());
    assert!(config.bool_or("b", true).is_err());
    assert!(config.opt_str("s").is_err());
    assert!(config.opt_list_of_str("l").is_err());
    assert!(config.opt_section("o").is_err());
    assert!(config.float_or("f", 1.0).is_err());
}

#[test]
fn floats_are_finite_and_bounded() {
    let config = parse(r#"{"eps": 1e-5, "theta": 1000000, "huge": 1e300, "minus": -1}"#);
    assert_eq!(config.float("eps").unwrap(), 1e-5);
    assert_eq!(config.float("theta").unwrap(), 1e6);
    assert!(config.float("huge").is_err(), "no f32 holds it");
    assert_eq!(
        refused(config.float_in("minus", 0.0..=1.0)),
        "config.json: minus is -1, expected a number in 0.0..=1.0"
    );
    for text in [r#"{"n": 1e999}"#, r#"{"n": NaN}"#, r#"{"n": Infinity}"#, r#"{"n": -1e999}"#] {
        assert!(matches!(Config::parse("config.json", text.as_bytes()), Err(CheckpointError::Json { .. })));
    }
}

#[test]
fn lists_name_the_entry_that_is_wrong() {
    let config =
        parse(r#"{"t": {"layer_types": ["conv", 3], "taps": [1, 2.0, 3], "theta": [1e4, null, 0]}}"#);
    let text = config.section("t").unwrap();
    assert_eq!(
        refused(text.list_of_str("layer_types")),
        "config.json: t.layer_types[1] is 3, expected a list of strings"
    );
    assert_eq!(text.list_of_int("taps", 0..=8).unwrap(), [1, 2, 3]);
    assert!(refused(text.list_of_int("taps", 0..=2)).contains("t.taps[2] is 3"));
    assert_eq!(text.opt_list_of_float("theta").unwrap().unwrap(), [Some(1e4), None, Some(0.0)]);
}

#[test]
fn token_ids_are_one_or_many() {
    let config =
        parse(r#"{"one": 7, "many": [4, 2], "none": [], "minus": -1, "text": ["a"], "big": 16777216}"#);
    assert_eq!(config.ids("one").unwrap(), [7]);
    assert_eq!(config.ids("many").unwrap(), [4, 2]);
    assert_eq!(config.ids("none").unwrap(), [0; 0]);
    assert_eq!(config.ids("absent").unwrap(), [0; 0]);
    for name in ["minus", "text", "big"] {
        assert!(config.ids(name).is_err(), "{name}");
    }
}

#[test]
fn a_key_that_appears_twice_is_refused_at_any_depth() {
    for text in [r#"{"n": 1, "n": 1}"#, r#"{"t": [{"n": 1, "n": 2}]}"#] {
        let error = refused(Config::parse("config.json", text.as_bytes()));
        assert!(error.contains("key \"n\" appears twice"), "{error}");
    }
    assert!(Config::parse("config.json", br#"{"a": {"n": 1}, "b": {"n": 1}}"#).is_ok());
}

#[test]
fn only_an_object_is_a_config() {
    for bytes in [&b""[..], b"  ", b"[]", b"3", b"{", b"{}{}", b"\xff", b"null", b"{\"a\":1,}"] {
        assert!(Config::parse("config.json", bytes).is_err(), "{bytes:?}");
    }
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(Config::parse("config.json", deep.as_bytes()).is_err());
}

#[test]
fn products_are_checked_before_any_i32() {
    let config = parse(r#"{"t": {}}"#).section("t").unwrap();
    assert_eq!(config.product("heads * head_dim", &[32, 128]).unwrap(), 4096);
    assert_eq!(config.product("most", &[i32::MAX as usize]).unwrap(), i32::MAX as usize);
    assert_eq!(
        refused(config.product("heads * head_dim", &[1 << 24, 1 << 24])),
        "config.json: t.heads * head_dim is 16777216 * 16777216, expected a product of at most 2147483647"
    );
    assert!(config.product("overflow", &[usize::MAX, 2]).is_err());
}

#[test]
fn heads_are_read_together() {
    assert_eq!(parse("{}").heads((32, 8)).unwrap(), (32, 8));
    let some = parse(r#"{"num_attention_heads": 6, "num_key_value_heads": 3}"#);
    assert_eq!(some.heads((32, 8)).unwrap(), (6, 3));
    let odd = parse(r#"{"num_attention_heads": 6}"#);
    assert_eq!(
        refused(odd.heads((32, 4))),
        "config.json: num_attention_heads is 6, expected a multiple of num_key_value_heads (4)"
    );
    for text in [r#"{"num_attention_heads": 0}"#, r#"{"num_key_value_heads": 3000000000}"#] {
        assert!(parse(text).heads((32, 8)).is_err(), "{text}");
    }
}

#[test]
fn other_activations_are_refused_under_both_names() {
    for text in ["{}", r#"{"hidden_act": "silu"}"#, r#"{"hidden_act": null, "hidden_activation": "silu"}"#] {
        parse(text).only_silu().unwrap();
    }
    for name in ["hidden_act", "hidden_activation"] {
        let message = refused(parse(&format!(r#"{{"{name}": "gelu"}}"#)).only_silu());
        assert_eq!(message, format!("config.json: {name} is \"gelu\", expected \"silu\""));
    }
}

#[test]
fn long_values_are_cut_in_messages() {
    let config = parse(&format!(r#"{{"n": "{}"}}"#, "é".repeat(500)));
    assert!(refused(config.dim("n")).chars().count() < 150);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Config::parse("config.json", &bytes);
    }

    #[test]
    fn no_number_escapes_its_bounds(number in any::<f64>(), whole in any::<u64>()) {
        for text in [format!("{number:e}"), whole.to_string(), format!("-{whole}")] {
            let Ok(config) = Config::parse("config.json", format!("{{\"n\": {text}}}").as_bytes()) else { continue };
            if let Ok(n) = config.dim("n") {
                prop_assert!(DIM.contains(&n));
                prop_assert_eq!(n as f64, text.parse::<f64>().unwrap());
            }
            if let Ok(n) = config.float("n") {
                prop_assert!((n as f32).is_finite());
            }
        }
    }
}
