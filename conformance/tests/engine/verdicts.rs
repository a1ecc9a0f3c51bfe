//! Who only looks at the gate's verdicts never waits for a probe.

use std::{
    sync::{Arc, Mutex, mpsc::channel},
    thread,
    time::Duration,
};

use mlxcel_core::{
    exactness::{Gate, Setup},
    nn::Executor,
    sampling::Vocabulary,
};

use crate::{
    faulty::SteppedTarget,
    setting::{VOCAB, target, width},
};

#[test]
fn verdicts_are_told_while_a_probe_runs() {
    let setup = Setup::new(Executor::MLX_F32, Arc::new(Vocabulary::all(VOCAB)), vec![width(2), width(4)]);
    let gate = Gate::open(&*target(), setup);
    let before = gate.view().unwrap();
    assert!(before.widths.iter().all(|width| width.allowed), "{before:?}");
    let longest = before.widths.iter().filter_map(|width| width.longest).min().unwrap();

    let (step, steps) = channel();
    let seen = Arc::default();
    let stepped = SteppedTarget { inner: target(), steps: Mutex::new(steps), seen: Arc::clone(&seen) };
    let prober = thread::spawn({
        let gate = gate.clone();
        move || gate.reach(&stepped, longest + 1)
    });
    // Behind its first forward it waits for the next.
    step.send(()).unwrap();
    while seen.lock().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    let (tell, told) = channel();
    let looker = thread::spawn({
        let gate = gate.clone();
        move || tell.send(gate.view()).unwrap()
    });
    let during = told.recv_timeout(Duration::from_secs(20));
    drop(step);
    prober.join().unwrap();
    looker.join().unwrap();
    assert_eq!(during, Ok(Some(before)));
    let after = gate.view().unwrap();
    assert!(after.widths.iter().all(|width| width.longest > Some(longest)), "{after:?}");
}
