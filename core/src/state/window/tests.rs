//! Windows against states that never drop a row: whatever was appended, taken back or moved, queries see the same.

use proptest::prelude::*;

use super::*;
use crate::{
    Error, Position,
    nn::{Attention, Executor, RmsNorm, Rope, RopeStyle, Span, Tensor},
    state::{LayerState, StateError},
};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 16;
const WIDTH: usize = (HEADS + 2 * KV_HEADS) * DIM;

/// What happens to a sequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Rows of a prompt, all of which stay.
    Prefill(usize),
    /// A block of rows, and how many of them stay.
    Block(usize, usize),
}

fn width(rows: usize) -> Width {
    Width::new(rows).expect("a positive width")
}

fn attention() -> Attention {
    Attention {
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim: DIM,
        scale: 0.5,
        q_norm: Some(RmsNorm::scaleless(1e-5)),
        k_norm: Some(RmsNorm::scaleless(1e-5)),
        rope: Some(Rope::new(10_000.0, DIM, RopeStyle::HalfSplit)),
    }
}

/// Rows `from ..` of a sequence, `[rows, q | k | v]`; `salt` tells rows that are taken back from those that stay.
fn rows(from: usize, count: usize, salt: u32, executor: Executor) -> Tensor {
    let value = |i: usize| {
        let hash = ((from * WIDTH + i) as u32 ^ salt.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0x9E37_79B9);
        (hash ^ (hash >> 15)).wrapping_mul(0x2C1B_3C6D) as f32 / u32::MAX as f32 - 0.5
    };
    let values: Vec<f32> = (0..count * WIDTH).map(value).collect();
    Tensor::from_host(&values, count, WIDTH, executor).unwrap()
}

/// The attention's output for every step's rows, over a window.
fn windowed(steps: &[Step], window: usize, slack: Width, executor: Executor) -> Vec<Vec<f32>> {
    let mut state = LayerState::Window(WindowState::new(KV_HEADS, DIM, window, slack));
    run(steps, &mut state, executor, |x, state| {
        let span = Span { rows: 0..x.rows(), state };
        attention().forward(x, &mut [span])
    })
}

/// The same, over a state that never drops a row.
fn reference(steps: &[Step], window: usize, executor: Executor) -> Vec<Vec<f32>> {
    let mut state = LayerState::Kv(KvState::new(KV_HEADS, DIM));
    run(steps, &mut state, executor, |x, state| {
        let start = Position(state.len());
        let state = state.kv()?;
        let (q, kv) = (x.slice_features(0..HEADS * DIM)?, x.slice_features(HEADS * DIM..WIDTH)?);
        attention().append(&kv, state)?;
        attention().attend(&q, state, start, Mask::Window(window))
    })
}

fn run(
    steps: &[Step],
    state: &mut LayerState,
    executor: Executor,
    attend: impl Fn(&Tensor, &mut LayerState) -> Result<Tensor>,
) -> Vec<Vec<f32>> {
    let mut len = 0;
    let mut outputs = Vec::new();
    for step in steps {
        let output = match *step {
            Step::Prefill(count) => {
                len += count;
                attend(&rows(len - count, count, 0, executor), state).unwrap()
            }
            Step::Block(count, kept) => {
                state.begin(width(count)).unwrap();
                let block = [rows(len, kept, 0, executor), rows(len + kept, count - kept, 1, executor)];
                let block = Tensor::concat_rows(&block).unwrap();
                let output = attend(&block, state).unwrap();
                state.commit(Kept(kept)).unwrap();
                len += kept;
                output
            }
        };
        outputs.push(output.to_host().unwrap().into_owned());
        assert_eq!(state.len(), len);
    }
    outputs
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = (1usize..=32).prop_flat_map(|rows| (Just(rows), 0..=rows));
    let step = prop_oneof![
        1 => (1usize..90).prop_map(Step::Prefill),
        6 => block.prop_map(|(rows, kept)| Step::Block(rows, kept)),
        4 => Just(Step::Block(1, 1)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// S4: slack 32, 128 and 200, and no bound at all, give the same bits.
    #[test]
    fn slack_changes_no_bit(steps in steps(), window in 1usize..70) {
        let expected = reference(&steps, window, Executor::Cpu);
        for slack in [4, 16, 200] {
            prop_assert_eq!(&windowed(&steps, window, width(slack), Executor::Cpu), &expected, "slack of {}", slack);
        }
    }
}

/// Prompts that end before, at and after the window's edge, in one piece and in two, and blocks of every width there.
#[test]
fn every_width_at_every_place_around_the_edge() {
    const WINDOW: usize = 9;
    for prompt in (1..WINDOW + 4).chain([40, 70, 129]) {
        for rows in 1..=17 {
            for kept in [0, rows / 2, rows] {
                let blocks = [Step::Block(rows, kept), Step::Block(1, 1), Step::Block(17, 3)];
                for head in [vec![Step::Prefill(prompt)], vec![Step::Prefill(1), Step::Prefill(prompt)]] {
                    let steps = [head, blocks.to_vec()].concat();
                    let expected = reference(&steps, WINDOW, Executor::Cpu);
                    assert_eq!(windowed(&steps, WINDOW, width(2), Executor::Cpu), expected, "{steps:?}");
                }
            }
        }
    }
}

#[test]
fn both_executors_see_the_same_window() {
    Executor::detect().unwrap();
    let mut steps = vec![Step::Prefill(30), Step::Prefill(2)];
    for i in 0..40 {
        steps.extend([Step::Block(1 + i % 8, i % 3 % (2 + i % 8)), Step::Block(1, 1)]);
    }
    steps.extend([Step::Prefill(150), Step::Block(8, 8), Step::Block(1, 1)]);
    for window in [1, 7, 50] {
        let expected = windowed(&steps, window, width(2), Executor::Cpu);
        let found = windowed(&steps, window, width(2), Executor::MLX_F32);
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let furthest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(furthest < 1e-5, "window {window}, step {step} of {steps:?}: {furthest}");
        }
    }
}

/// An MLX append goes into the buffer that is there: the window moves once in `slack + 1` rows.
#[test]
fn appends_do_not_copy_the_window() {
    let mut state = WindowState::new(KV_HEADS, DIM, 100, Width::ONE);
    let mut moves = 0;
    let mut address = None;
    for t in 0..600 {
        let kv = rows(t, 1, 0, Executor::MLX_F32).slice_features(HEADS * DIM..WIDTH).unwrap();
        attention().append(&kv, state.rows().0).unwrap();
        state.eval().unwrap();
        let now = state.rows.buffer_address();
        moves += usize::from(address.is_some() && now != address);
        address = now;
    }
    // 132 rows fit before the first move, and 33 more before each of the next.
    assert_eq!(moves, 600usize.div_ceil(33) - 4);
}

#[test]
fn a_block_wider_than_the_slack_is_refused() {
    let mut state = WindowState::new(KV_HEADS, DIM, 100, Width::ONE);
    match state.begin(width(34)) {
        Err(Error::State(error @ StateError::Slack { rows: 34, slack: 32 })) => insta::assert_snapshot!(
            error,
            @"a block of 34 rows is opened on a window with 32 rows of slack, which takes up to 33 rows"
        ),
        other => panic!("{other:?}"),
    }
    state.begin(width(33)).unwrap();
    state.commit(Kept(0)).unwrap();
    for (made_for, slack) in
        [(1, 32), (4, 32), (5, 40), (16, 128), (17, 128), (128, 128), (129, 129), (4000, 4000)]
    {
        let mut state = WindowState::new(KV_HEADS, DIM, 100, width(made_for));
        assert!(state.begin(width(slack + 2)).is_err(), "made for {made_for}");
        state.begin(width(slack + 1)).unwrap();
    }
}

/// A query that looks back to dropped rows gets an error, never what lies there instead.
#[test]
fn a_look_at_dropped_rows_is_refused() {
    let attention = attention();
    let mut state = KvState::windowed(KV_HEADS, DIM, 9, Width::ONE);
    for t in 0..60 {
        let kv = rows(t, 1, 0, Executor::Cpu).slice_features(HEADS * DIM..WIDTH).unwrap();
        attention.append(&kv, &mut state).unwrap();
    }
    let first = state.positions().start;
    let q = rows(60, 1, 0, Executor::Cpu).slice_features(0..HEADS * DIM).unwrap();
    let start = Position(60);
    attention.attend(&q, &state, start, Mask::WithinInclusive(9)).unwrap();
    attention.attend(&q, &state, start, Mask::Window(61 - first)).unwrap();
    match attention.attend(&q, &state, start, Mask::Window(62 - first)) {
        Err(Error::State(error)) => {
            assert_eq!(error, StateError::Forgotten { needed: first - 1, first });
            insta::assert_snapshot!(error, @"the row at position 32 is needed, and the oldest one held is at 33");
        }
        other => panic!("{other:?}"),
    }
    assert!(attention.attend(&q, &state, start, Mask::Full).is_err());
}

/// Rows that are skipped count, and nothing from before them is left.
#[test]
fn skipped_rows_are_taken_but_not_held() {
    for executor in [Executor::Cpu, Executor::MLX_F32] {
        let mut state = KvState::windowed(KV_HEADS, DIM, 9, Width::ONE);
        let append = |state: &mut KvState, from: usize, count: usize| {
            let kv = rows(from, count, 0, executor).slice_features(HEADS * DIM..WIDTH).unwrap();
            attention().append(&kv, state).unwrap();
        };
        append(&mut state, 0, 20);
        let mut whole = state.clone();
        append(&mut whole, 20, 300);
        state.skip(291).unwrap();
        append(&mut state, 311, 9);
        assert_eq!(state.positions(), 311..320);
        assert_eq!(state.contents().unwrap(), whole.contents().unwrap());
        state.begin(Width::ONE).unwrap();
        assert!(matches!(state.skip(1), Err(Error::State(StateError::AlreadyOpen { .. }))));
    }
}

/// Blocks over a window that has long been full, row by row: a row's key and value hold its position, so what is there
/// can be read. What the next query sees is there after every step, in the order of positions and byte for byte, and never
/// more rows than the window and its slack.
#[test]
fn a_full_window_keeps_the_rows_that_the_next_query_sees() {
    const WINDOW: usize = 8;
    const ROWS: usize = 4;
    /// `clamp(8 · 4, 32, 128)`
    const SLACK: usize = 32;
    const HEAD: usize = 8;
    let mut state = WindowState::new(1, HEAD, WINDOW, width(ROWS));
    let append = |state: &mut WindowState, positions: std::ops::Range<usize>| {
        let rows: Vec<f32> = positions.flat_map(|position| [position as f32; HEAD]).collect();
        let heads = mlxcel_kernels::Heads::packed(&rows, 1, HEAD);
        state.rows().0.append_cpu(heads, heads).map(drop).unwrap();
    };
    // Keys, then values, of the rows that the next query sees.
    let holds = |state: &WindowState, positions: std::ops::Range<usize>| {
        let rows: Vec<f32> = positions.clone().flat_map(|position| [position as f32; HEAD]).collect();
        assert_eq!(state.contents().unwrap(), [rows.clone(), rows].concat(), "{positions:?}");
        assert_eq!(state.len(), positions.end);
        assert!(state.positions().len() <= WINDOW + SLACK, "{:?}", state.positions());
    };
    let block = |state: &mut WindowState, kept: usize| {
        let start = state.len();
        state.begin(width(ROWS)).unwrap();
        append(state, start..start + ROWS);
        state.commit(Kept(kept)).unwrap();
    };
    for position in 0..6 {
        append(&mut state, position..position + 1);
    }
    holds(&state, 0..6);
    block(&mut state, 4);
    holds(&state, 3..10);
    block(&mut state, 2);
    holds(&state, 5..12);
    let before = state.contents().unwrap();
    block(&mut state, 0);
    holds(&state, 5..12);
    assert_eq!(state.contents().unwrap(), before);
    block(&mut state, 4);
    holds(&state, 9..16);
    let mut len = 16;
    for kept in [4, 2, 0, 1].into_iter().cycle().take(200) {
        block(&mut state, kept);
        len += kept;
        holds(&state, len - (WINDOW - 1)..len);
    }
}

/// Inside a block every query has a window of its own: the one at 13 sees 6 to 13, and 5 no more.
#[test]
fn a_query_inside_a_block_sees_its_own_window() {
    const WINDOW: usize = 8;
    let output = |changed: Option<usize>| {
        let mut state = LayerState::Window(WindowState::new(KV_HEADS, DIM, WINDOW, width(4)));
        let row = |at: usize| rows(at, 1, u32::from(changed == Some(at)), Executor::Cpu);
        let attend = |x: &Tensor, state: &mut LayerState| {
            let span = Span { rows: 0..x.rows(), state };
            attention().forward(x, &mut [span]).unwrap()
        };
        for at in 0..10 {
            attend(&row(at), &mut state);
        }
        state.begin(width(4)).unwrap();
        let block: Vec<Tensor> = (10..14).map(row).collect();
        let block = attend(&Tensor::concat_rows(&block).unwrap(), &mut state);
        block.slice_rows(3..4).unwrap().to_host().unwrap().into_owned()
    };
    let expected = output(None);
    for position in 0..14 {
        assert_eq!(output(Some(position)) == expected, position < 6, "the row at {position}");
    }
}
