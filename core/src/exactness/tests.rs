//! Files of verdicts.

use std::fs;

use super::{Difference, Key, Place, Store, Verdict, What};
use crate::Width;

fn key(checkpoint: &str) -> Key {
    Key {
        probe: 1,
        version: "0.1.0".to_owned(),
        kernels: "00".to_owned(),
        program: "1 bytes, 2 ms".to_owned(),
        mlx: "0.32.0".to_owned(),
        device: "a device".to_owned(),
        driver: "none".to_owned(),
        isa: "avx2".to_owned(),
        executor: "mlx-bf16".to_owned(),
        cache_dtype: "bf16".to_owned(),
        checkpoint: checkpoint.to_owned(),
    }
}

fn verdict(rows: usize, differing: usize) -> Verdict {
    let width = Width::new(rows).unwrap();
    let what = What::LogitBytes { differing, of: 404_096 };
    let difference = Difference { width, place: Place::Fresh, context: 1, what };
    let difference = (differing > 0).then_some(difference);
    Verdict { width, by_construction: false, longest: Some(600), difference }
}

#[test]
fn verdicts_come_back_as_they_went() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("made/when/needed"));
    assert_eq!(store.read(&key("a")), []);
    store.write(&key("a"), &[verdict(4, 162_404), verdict(2, 0)]).unwrap();
    assert_eq!(store.read(&key("a")), [verdict(2, 0), verdict(4, 162_404)]);
    // Other widths stay; what is known better replaces what was there; what is not known leaves no trace.
    let unknown = Verdict { longest: None, ..verdict(16, 0) };
    store.write(&key("a"), &[verdict(8, 0), verdict(4, 0), unknown]).unwrap();
    assert_eq!(store.read(&key("a")), [verdict(2, 0), verdict(4, 0), verdict(8, 0)]);
    assert_eq!(store.read(&key("b")), []);
    let names: Vec<_> =
        fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [format!("{}.json", key("a").name()).as_str()], "nothing unfinished is left");
}

#[test]
fn a_file_that_cannot_be_read_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    store.write(&key("a"), &[verdict(2, 0)]).unwrap();
    let file = folder.path().join(format!("{}.json", key("a").name()));
    let whole = fs::read_to_string(&file).unwrap();
    let of_another = whole.replace("a device", "another device");
    let no_width = whole.replace("\"width\": 2", "\"width\": 0");
    for content in ["", "{}", &whole[..whole.len() / 2], &of_another, &no_width] {
        fs::write(&file, content).unwrap();
        assert_eq!(store.read(&key("a")), [], "{content}");
    }
    store.write(&key("a"), &[verdict(2, 0)]).unwrap();
    assert_eq!(store.read(&key("a")), [verdict(2, 0)]);
}

#[test]
fn every_part_of_a_key_counts() {
    let parts: [fn(&mut Key); 11] = [
        |key| key.probe += 1,
        |key| key.version.push('1'),
        |key| key.kernels.push('1'),
        |key| key.program.push('1'),
        |key| key.mlx.push('1'),
        |key| key.device.push('1'),
        |key| key.driver.push('1'),
        |key| key.isa.push('1'),
        |key| key.executor.push('1'),
        |key| key.cache_dtype.push('1'),
        |key| key.checkpoint.push('1'),
    ];
    let mut names = vec![key("a").name()];
    for change in parts {
        let mut changed = key("a");
        change(&mut changed);
        names.push(changed.name());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), parts.len() + 1);
}
