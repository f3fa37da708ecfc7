//! Comparisons of a system with the best of others, point by point.

use forebay_placement::placement::PlacementKind;

use crate::experiment::ExperimentResults;
use crate::run::StudyOutcome;
use crate::system::StudySystem;

/// A comparison of a system with the best of others, and the minimum ratio at all points.
pub(super) struct ComparedSystems {
    /// The system.
    pub(super) under: StudySystem,
    /// The others.
    pub(super) others: &'static [StudySystem],
    /// The minimum ratio of their throughputs.
    pub(super) target: f64,
}

/// HyLog and the slides' other systems.
pub(super) const HYLOG: ComparedSystems = ComparedSystems {
    under: StudySystem::Volume(PlacementKind::HyLog),
    others: &[
        StudySystem::Plain,
        StudySystem::Volume(PlacementKind::Lfs),
        StudySystem::Volume(PlacementKind::Wolf),
    ],
    target: 0.97,
};

/// HyLog with SepBIT's classes, and HyLog.
pub(super) const WITH_SEPBIT: ComparedSystems = ComparedSystems {
    under: StudySystem::Volume(PlacementKind::HyLogSepBit),
    others: &[StudySystem::Volume(PlacementKind::HyLog)],
    target: 1.0,
};

/// The automatic placement, and all placements.
pub(super) const AUTO: ComparedSystems = ComparedSystems {
    under: StudySystem::Auto,
    others: &[
        StudySystem::Volume(PlacementKind::Lfs),
        StudySystem::Volume(PlacementKind::Wolf),
        StudySystem::Volume(PlacementKind::HyLog),
        StudySystem::Volume(PlacementKind::SepBit),
        StudySystem::Volume(PlacementKind::HyLogSepBit),
    ],
    target: 0.97,
};

/// A point at which a system and some others were measured warm.
pub(super) struct ComparedPoint<'a> {
    /// The experiment and the point.
    pub(super) name: String,
    /// Throughput of the system, relative to that of the best other.
    pub(super) ratio: f64,
    /// Outcome of the system.
    pub(super) outcome: &'a StudyOutcome,
    /// The best other, with its outcome.
    pub(super) best: (StudySystem, &'a StudyOutcome),
}

/// Returns the outcome of a system, if the system was measured warm.
fn warm_outcome(
    results: &ExperimentResults,
    place: usize,
    under: StudySystem,
) -> Option<&StudyOutcome> {
    let outcome = results.outcome(place, under);
    outcome.filter(|outcome| outcome.warm)
}

/// Returns the requests per second of a warm system, or NaN if the system was not warm or not measured.
pub(super) fn warm(results: &ExperimentResults, place: usize, under: StudySystem) -> f64 {
    warm_outcome(results, place, under).map_or(f64::NAN, StudyOutcome::throughput)
}

/// Compares systems at all points where they were measured warm. The smallest ratio comes first.
pub(super) fn compared<'a>(
    results: &'a [ExperimentResults],
    systems: &ComparedSystems,
) -> Vec<ComparedPoint<'a>> {
    let mut all = Vec::new();
    for results in results {
        let (key, axis) = (results.experiment.key, results.experiment.axis);
        for (n, place) in results.experiment.places.iter().enumerate() {
            let measured = |under| Some((under, warm_outcome(results, n, under)?));
            let others = systems.others.iter().filter_map(|other| measured(*other));
            let best = others.max_by(|a, b| a.1.throughput().total_cmp(&b.1.throughput()));
            let (Some(best), Some((_, outcome))) = (best, measured(systems.under)) else {
                continue;
            };
            all.push(ComparedPoint {
                name: format!("{key}, {axis} {}", place.name),
                ratio: outcome.throughput() / best.1.throughput(),
                outcome,
                best,
            });
        }
    }
    all.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    all
}
