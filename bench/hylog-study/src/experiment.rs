//! Experiments: points along an axis, and the compared systems at each point.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use forebay_rng::mix;

use crate::kept::ResultStore;
use crate::medium::StudyMedium;
use crate::run::{Effort, StudyConfig, StudyOutcome, StudyResult};
use crate::system::StudySystem;
use crate::workload::{
    PAGE_BYTES, Skew, StudyTrace, SyntheticWorkload, TpcC, TracedWorkload, Workload,
};

/// The users' requests.
#[derive(Clone, Debug)]
pub enum WorkloadSpec {
    /// Pages drawn with a skew. The number is the percentage of reads.
    Drawn(Skew, u64),
    /// A workload similar to TPC-C.
    TpcC,
    /// A recorded workload. Each user has a copy, and the copies are adjacent.
    Recorded(StudyTrace, TracedWorkload),
}

/// A point on the axis of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentPoint {
    /// Label on the axis.
    pub name: String,
    /// The device below. The number of segments for a recorded workload follows from the touched pages.
    pub medium: StudyMedium,
    /// The share of the device that holds data.
    pub utilisation: f64,
    /// The users' requests.
    pub what: WorkloadSpec,
    /// Number of users.
    pub users: usize,
}

/// A comparison of systems at several points.
#[derive(Clone, Debug)]
pub struct StudyExperiment {
    /// A short name, for files.
    pub key: &'static str,
    /// Its title.
    pub title: String,
    /// The axis.
    pub axis: &'static str,
    /// The slides' statement, and the method of this study.
    pub about: String,
    /// Points along the axis.
    pub places: Vec<ExperimentPoint>,
    /// Compared systems.
    pub systems: Vec<StudySystem>,
}

/// Results of an experiment.
pub struct ExperimentResults {
    /// The experiment.
    pub experiment: StudyExperiment,
    /// For each point, the result of each system.
    pub found: Vec<Vec<StudyResult>>,
}

impl ExperimentResults {
    /// Returns the outcome of a system at a point, if the run succeeded.
    pub fn outcome(&self, place: usize, under: StudySystem) -> Option<&StudyOutcome> {
        let systems = self.experiment.systems.iter();
        let mut all = systems.zip(&self.found[place]);
        let (_, found) = all.find(|(system, _)| **system == under)?;
        found.as_ref().ok()
    }

    /// Returns the requests per second of a system at a point, or NaN if the run failed.
    pub fn rate(&self, place: usize, under: StudySystem) -> f64 {
        let outcome = self.outcome(place, under);
        outcome.map_or(f64::NAN, StudyOutcome::throughput)
    }
}

impl ExperimentPoint {
    /// Creates the workload. Its pages fill the device up to the requested utilisation.
    fn workload(&self, seed: u64) -> Result<Box<dyn Workload>> {
        let bytes = self.utilisation * self.medium.bytes() as f64;
        let pages = (bytes / PAGE_BYTES as f64) as u32;
        Ok(match &self.what {
            WorkloadSpec::Drawn(skew, reads) => {
                Box::new(SyntheticWorkload::new(*skew, pages, *reads, seed))
            }
            WorkloadSpec::TpcC => {
                let tpcc = TpcC::new(pages, seed);
                Box::new(tpcc.with_context(|| format!("{pages} pages are too few"))?)
            }
            WorkloadSpec::Recorded(_, traced) => Box::new(traced.clone()),
        })
    }

    /// Creates a point for a recorded workload. Each user has a copy, or as many users as the space permits. The size
    /// of the device follows from the copies.
    #[must_use]
    pub fn of_trace(self, traced: &TracedWorkload, recorded: StudyTrace) -> ExperimentPoint {
        let room = (self.utilisation * self.medium.bytes() as f64) as u64 / PAGE_BYTES;
        let copies = (room / u64::from(traced.pages())).clamp(1, self.users as u64);
        let copies = traced.copies(copies as u32);
        let bytes = f64::from(copies.pages()) * PAGE_BYTES as f64 / self.utilisation;
        let segments = (bytes / self.medium.segment_bytes() as f64).floor() as u64;
        ExperimentPoint {
            medium: StudyMedium {
                segments,
                ..self.medium
            },
            what: WorkloadSpec::Recorded(recorded, copies),
            ..self
        }
    }

    /// Returns a text that identifies the settings that influence the result of `under`. Only the point's name stands
    /// for its workload.
    fn configuration(&self, key: &str, under: StudySystem, effort: Effort, seed: u64) -> String {
        let (name, system) = (&self.name, under.name());
        format!(
            "{key}, {name}, {system}: {:?}, {} full, {} users, {effort:?}, seed {seed}",
            self.medium, self.utilisation, self.users
        )
    }

    fn run(&self, under: StudySystem, effort: Effort, seed: u64) -> StudyResult {
        let place = self.clone();
        let config = StudyConfig {
            under,
            medium: self.medium,
            workload: move || place.workload(seed),
            users: self.users,
            effort,
            seed,
        };
        // An engine that violates a guarantee or stalls panics. This is also a result.
        let ran = catch_unwind(AssertUnwindSafe(|| config.run()));
        let ran = ran.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(anyhow!("panicked: {}", text.unwrap_or_default()))
        });
        ran.map_err(|error| format!("{error:#}"))
    }
}

/// Runs all configurations without a stored result, on the given number of threads. The results do not depend on the
/// number of threads. `effort` returns the effort for a device of this number of bytes
/// under a system.
pub fn run_all(
    experiments: Vec<StudyExperiment>,
    effort: impl Fn(u64, StudySystem) -> Effort + Sync,
    threads: usize,
    kept: &ResultStore,
    step: &(dyn Fn(&str) + Sync),
) -> Vec<ExperimentResults> {
    let mut todo = Vec::new();
    for (n, experiment) in experiments.iter().enumerate() {
        for place in 0..experiment.places.len() {
            todo.extend((0..experiment.systems.len()).map(|system| (n, place, system)));
        }
    }
    let next = AtomicUsize::new(0);
    let found: Vec<Mutex<Option<StudyResult>>> = todo.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(n, place, system)) = todo.get(at) else {
                return;
            };
            let experiment = &experiments[n];
            let (place, under) = (&experiment.places[place], experiment.systems[system]);
            // All compared systems get identical requests.
            let seed = seed_of(experiment.key);
            let effort = effort(place.medium.bytes(), under);
            let configuration = place.configuration(experiment.key, under, effort, seed);
            if let Some(known) = kept.get(&configuration) {
                *found[at].lock().expect("no panic holds it") = Some(known.clone());
                continue;
            }
            let result = place.run(under, effort, seed);
            let rate = match &result {
                Ok(outcome) => format!("{:.1} requests a second", outcome.throughput()),
                Err(why) => why.clone(),
            };
            let (of, name) = (todo.len(), under.name());
            step(&format!(
                "{} of {of}: {}, {} {}, {name}: {rate}",
                at + 1,
                experiment.key,
                experiment.axis,
                place.name
            ));
            if let Err(error) = kept.put(configuration, &result) {
                step(&format!("it could not be kept: {error:#}"));
            }
            *found[at].lock().expect("no panic holds it") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_iter().map(|one| {
        let one = one.into_inner().expect("no panic holds it");
        one.unwrap_or_else(|| Err("it was not run".into()))
    });
    let collect = |experiment: StudyExperiment| ExperimentResults {
        found: (experiment.places.iter())
            .map(|_| found.by_ref().take(experiment.systems.len()).collect())
            .collect(),
        experiment,
    };
    experiments.into_iter().map(collect).collect()
}

/// Returns the seed of an experiment. The seed depends only on the key, so other experiments do not influence it.
fn seed_of(key: &str) -> u64 {
    let folded = key.bytes().fold(0, |seed, byte| mix(seed, byte.into()));
    1 + folded % 1000
}

/// Reads the recorded traces of a folder. Each workload is the beginning of a trace that touches at most `most` pages.
pub fn traces(
    folder: Option<&Path>,
    most: usize,
) -> Vec<(StudyTrace, Result<TracedWorkload, String>)> {
    let read = |recorded: StudyTrace| {
        let read = match folder {
            Some(folder) => recorded
                .read(folder, most)
                .map_err(|error| error.to_string()),
            None => Err("no folder of traces was given".to_owned()),
        };
        (recorded, read)
    };
    StudyTrace::ALL.map(read).into()
}
