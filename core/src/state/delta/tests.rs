//! Blocks of a delta net taken back, for every count, against a state that never saw the dropped rows; both executors.

use std::ops::Range;

use super::*;
use crate::{
    nn::{DeltaWeights, Executor, GatedDelta, Span, Tensor},
    state::{LayerState, SequenceState},
};

const DIMS: DeltaDims = DeltaDims { key_heads: 2, value_heads: 4, key_dim: 16, value_dim: 16, taps: 4 };
const EXECUTORS: [Executor; 2] = [Executor::Cpu, Executor::MLX_F32];

/// Numbers in −1..1 from a seed.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut x = seed;
    let mut next = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn net(executor: Executor) -> GatedDelta {
    let weights = DeltaWeights {
        kernel: noise(1, DIMS.qkv_width() * DIMS.taps),
        a_log: noise(2, DIMS.value_heads),
        dt_bias: noise(3, DIMS.value_heads),
        norm: vec![1.0; DIMS.value_dim],
        norm_eps: 1e-6,
    };
    GatedDelta::new(DIMS, &weights, executor).unwrap()
}

/// A net and a sequence's state of it.
#[derive(Clone)]
struct Run<'a> {
    net: &'a GatedDelta,
    executor: Executor,
    state: SequenceState,
}

impl<'a> Run<'a> {
    fn new(net: &'a GatedDelta, executor: Executor) -> Self {
        Self { net, executor, state: SequenceState::new(vec![LayerState::Delta(net.new_state())]) }
    }

    /// Rows of the sequence, told from others by `salt`; gives the output.
    fn rows(&mut self, rows: Range<usize>, salt: u64) -> Vec<f32> {
        let width = DIMS.in_width();
        let values: Vec<f32> = rows.clone().flat_map(|row| noise(row as u64 + 1000 * salt, width)).collect();
        let x = Tensor::from_host(&values, rows.len(), width, self.executor).unwrap();
        let span = Span { rows: 0..rows.len(), state: self.state.layer(0).unwrap() };
        let out = self.net.forward(&x, &mut [span]).unwrap();
        out.to_host().unwrap().into_owned()
    }

    fn block(&mut self, rows: Range<usize>, salt: u64, kept: usize) -> Vec<f32> {
        self.state.begin(Width::new(rows.len()).unwrap()).unwrap();
        let out = self.rows(rows, salt);
        self.state.commit(Kept(kept)).unwrap();
        out
    }

    fn contents(&self) -> Vec<u32> {
        let contents = self.state.contents().unwrap();
        assert!(contents[0].iter().any(|value| *value != 0.0) || self.state.is_empty());
        contents[0].iter().map(|value| value.to_bits()).collect()
    }
}

/// S1: every kept count of every block, in one piece and in two, leaves the bits of decoding the kept rows one by one.
#[test]
fn a_committed_block_equals_the_chain() {
    for executor in EXECUTORS {
        let net = net(executor);
        let mut prefilled = Run::new(&net, executor);
        prefilled.rows(0..7, 0);
        let mut chain = vec![prefilled.clone()];
        let mut outputs = Vec::new();
        for row in 7..15 {
            let mut next = chain[chain.len() - 1].clone();
            outputs.extend(next.block(row..row + 1, 0, 1));
            chain.push(next);
        }
        for width in 1..=8 {
            for kept in 0..=width {
                let mut run = prefilled.clone();
                let out = run.block(7..7 + width, 0, kept);
                assert_eq!(out, outputs[..out.len()], "outputs of {width} rows");
                assert_eq!(run.state.len().unwrap(), 7 + kept);
                assert_eq!(run.contents(), chain[kept].contents(), "{executor:?}: {kept} of {width} rows");
                // What was dropped is not there for the next block either.
                let next = run.block(20..23, 0, 3);
                assert_eq!(next, chain[kept].clone().block(20..23, 0, 3));
            }
        }
        let mut run = prefilled.clone();
        run.state.begin(Width::EIGHT).unwrap();
        run.rows(7..10, 0);
        run.rows(10..15, 0);
        run.state.commit(Kept(5)).unwrap();
        assert_eq!(run.contents(), chain[5].contents(), "a block in two pieces");
    }
}

#[test]
fn chunks_of_a_prompt_leave_the_state_of_the_whole() {
    for executor in EXECUTORS {
        let net = net(executor);
        let mut whole = Run::new(&net, executor);
        whole.rows(0..12, 0);
        let mut chunks = Run::new(&net, executor);
        for rows in [0..1, 1..6, 6..12] {
            chunks.rows(rows, 0);
        }
        assert_eq!(chunks.contents(), whole.contents());
    }
}

#[test]
fn a_fork_lives_on_its_own() {
    for executor in EXECUTORS {
        let net = net(executor);
        let mut run = Run::new(&net, executor);
        run.rows(0..5, 0);
        let mut fork = Run { state: run.state.fork(), ..run.clone() };
        assert_eq!(fork.contents(), run.contents());
        fork.block(5..7, 1, 2);
        run.block(5..7, 0, 2);
        assert_ne!(fork.contents(), run.contents());
        let mut other = Run::new(&net, executor);
        other.rows(0..5, 0);
        other.block(5..7, 0, 2);
        assert_eq!(run.contents(), other.contents());
    }
}

#[test]
fn breaches_of_the_contract_are_errors() {
    let net = net(Executor::Cpu);
    let error = |result: Result<()>| match result {
        Err(Error::State(error)) => error,
        other => panic!("expected a state error, got {other:?}"),
    };
    let mut run = Run::new(&net, Executor::Cpu);
    let mut state = net.new_state();
    assert_eq!(error(state.commit(Kept(1))), StateError::NotOpen);
    state.begin(Width::EIGHT).unwrap();
    assert_eq!(error(state.commit(Kept(1))), StateError::KeptTooMany { kept: 1, received: 0 });
    state.commit(Kept(0)).unwrap();
    assert!(state.is_empty() && state.contents().unwrap().is_empty());
    assert!(matches!(run.state.layer(0).unwrap().kv(), Err(Error::State(StateError::WrongKind { .. }))));

    run.rows(0..1, 0);
    let x = Tensor::from_host(&noise(1, DIMS.in_width()), 1, DIMS.in_width(), Executor::MLX_F32).unwrap();
    let span = Span { rows: 0..1, state: run.state.layer(0).unwrap() };
    assert!(matches!(net.forward(&x, &mut [span]), Err(Error::Executors)));
}

/// The two executors are two implementations of one formula.
#[test]
fn executors_agree() {
    let nets = EXECUTORS.map(net);
    let [cpu, mlx] = [0, 1].map(|i| Run::new(&nets[i], EXECUTORS[i]).rows(0..9, 0));
    assert_eq!(cpu.len(), 9 * DIMS.out_width());
    let worst = cpu.iter().zip(&mlx).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
    assert!(worst < 1e-5, "{worst}");
}
