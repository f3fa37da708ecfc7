//! The HyLog study: `forebay-sim study hylog`.
//!
//! Wang, Zhao and Bunt, *HyLog: A High Performance Approach to Managing Disk Layout* (FAST 2004). The study repeats
//! every figure and table of the slides with the production engine, over emulated disks on a virtual clock. The study
//! compares the disks themselves with volumes that place data like LFS, WOLF, HyLog or SepBIT. The file
//! docs/design/study.md contains the decisions about details that the slides do not mention.
//!
//! Reading order: `workload.rs` (the users' requests), `medium.rs`, `flash_medium.rs` and `spread.rs` (the devices),
//! `system.rs` (the compared systems), `users.rs` and `run.rs` (one configuration, from empty disks to its throughput),
//! `plan.rs` (the configurations) and `experiment.rs` (their execution on several threads), `analysis.rs` and
//! `oracle.rs` (figures without devices), `report.rs`.

mod analysis;
mod experiment;
mod flash_medium;
mod kept;
mod made;
mod medium;
mod oracle;
mod plan;
mod report;
mod run;
mod spread;
mod system;
mod users;
pub mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use forebay_report::{Circumstances, commit};

pub use experiment::{
    ExperimentPoint, ExperimentResults, StudyExperiment, WorkloadSpec, run_all, traces,
};
pub use flash_medium::{FlashMedium, FlashPages};
pub use kept::ResultStore;
pub use made::{MediumCounts, MediumDevice};
pub use medium::{DiskArray, MediumKind, StudyDisk, StudyMedium};
pub use plan::{StudyScale, experiments};
pub use report::write_report;
pub use run::{Effort, StudyConfig, StudyOutcome, StudyResult};
pub use spread::SpreadDisk;
pub use system::{MeasuredSystem, StudySystem, SystemCounters};
pub use users::RequestCounts;

/// Selection of experiments, and settings of their execution.
pub struct StudyOptions<'a> {
    /// Extent of the measurements.
    pub scale: StudyScale,
    /// The keys of the experiments to run. An empty list means all experiments.
    pub only: &'a [String],
    /// The folder with recorded requests.
    pub traces: Option<&'a Path>,
    /// A file that stores the results of all configurations. Configurations with a stored result do not run again.
    pub resume: Option<&'a Path>,
    /// Number of threads. The results do not depend on this number.
    pub threads: usize,
}

impl StudyOptions<'_> {
    /// Runs the study, and writes the report into `folder`. Returns the path of the report. `step` receives progress
    /// messages.
    ///
    /// # Errors
    /// If an experiment is unknown, or the report cannot be written. A configuration that fails is mentioned in the
    /// report.
    pub fn run(&self, folder: &Path, step: &(dyn Fn(&str) + Sync)) -> Result<PathBuf> {
        let circumstances = Circumstances::begin();
        let recorded = traces(self.traces, self.scale.trace_pages());
        let mut planned = experiments(self.scale, &recorded);
        let known: Vec<&str> = planned.iter().map(|one| one.key).collect();
        for key in self.only {
            let there = known.contains(&key.as_str());
            ensure!(there, "no experiment {key}: {}", known.join(", "));
        }
        planned.retain(|one| self.only.is_empty() || self.only.iter().any(|key| key == one.key));
        let commit = commit().unwrap_or_else(|| "not known".into());
        let kept = match self.resume {
            Some(path) => ResultStore::open(path, &commit)?,
            None => ResultStore::nowhere(),
        };
        let effort = |bytes, under| self.scale.effort_for(bytes, under);
        let results = run_all(planned, effort, self.threads, &kept, step);
        write_report(
            folder,
            &[circumstances.text(), kept.text()],
            self.scale,
            &results,
        )
    }
}
