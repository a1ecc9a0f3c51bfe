//! Where blocks are compared with chains.

use super::verdict::Place;
use crate::{TokenId, Width, family::TargetSpec};

/// Rows behind which a probe that is to be quick compares; a request that grows past them is probed further on.
const LONG: usize = 600;
/// The same for a full probe: past the lengths at which attention kernels change their ways.
const LONGEST: usize = 4200;
/// Rows before the block of which a part is taken back.
const SHORT: usize = 24;

/// One place: a prompt, and blocks behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scene {
    pub(super) place: Place,
    /// Rows of the prompt.
    pub(super) prefix: usize,
    /// A block of the same width goes first, of which this part is kept (in quarters, at least the anchor); the rest of its
    /// rows are other tokens than those of the chain.
    pub(super) kept: Option<usize>,
}

impl Scene {
    fn new(place: Place, prefix: usize) -> Self {
        Self { place, prefix, kept: None }
    }

    /// Rows kept of the first block of `width` rows.
    pub(super) fn kept_of(&self, width: Width) -> usize {
        self.kept.map_or(0, |quarters| (width.rows() * quarters / 4).max(1))
    }

    /// Rows that the chain needs for blocks of `width` rows.
    pub(super) fn rows_for(&self, width: Width) -> usize {
        self.kept_of(width) + width.rows()
    }
}

/// The scenes of a first probe of a target whose layers have these `windows`.
pub(super) fn first(spec: &TargetSpec, windows: &[usize], widest: Width, full: bool) -> Vec<Scene> {
    let long = if full { LONGEST } else { LONG }.min(room(spec, widest));
    let mut scenes = vec![Scene::new(Place::Fresh, 1)];
    let parts: &[usize] = if full { &[0, 2, 3] } else { &[2] };
    let kept = |place, prefix, quarters: &usize| Scene { kept: Some(*quarters), ..Scene::new(place, prefix) };
    scenes.extend(parts.iter().map(|part| kept(Place::PartialCommit, SHORT.min(long), part)));
    scenes.extend(edges(windows, 0, long));
    scenes.push(Scene::new(Place::LongPrefix, long));
    scenes
}

/// The scenes that carry verdicts from contexts of `longest` rows on to contexts of `context` rows at least, and the rows
/// that they hold for then.
pub(super) fn further(
    spec: &TargetSpec,
    windows: &[usize],
    widest: Width,
    longest: usize,
    context: usize,
) -> Vec<Scene> {
    // Twice what is needed: the next time comes when the request has taken in as much again.
    let long = context.saturating_mul(2).min(room(spec, widest)).max(context);
    let mut scenes: Vec<_> = edges(windows, longest, long).collect();
    scenes.push(Scene::new(Place::LongPrefix, long));
    scenes
}

/// The longest prompt that leaves room for a block.
fn room(spec: &TargetSpec, widest: Width) -> usize {
    spec.context.saturating_sub(2 * widest.rows()).max(1)
}

/// Blocks whose first row is the last one that a window takes without dropping another.
fn edges(windows: &[usize], above: usize, long: usize) -> impl Iterator<Item = Scene> {
    let prefixes = windows.iter().map(|window| window.saturating_sub(1).max(1));
    prefixes
        .filter(move |prefix| *prefix > above && *prefix <= long)
        .map(|prefix| Scene::new(Place::WindowEdge, prefix))
}

/// The token at `position` of every scene: spread over the vocabulary, the same in every run.
pub(super) fn token(position: usize, vocab: usize) -> TokenId {
    let spread = (position as u64).wrapping_add(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    TokenId((spread % vocab as u64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(context: usize) -> TargetSpec {
        TargetSpec {
            family: "test",
            layers: 1,
            hidden: 1,
            vocab: 64,
            context,
            supports_batched: true,
            required_drafter_family: None,
            suppressed: Vec::new(),
        }
    }

    fn width(rows: usize) -> Width {
        Width::new(rows).unwrap()
    }

    #[test]
    fn every_kind_of_place_is_among_them() {
        for full in [false, true] {
            let scenes = first(&spec(32768), &[512], width(16), full);
            for place in [Place::Fresh, Place::PartialCommit, Place::WindowEdge, Place::LongPrefix] {
                assert!(scenes.iter().any(|scene| scene.place == place), "{place}, full: {full}");
            }
        }
    }

    #[test]
    fn all_rows_fit_the_context() {
        for context in [40, 64, 100, 700, 5000] {
            for full in [false, true] {
                for scene in first(&spec(context), &[32, 90, 512], width(16), full) {
                    let rows = scene.prefix + scene.rows_for(width(16));
                    assert!(rows <= context, "{scene:?} needs {rows} rows of {context}");
                }
            }
        }
    }

    #[test]
    fn windows_that_are_reached_later_are_probed_then() {
        let windows = [512, 1024];
        let early = first(&spec(32768), &windows, width(8), false);
        let edges = |scenes: &[Scene]| {
            let at_edge = scenes.iter().filter(|scene| scene.place == Place::WindowEdge);
            at_edge.map(|scene| scene.prefix).collect::<Vec<_>>()
        };
        assert_eq!(edges(&early), [511]);
        let later = further(&spec(32768), &windows, width(8), 600, 601);
        assert_eq!(edges(&later), [1023]);
        assert_eq!(later.last(), Some(&Scene::new(Place::LongPrefix, 1202)));
    }

    #[test]
    fn a_part_of_a_block_is_kept_and_a_part_is_not() {
        for rows in 2..=16 {
            for quarters in [0, 2, 3] {
                let scene = Scene { kept: Some(quarters), ..Scene::new(Place::PartialCommit, 1) };
                assert!((1..rows).contains(&scene.kept_of(width(rows))), "{rows} rows, {quarters} quarters");
            }
        }
    }
}
