//! The HyLog study: `forebay-sim study hylog`.
//!
//! Wang, Zhao and Bunt, *HyLog: A High Performance Approach to Managing Disk Layout* (FAST 2004): every figure and
//! table of its slides, by the engine that ships, over emulated disks on a virtual clock. What is compared: the
//! disks themselves, and volumes on them that place data as LFS, WOLF, HyLog or SepBIT do. docs/design/study.md says
//! what was decided where the slides are silent.
//!
//! Reading order: `workload.rs` (what users do), `medium.rs`, `flash_medium.rs` and `spread.rs` (what the data lies on), `system.rs` (what
//! is compared), `users.rs` and `run.rs` (one configuration, from empty disks to its throughput), `plan.rs` (which
//! configurations) and `experiment.rs` (all of them, on several threads), `analysis.rs` and `oracle.rs` (what
//! needs none of this), `report.rs`.

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

/// What of the study is to be run, and how.
pub struct StudyOptions<'a> {
    /// How much is measured.
    pub scale: StudyScale,
    /// The keys of the experiments to run; all of them, if none are named.
    pub only: &'a [String],
    /// Where recorded requests are.
    pub traces: Option<&'a Path>,
    /// A file to keep in what each configuration came to, and to take from what it has already.
    pub resume: Option<&'a Path>,
    /// On so many threads. What comes out does not depend on it.
    pub threads: usize,
}

impl StudyOptions<'_> {
    /// Runs it, and writes the report into `folder`; gives the report's path. `step` is told what was done.
    ///
    /// # Errors
    /// If an experiment is not known, or the report cannot be written. A configuration that fails is told of in the
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
        let results = run_all(planned, self.scale.effort(), (self.threads, &kept), step);
        write_report(
            folder,
            &[circumstances.text(), kept.text()],
            self.scale,
            &results,
        )
    }
}
