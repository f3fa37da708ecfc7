//! The targets of the study, and their results.

use anyhow::Result;
use forebay_placement::placement::PlacementKind;
use forebay_report::ReportPage;

use super::compared::{AUTO, ComparedPoint, ComparedSystems, HYLOG, WITH_SEPBIT, compared, warm};
use crate::analysis::CrossoverDisk;
use crate::experiment::ExperimentResults;
use crate::medium::StudyDisk;
use crate::system::StudySystem;

/// Maximum distances from the slides' crossovers: by the model, and simulated.
const BY_MODEL: f64 = 0.02;
const BY_SIMULATION: f64 = 0.05;
/// Minimum ratio of HyLog's throughput to the best of the slides' other systems at some point.
const SOMEWHERE: f64 = 1.2;

pub(super) fn write(page: &mut ReportPage, results: &[ExperimentResults]) -> Result<()> {
    page.heading("What was to be reached");
    let rows = [
        by_model()?,
        by_simulation(results)?,
        hylog(results),
        hylog_and_sepbit(results),
        auto(results),
        logs_on_modern_disks(results),
        hot_share(results),
    ];
    page.line("| | reached | |\n|---|---|---|");
    for row in rows {
        page.line(&format!("| {} |", row.join(" | ")));
    }
    page.line("");
    Ok(())
}

fn verdict(reached: bool) -> String {
    if reached {
        "yes".into()
    } else {
        "**no**".into()
    }
}

fn by_model() -> Result<[String; 3]> {
    let mut worst: f64 = 0.0;
    for one in CrossoverDisk::all()? {
        let found = one.crossover(&one.disk());
        for (found, slide) in found.iter().zip(one.slide_crossover) {
            worst = worst.max((found - slide).abs());
        }
    }
    Ok([
        format!("the slides' six crossovers by the model within {BY_MODEL}"),
        verdict(worst <= BY_MODEL),
        format!("the farthest is {worst:.3} off"),
    ])
}

fn by_simulation(results: &[ExperimentResults]) -> Result<[String; 3]> {
    let (mut texts, mut reached) = (Vec::new(), true);
    for one in CrossoverDisk::all()? {
        let [_, slide] = one.slide_crossover;
        let (text, near) = match simulated(results, one.model, UtilisationBase::Medium) {
            Ok(found) => (
                format!("{found:.3}"),
                (found - slide).abs() <= BY_SIMULATION,
            ),
            Err(why) => (why, false),
        };
        reached &= near;
        texts.push(format!("{}: {text} (slides {slide})", one.model.name()));
    }
    Ok([
        format!("those of the disk by simulation within {BY_SIMULATION}"),
        verdict(reached),
        texts.join("; "),
    ])
}

/// The capacity to which the utilisation of a crossover refers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UtilisationBase {
    /// The capacity of the device.
    Medium,
    /// The capacity of the segments in use, without headers and summaries. The cost of cleaning follows from this
    /// utilisation.
    Segments,
}

/// Returns the utilisation at which `lfs` becomes slower than overwriting for uniform updates.
///
/// # Errors
/// If the measured points contain no such utilisation. The text describes its known bound.
pub(super) fn simulated(
    results: &[ExperimentResults],
    model: StudyDisk,
    of: UtilisationBase,
) -> Result<f64, String> {
    let is_it = |results: &&ExperimentResults| {
        let first = results.experiment.places.first();
        results.experiment.key.starts_with("even-")
            && first.is_some_and(|place| place.medium.model == model)
    };
    let Some(results) = results.iter().find(is_it) else {
        return Err("not measured".into());
    };
    let mut before: Option<(f64, f64)> = None;
    for (n, place) in results.experiment.places.iter().enumerate() {
        let ratio = results.rate(n, StudySystem::Volume(PlacementKind::Lfs))
            / results.rate(n, StudySystem::Plain);
        if !ratio.is_finite() {
            break;
        }
        let density = results
            .outcome(n, StudySystem::Volume(PlacementKind::Lfs))
            .and_then(|outcome| outcome.density);
        let utilisation = match (of, density) {
            (UtilisationBase::Segments, Some(density)) => density,
            _ => place.utilisation,
        };
        let here = (utilisation, ratio.ln());
        if ratio < 1.0 {
            let Some(before) = before else {
                return Err(format!("below {:.2}", here.0));
            };
            let part = before.1 / (before.1 - here.1);
            return Ok(before.0 + part * (here.0 - before.0));
        }
        before = Some(here);
    }
    Err(before.map_or("not measured".into(), |(utilisation, _)| {
        format!("above {utilisation:.2}")
    }))
}

fn hylog(results: &[ExperimentResults]) -> [String; 3] {
    let target = HYLOG.target;
    let what = format!(
        "HyLog at least {target} of the best of overwriting, LFS and WOLF everywhere, and {SOMEWHERE} somewhere"
    );
    let all = compared(results, &HYLOG);
    let [Some(worst), Some(best)] = [all.first(), all.last()] else {
        return [what, "not judged".into(), "HyLog was not measured".into()];
    };
    [
        what,
        verdict(worst.ratio >= target && best.ratio >= SOMEWHERE),
        format!(
            "{:.2} ({}) to {:.2} ({}); {}",
            worst.ratio,
            worst.name,
            best.ratio,
            best.name,
            below(&all, target)
        ),
    ]
}

/// Returns the number of points below the target, in words.
fn below(all: &[ComparedPoint<'_>], target: f64) -> String {
    let below = all.iter().filter(|point| point.ratio < target).count();
    format!("below in {below} of {}", all.len())
}

fn hylog_and_sepbit(results: &[ExperimentResults]) -> [String; 3] {
    let what = "HyLog with SepBIT's classes at least HyLog everywhere".to_owned();
    at_worst(what, results, &WITH_SEPBIT)
}

fn auto(results: &[ExperimentResults]) -> [String; 3] {
    let what = format!(
        "`auto` at least {} of the best placement everywhere",
        AUTO.target
    );
    at_worst(what, results, &AUTO)
}

fn at_worst(what: String, results: &[ExperimentResults], systems: &ComparedSystems) -> [String; 3] {
    let all = compared(results, systems);
    let Some(worst) = all.first() else {
        return [what, "not judged".into(), "it was not measured".into()];
    };
    let below = below(&all, systems.target);
    let text = format!("at worst {:.3} ({}); {below}", worst.ratio, worst.name);
    [what, verdict(worst.ratio >= systems.target), text]
}

/// Checks the slides' claim that LFS is far ahead of overwriting on modern disks, unless these are very full.
fn logs_on_modern_disks(results: &[ExperimentResults]) -> [String; 3] {
    let what = format!(
        "LFS at least {SOMEWHERE} of overwriting on the disks of 2003 and 2008, up to 80 % in use"
    );
    let (mut texts, mut reached) = (Vec::new(), true);
    let modern = results
        .iter()
        .filter(|results| results.experiment.key.starts_with("disk-"));
    for results in modern {
        for (n, place) in results.experiment.places.iter().enumerate() {
            let ratio = warm(results, n, StudySystem::Volume(PlacementKind::Lfs))
                / warm(results, n, StudySystem::Plain);
            if place.utilisation <= 0.8 && ratio.is_finite() {
                reached &= ratio >= SOMEWHERE;
                texts.push(format!(
                    "{:.2} ({}, {})",
                    ratio, results.experiment.key, place.name
                ));
            }
        }
    }
    if texts.is_empty() {
        [what, "not judged".into(), "not measured".into()]
    } else {
        [what, verdict(reached), texts.join("; ")]
    }
}

/// The slides' hot share for TPC-C, at the utilisation of their comparisons.
const HOT_SHARE: std::ops::RangeInclusive<f64> = 0.35..=0.45;

fn hot_share(results: &[ExperimentResults]) -> [String; 3] {
    let what = "HyLog's hot share for TPC-C from 35 to 45 %, 98 % in use".to_owned();
    let found = results.iter().find_map(|results| {
        let is_it = results.experiment.key == "utilisation";
        let places = results.experiment.places.iter();
        let at = places.rev().position(|place| place.name == "98 %")?;
        let place = results.experiment.places.len() - 1 - at;
        let outcome = results.outcome(place, StudySystem::Volume(PlacementKind::HyLog))?;
        let (_, share) = outcome.hot_shares.last()?;
        is_it.then_some(*share)
    });
    match found {
        None => [what, "not judged".into(), "not measured".into()],
        Some(share) => [
            what,
            verdict(HOT_SHARE.contains(&share)),
            format!("{:.0} % in the end", 100.0 * share),
        ],
    }
}
