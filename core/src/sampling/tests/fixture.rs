//! The kept distribution against an independent implementation.

use safetensors::SafeTensors;

use super::*;

const PATH: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/golden/acceptance/rejection.safetensors");

/// Rows `[n, columns]` of a float tensor.
fn rows(file: &SafeTensors<'_>, name: &str) -> Vec<Vec<f32>> {
    let tensor = file.tensor(name).unwrap();
    let values: Vec<f32> =
        tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    values.chunks(*tensor.shape().last().unwrap()).map(<[f32]>::to_vec).collect()
}

/// Target and drafter distributions of 30 cases with temperature, top-k and top-p, and the acceptance they lead to.
#[test]
fn kept_distributions_of_target_and_drafter() {
    let bytes = std::fs::read(PATH).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (mut checked, mut cut) = (0, 0);
    for case in 0..30 {
        let name = |part: &str| format!("case{case:02}/{part}");
        let params = &rows(&file, &name("params"))[0];
        // The parameters were rounded to f32 for storage: 0.9 is meant, not its nearest f32.
        let top_p = params[2].to_string().parse().unwrap();
        let settings = SamplingSettings { top_k: params[1] as usize, top_p, ..seeded(0, params[0]) };
        let accept = &rows(&file, &name("expected_accept_rate"))[0];
        let mut dense = [Vec::new(), Vec::new()];
        for (model, (logits, expected)) in
            [("target_logits", "p"), ("draft_logits", "q")].into_iter().enumerate()
        {
            for (logits, expected) in rows(&file, &name(logits)).iter().zip(rows(&file, &name(expected))) {
                let sampler = sampler(settings.clone(), logits.len());
                let kept = sampler.kept_distribution(logits, Position(0), &History::default(), &[]).unwrap();
                let mut found = vec![0.0; logits.len()];
                for &(id, p) in &kept {
                    found[id.index()] = p;
                }
                for (id, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let difference = (found - *expected as f64).abs();
                    assert!(
                        difference < 1e-5,
                        "case {case}, model {model}, id {id}: {found}, expected {expected}"
                    );
                    assert_eq!(
                        *found > 0.0,
                        *expected > 0.0,
                        "case {case}, model {model}, id {id}: kept or not"
                    );
                }
                checked += 1;
                cut += usize::from(kept.len() < logits.len());
                dense[model].push(found);
            }
        }
        for ((p, q), expected) in dense[0].iter().zip(&dense[1]).zip(accept) {
            let overlap: f64 = p.iter().zip(q).map(|(p, q)| p.min(*q)).sum();
            assert!(
                (overlap - *expected as f64).abs() < 1e-5,
                "case {case}: overlap {overlap}, expected {expected}"
            );
        }
    }
    assert_eq!(checked, 30 * 9);
    assert!(cut > 100, "only {cut} rows of the fixture exercise a filter");
}
