//! What the exactness gate found, as clients read it.

use conformance::plants::{PlantedTarget, TargetDefect};
use mlxcel_core::{
    Width,
    engine::EngineModels,
    exactness::{Gate, Setup as Gated},
    nn::Executor,
};
use mlxcel_server::Speculate;
use serde_json::{Value, json};

use crate::started::{Served, Setup, load_pair};

/// A server over the trained pair, whose blocks of four rows are not what their tokens give one by one. Blocks have
/// `width` rows.
fn inexact(width: usize, allow_inexact: bool) -> Served {
    let load = move || {
        let models = load_pair()?;
        let defect = TargetDefect::BitInBlocksOf(4);
        let target = Box::new(PlantedTarget::new(models.target, Executor::Cpu, defect));
        let widths = [2, 4, 8].into_iter().filter_map(Width::new).collect();
        // An executor that a gate does not trust.
        let setup = Gated::new(Executor::MLX_F32, models.vocabulary.clone(), widths);
        let gate = Gate::open(target.as_ref(), Gated { allow_inexact, ..setup });
        Ok(EngineModels { target, gate, ..models })
    };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let setup = Setup { speculate: Speculate::Fixed(Width::new(width)), ..Setup::default() };
    let served = Served::start_with(setup, load, move || ready.send(()).unwrap());
    is_ready.recv().unwrap();
    served
}

fn verdict(exactness: &Value, width: usize) -> &Value {
    let widths = exactness["widths"].as_array().unwrap();
    widths.iter().find(|verdict| verdict["width"] == width).unwrap_or_else(|| panic!("{exactness}"))
}

#[test]
fn health_and_properties_say_which_widths_may_run() {
    let served = inexact(4, false);
    let health = served.get("/health").json();
    insta::assert_snapshot!(serde_json::to_string_pretty(&health).unwrap());
    assert_eq!(served.get("/props").json()["exactness"], health["exactness"]);
    // A request that meets the verdict says the same.
    let timings = served.chat("Hi", json!({})).json()["timings"].take();
    assert_eq!(timings["draft_decline"], verdict(&health["exactness"], 4)["decline_reason"]);
    assert_eq!((&timings["draft_n"], &timings["draft_inexact"]), (&json!(0), &Value::Null));
}

#[test]
fn an_override_is_announced() {
    let served = inexact(4, true);
    let exactness = served.get("/health").json()["exactness"].take();
    assert_eq!(exactness["allow_inexact"], true);
    let four = verdict(&exactness, 4);
    assert_eq!(
        (&four["allowed"], &four["refusal"], &four["decline"]),
        (&json!(true), &json!("differs"), &Value::Null)
    );
    assert_eq!(verdict(&exactness, 8)["inexact"], Value::Null);
    let timings = served.chat("Hi", json!({})).json()["timings"].take();
    assert_eq!(timings["draft_inexact"], four["inexact"]);
    assert!(four["inexact"].as_str().unwrap().starts_with("width 4 differs in 1 of "), "{four}");
}
