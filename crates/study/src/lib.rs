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

pub use experiment::{Experiment, Place, Results, What, run_all, traces};
pub use flash_medium::{FlashMedium, FlashPages};
pub use kept::Kept;
pub use made::{MadeMedium, MediumCounts};
pub use medium::{Array, Medium, MediumKind, Model};
pub use plan::{Scale, experiments};
pub use report::write_report;
pub use run::{Config, Effort, Found, Outcome};
pub use spread::Spread;
pub use system::{Counters, System, Under};
pub use users::Done;

/// What of the study is to be run, and how.
pub struct Study<'a> {
    /// How much is measured.
    pub scale: Scale,
    /// The keys of the experiments to run; all of them, if none are named.
    pub only: &'a [String],
    /// Where recorded requests are.
    pub traces: Option<&'a Path>,
    /// A file to keep in what each configuration came to, and to take from what it has already.
    pub resume: Option<&'a Path>,
    /// On so many threads. What comes out does not depend on it.
    pub threads: usize,
}

impl Study<'_> {
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
            Some(path) => Kept::open(path, &commit)?,
            None => Kept::nowhere(),
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
