//! One configuration, from empty disks to its throughput in the steady state.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use forebay_rt::{Executor, Rt, VirtualTime};
use serde::{Deserialize, Serialize};

use crate::medium::StudyMedium;
use crate::system::{MeasuredSystem, StudySystem, SystemCounters};
use crate::users::{RequestCounts, StudyUsers};
use crate::workload::{PAGE_BYTES, Workload};

/// Interval of progress checks.
const LOOK: Duration = Duration::from_millis(500);
/// Time without an answer after which a run counts as stalled.
const STALLED: Duration = Duration::from_secs(300);

/// Name of the statistic for the share of logged pages.
const HOT_SHARE: &str = "hot share";

/// Amount of work in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Written bytes before a log is warm, in the log and in place, as a multiple of the device's size.
    pub turned_over: f64,
    /// Bytes that users write before a log is warm, as a multiple of the data. Placements learn from repeated writes.
    pub rewritten: f64,
    /// Written bytes after which a log is warm in any case, as a multiple of the device's size.
    pub turned_over_max: f64,
    /// Bytes that a log writes during the measurement, as a multiple of the device's size.
    pub measured: f64,
    /// Number of requests after which a system without a log is warm. The measurement has twice as many. These are
    /// minima for a log.
    pub requests: u64,
    /// Maximum number of requests for each page, both before the measurement and during it.
    pub page_requests_max: u64,
}

/// A configuration.
pub struct StudyConfig<W> {
    /// The measured system.
    pub under: StudySystem,
    /// The device below the system.
    pub medium: StudyMedium,
    /// Creates the workload.
    pub workload: W,
    /// Number of users.
    pub users: usize,
    /// Amount of work.
    pub effort: Effort,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StudyOutcome {
    /// Users' requests during the measurement.
    pub done: RequestCounts,
    /// Counters of the system during the measurement.
    pub counters: SystemCounters,
    /// Duration of the measurement, in seconds of the virtual clock.
    pub seconds: f64,
    /// The longest request of the measurement, in seconds.
    pub longest: f64,
    /// The hot share during the whole run, if the placement has a hot share: seconds, and the share of the pages.
    pub hot_shares: Vec<(f64, f64)>,
    /// True if the system was warm when the measurement began. A log that needed too many requests is not warm.
    pub warm: bool,
    /// Requests per second in each tenth of the measurement.
    pub tenths: Vec<f64>,
    /// Utilisation of the segments in use at the end of the run, without their headers. `None` if the system has no
    /// log.
    pub density: Option<f64>,
}

/// Result of a configuration, or the reason of its failure.
pub type StudyResult = std::result::Result<StudyOutcome, String>;

impl StudyOutcome {
    /// Returns the requests per second.
    pub fn throughput(&self) -> f64 {
        self.done.requests() as f64 / self.seconds
    }

    /// Returns the bytes written to the device for each byte that users wrote. `None` if these bytes are not counted.
    pub fn amplification(&self) -> Option<f64> {
        let counted = self.counters.medium() > 0 && self.counters.users > 0;
        counted.then(|| self.counters.medium() as f64 / self.counters.users as f64)
    }
}

/// Progress of a run.
struct RunProgress {
    at: f64,
    done: RequestCounts,
    counters: SystemCounters,
}

/// A run in progress.
struct StudyRun {
    rt: Rt,
    system: Box<dyn MeasuredSystem>,
    users: StudyUsers,
    hot_shares: Vec<(f64, f64)>,
    marks: Vec<(f64, u64)>,
}

impl StudyRun {
    fn seconds(&self) -> f64 {
        self.rt.now().as_nanos() as f64 / 1e9
    }

    fn mark(&self) -> RunProgress {
        RunProgress {
            at: self.seconds(),
            done: self.users.done(),
            counters: self.system.counters(),
        }
    }

    /// Lets users work until `enough` returns true for the counters since the call.
    async fn work(
        &mut self,
        enough: impl Fn(&RequestCounts, &SystemCounters) -> bool,
    ) -> Result<()> {
        let from = self.mark();
        let mut last = (self.rt.now(), from.done);
        loop {
            self.rt.sleep(LOOK).await;
            if let Some(error) = self.users.failed() {
                return Err(error);
            }
            let now = self.mark();
            self.marks.push((now.at, now.done.requests()));
            let facts = self.system.facts();
            let hot = facts.iter().find(|fact| fact.name == HOT_SHARE);
            self.hot_shares.extend(hot.map(|hot| (now.at, hot.value)));
            if enough(
                &now.done.since(&from.done),
                &now.counters.since(&from.counters),
            ) {
                return Ok(());
            }
            if now.done.requests() > last.1.requests() {
                last = (self.rt.now(), now.done);
            }
            let waited = self.rt.now().since(last.0);
            ensure!(
                waited < STALLED,
                "no request was answered for {waited:?}: {}",
                self.system.state()
            );
        }
    }
}

impl<W: Fn() -> Result<Box<dyn Workload>> + 'static> StudyConfig<W> {
    /// Runs the configuration on its own virtual clock.
    ///
    /// # Errors
    /// If the system refuses the configuration, the run stalls, or read data differs from written data.
    pub fn run(self) -> Result<StudyOutcome> {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(async move { self.measure(rt).await })
    }

    async fn measure(self, rt: Rt) -> Result<StudyOutcome> {
        let workload = (self.workload)()?;
        let round = workload.round();
        let medium = self.medium.make(&rt, self.seed).await?;
        let disk = self.medium.writing()?;
        let segment = self.medium.segment_bytes();
        let pages = workload.pages();
        let system = self.under.make(&rt, medium, pages, segment, disk).await?;
        let users = StudyUsers::begin(&rt, system.device(), workload, self.users, self.seed).await;
        let mut running = StudyRun {
            rt,
            system,
            users: users.context("it cannot be filled")?,
            hot_shares: Vec::new(),
            marks: Vec::new(),
        };
        let (effort, is_log) = (self.effort, running.system.is_log());
        let requests_max = effort.page_requests_max * u64::from(pages);
        let bytes = self.medium.bytes() as f64;
        let data = f64::from(pages) * PAGE_BYTES as f64;
        let enough = move |times: f64, rewritten: f64, requests: u64| {
            move |done: &RequestCounts, counters: &SystemCounters| {
                let turned = |times: f64| counters.medium() as f64 >= times * bytes;
                let rewritten = done.written as f64 >= rewritten * data;
                let enough = turned(times) && rewritten || turned(effort.turned_over_max);
                let as_wished = !is_log || enough;
                let done = done.requests();
                done >= requests_max || (done >= requests && as_wished)
            }
        };
        let warm = enough(effort.turned_over, effort.rewritten, effort.requests);
        running.work(warm).await?;
        let from = running.mark();
        let is_warm = !is_log || from.done.requests() < requests_max;
        running.marks.clear();
        running.users.take_longest();
        let measured = enough(effort.measured, 0.0, 2 * effort.requests);
        // Set to the end of the current round when the work is sufficient.
        let until = Cell::new(None);
        running
            .work(|done, counters| {
                let requests = done.requests();
                if until.get().is_none() && measured(done, counters) {
                    let whole = |round| requests.next_multiple_of(round);
                    until.set(Some(round.map_or(requests, whole)));
                }
                until.get().is_some_and(|until| requests >= until)
            })
            .await?;
        let to = running.mark();
        let outcome = StudyOutcome {
            done: to.done.since(&from.done),
            counters: to.counters.since(&from.counters),
            seconds: to.at - from.at,
            warm: is_warm,
            density: density(running.system.as_ref(), &to.counters),
            tenths: tenths(&from, &running.marks),
            longest: running.users.take_longest().as_secs_f64(),
            hot_shares: running.hot_shares,
        };
        if outcome.done.requests() == 0 {
            bail!("no request was answered");
        }
        Ok(outcome)
    }
}

/// Returns the utilisation of the segments in use, without their headers. The calculation assumes the average share of
/// headers in all data written so far.
fn density(system: &dyn MeasuredSystem, counters: &SystemCounters) -> Option<f64> {
    let data = counters.users - counters.in_place + counters.moved + counters.checkpoints;
    let density = system.density()?;
    (data > 0).then(|| density * counters.log as f64 / data as f64)
}

/// Returns the requests per second in each tenth of the time from `from` to the last progress check.
fn tenths(from: &RunProgress, marks: &[(f64, u64)]) -> Vec<f64> {
    let parts = 10.min(marks.len());
    let mut before = (from.at, from.done.requests());
    let mut rates = Vec::new();
    for part in 1..=parts {
        let mark = marks[part * marks.len() / parts - 1];
        rates.push((mark.1 - before.1) as f64 / (mark.0 - before.0));
        before = mark;
    }
    rates
}
