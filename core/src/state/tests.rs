//! Blocks taken back, for every count and every state, against states that never saw the dropped rows.

use mlx_rs::Array;
use proptest::prelude::*;

use super::*;
use crate::{Error, Kept, Width};

const HEADS: usize = 2;
const DIM: usize = 4;
const CHANNELS: usize = 3;

fn width(rows: usize) -> Width {
    Width::new(rows).expect("a positive width")
}

/// Row `t` of a sequence, for a state of either kind; `salt` tells wrong rows from right ones.
fn kv_rows(from: usize, rows: usize, salt: f32) -> (Array, Array) {
    let value = |i: usize| (from * 100 + i) as f32 + salt;
    let data: Vec<f32> = (0..HEADS * rows * DIM).map(value).collect();
    let keys = Array::from_slice(&data, &[1, HEADS as i32, rows as i32, DIM as i32]);
    let values = mlx_rs::ops::negative(&keys).unwrap();
    (keys, values)
}

fn kv_row(t: usize, salt: f32) -> (Array, Array) {
    kv_rows(t, 1, salt)
}

fn conv_row(t: usize, salt: f32) -> Array {
    let data: Vec<f32> = (0..CHANNELS).map(|i| (t * 100 + i) as f32 + salt).collect();
    Array::from_slice(&data, &[1, CHANNELS as i32])
}

fn host(array: &Array) -> Vec<f32> {
    array.contiguous().unwrap().to_vec_exact::<f32>().unwrap()
}

fn kv_bytes(state: &KvState) -> (Vec<f32>, Vec<f32>) {
    if state.is_empty() {
        return (vec![], vec![]);
    }
    let (keys, values) = state.rows_mlx().unwrap();
    (host(&keys), host(&values))
}

fn sequence() -> SequenceState {
    SequenceState::new(vec![
        LayerState::Kv(KvState::new(HEADS, DIM)),
        LayerState::Conv(ConvState::new(3, CHANNELS)),
    ])
}

fn append(state: &mut SequenceState, t: usize, salt: f32) {
    let (keys, values) = kv_row(t, salt);
    state.layer(0).unwrap().kv().unwrap().append_mlx(&keys, &values).unwrap();
    state.layer(1).unwrap().conv().unwrap().append_mlx(&conv_row(t, salt)).unwrap();
}

type Contents = (Vec<f32>, Vec<f32>, Vec<f32>);

fn contents(state: &mut SequenceState) -> Contents {
    let (keys, values) = kv_bytes(state.layer(0).unwrap().kv().unwrap());
    let window = state.layer(1).unwrap().conv().unwrap().window().unwrap();
    (keys, values, window)
}

/// The state that decoded `rows` one by one, each in a block of its own.
fn chain(rows: usize) -> SequenceState {
    let mut state = sequence();
    for t in 0..rows {
        state.begin(Width::ONE).unwrap();
        append(&mut state, t, 0.0);
        state.commit(Kept(1)).unwrap();
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// S1, over random blocks of which some rows are kept.
    #[test]
    fn a_committed_block_equals_the_chain(prefill in 0usize..5, blocks in prop::collection::vec((1usize..9, 0usize..9), 1..6)) {
        let mut state = sequence();
        for t in 0..prefill {
            append(&mut state, t, 0.0);
        }
        let mut len = prefill;
        for (rows, kept) in blocks {
            let kept = kept.min(rows);
            state.begin(width(rows)).unwrap();
            for i in 0..rows {
                let salt = if i < kept { 0.0 } else { 0.5 };
                append(&mut state, len + i, salt);
            }
            state.commit(Kept(kept)).unwrap();
            len += kept;
            prop_assert_eq!(state.len().unwrap(), len);
            let mut expected = chain(len);
            let (keys, values, window) = contents(&mut state);
            let (chain_keys, chain_values, chain_window) = contents(&mut expected);
            prop_assert_eq!((keys, values), (chain_keys, chain_values));
            // A window that only ever held nothing may be zeros.
            if len > 0 {
                prop_assert_eq!(window, chain_window);
            }
        }
    }
}

#[test]
fn the_buffers_grow_and_keep_their_rows() {
    let mut state = KvState::new(HEADS, DIM);
    for t in 0..600 {
        let (keys, values) = kv_row(t, 0.0);
        state.append_mlx(&keys, &values).unwrap();
        state.eval().unwrap();
    }
    let (keys, _) = kv_bytes(&state);
    let row = |t: usize, head: usize, i: usize| keys[(head * 600 + t) * DIM + i];
    for t in [0, 255, 256, 511, 512, 599] {
        for head in 0..HEADS {
            assert_eq!(row(t, head, 1), (t * 100 + head * DIM + 1) as f32);
        }
    }
}

/// S5: a row goes into the buffer that is there.
#[test]
fn an_append_does_not_copy_the_buffer() {
    let mut state = KvState::new(HEADS, DIM);
    let address = |state: &KvState| state.buffer_address().unwrap();
    let (keys, values) = kv_row(0, 0.0);
    state.append_mlx(&keys, &values).unwrap();
    state.eval().unwrap();
    let first = address(&state);
    for t in 1..200 {
        let (keys, values) = kv_row(t, 0.0);
        state.append_mlx(&keys, &values).unwrap();
        state.eval().unwrap();
        assert_eq!(address(&state), first, "row {t} moved the buffer");
    }
}

#[test]
fn a_fork_lives_on_its_own() {
    let mut state = chain(5);
    let mut fork = state.fork();
    append(&mut fork, 5, 0.5);
    append(&mut state, 5, 0.0);
    assert_eq!(contents(&mut state), contents(&mut chain(6)));
    assert_ne!(contents(&mut fork), contents(&mut state));
}

#[test]
fn breaches_of_the_contract_are_errors() {
    let error = |result: crate::Result<()>| match result {
        Err(Error::State(error)) => error,
        other => panic!("expected a state error, got {other:?}"),
    };
    let mut state = sequence();
    assert_eq!(error(state.commit(Kept(0))), StateError::NotOpen);
    state.begin(width(2)).unwrap();
    assert_eq!(error(state.begin(width(1))), StateError::AlreadyOpen { rows: 1 });
    append(&mut state, 0, 0.0);
    assert_eq!(error(state.commit(Kept(2))), StateError::KeptTooMany { kept: 2, received: 1 });
    append(&mut state, 1, 0.0);
    let (keys, values) = kv_row(2, 0.0);
    let overflow = state.layer(0).unwrap().kv().unwrap().append_mlx(&keys, &values);
    assert_eq!(error(overflow), StateError::BlockOverflow { rows: 2, received: 3 });
    state.commit(Kept(0)).unwrap();
    assert!(state.is_empty());
    assert_eq!(error(state.layer(2).map(|_| ())), StateError::NoSuchLayer { layer: 2, layers: 2 });
    assert!(matches!(state.layer(0).unwrap().conv(), Err(Error::State(StateError::WrongKind { .. }))));
    let narrow = Array::from_slice(&[0.0f32; 2], &[1, 2]);
    let wrong = state.layer(1).unwrap().conv().unwrap().append_mlx(&narrow).map(|_| ());
    assert!(matches!(error(wrong), StateError::Shape { what: "gated input", .. }));
}

/// S2 and S3: a forward that stops between layers leaves them unequal, which shows, and taking the block back heals it.
#[test]
fn a_forward_that_fails_half_way_is_taken_back() {
    let mut state = chain(3);
    let before = contents(&mut state);
    state.begin(width(4)).unwrap();
    let (keys, values) = kv_rows(3, 4, 0.5);
    state.layer(0).unwrap().kv().unwrap().append_mlx(&keys, &values).unwrap();
    assert!(matches!(
        state.len(),
        Err(Error::State(StateError::UnequalLayers { layer: 1, found: 3, expected: 7 }))
    ));
    assert!(state.commit(Kept(1)).is_err());
    state.commit(Kept(0)).unwrap();
    assert_eq!(state.len().unwrap(), 3);
    assert_eq!(contents(&mut state), before);
}

/// A state that forgets holds what a window sees, by absolute position, on both executors; a block taken back brings
/// nothing old back and loses nothing.
#[test]
fn a_window_forgets_what_nobody_sees() {
    use mlxcel_kernels::Heads;
    const KEEP: usize = 7;
    const ROW: usize = 2 * 8;
    /// Of blocks of 4 rows.
    const SLACK: usize = 32;
    let row = |t: usize| -> Vec<f32> { (0..ROW).map(|i| (t * 100 + i) as f32).collect() };
    let rows = |from: usize, count: usize| -> Vec<f32> { (from..from + count).flat_map(row).collect() };
    let append = |state: &mut KvState, from: usize, count: usize, mlx: bool| {
        let rows = rows(from, count);
        if mlx {
            let array =
                Array::from_slice(&rows, &[1, count as i32, 2, 8]).transpose_axes(&[0, 2, 1, 3]).unwrap();
            state.append_mlx(&array, &array).unwrap();
        } else {
            state.append_cpu(Heads::packed(&rows, 2, 8), Heads::packed(&rows, 2, 8)).unwrap();
        }
    };
    for mlx in [false, true] {
        let mut state = KvState::windowed(2, 8, KEEP, width(4));
        let mut len = 0;
        // Single rows, a chunk longer than the window, and enough of all to grow and move the buffers.
        for count in (0..2000).map(|i| if i % 50 == 20 { 23 } else { 1 }) {
            append(&mut state, len, count, mlx);
            state.eval().unwrap();
            len += count;
            state.begin(width(4)).unwrap();
            append(&mut state, 5000, 4, mlx);
            state.commit(Kept(0)).unwrap();
            let (held, seen) = (state.positions(), len.saturating_sub(KEEP)..len);
            assert!(held.start <= seen.start && held.end == len, "{held:?} at {len}");
            assert!(held.len() <= KEEP + 1 + SLACK, "{} rows are held", held.len());
            let head = |head: usize| seen.clone().flat_map(move |t| row(t)[head * 8..][..8].to_vec());
            let expected: Vec<f32> = [head(0), head(1), head(0), head(1)].into_iter().flatten().collect();
            assert_eq!(state.contents().unwrap(), expected, "mlx {mlx}: {len} rows");
        }
        if let Some(bytes) = state.buffer_bytes() {
            assert!(bytes < 130_000, "mlx {mlx}: {bytes} bytes are held for {KEEP} rows");
        }
    }
}

/// The window of a short convolution of 3 taps, each row's number in every lane: what is left of a block whatever is kept.
#[test]
fn a_window_is_taken_back_to_any_row_of_a_block() {
    let append = |state: &mut ConvState, from: usize, rows: usize| {
        let fill = |window: &mut [f32]| {
            for (i, row) in window[2 * CHANNELS..].chunks_exact_mut(CHANNELS).enumerate() {
                row.fill((from + i) as f32);
            }
        };
        state.append_cpu(rows, fill).unwrap();
    };
    // Rows are numbered from 1, so that the zeros before the first one show.
    let window = |len: usize| {
        let last = [len.saturating_sub(1), len].map(|row| [row as f32; CHANNELS]);
        last.concat()
    };
    for prompt in [1, 2, 5] {
        for kept in 0..=5 {
            let mut state = ConvState::new(3, CHANNELS);
            append(&mut state, 1, prompt);
            assert_eq!(state.window().unwrap(), window(prompt));
            state.begin(width(5)).unwrap();
            append(&mut state, prompt + 1, 5);
            state.commit(Kept(kept)).unwrap();
            assert_eq!(state.window().unwrap(), window(prompt + kept), "prompt {prompt}, {kept} kept");
            // Two partial rounds one after the other.
            for (again, len) in [(1, prompt + kept + 1), (0, prompt + kept + 1)] {
                state.begin(width(4)).unwrap();
                let next = state.len() + 1;
                append(&mut state, next, 4);
                state.commit(Kept(again)).unwrap();
                assert_eq!(state.window().unwrap(), window(len), "then {again}");
            }
        }
    }
}
