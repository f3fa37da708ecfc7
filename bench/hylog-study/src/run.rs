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

/// How long is slept between two looks at how far a run is.
const LOOK: Duration = Duration::from_millis(500);
/// Users that get no answer for so long are taken to wait for ever.
const STALLED: Duration = Duration::from_secs(300);

/// What placements call the share of the pages that they log.
const HOT_SHARE: &str = "hot share";

/// How much is done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// A log is warm when it and what is written in place come to so many times what the medium holds.
    pub turned_over: f64,
    /// And when users have written so many times as much as there is data: placements learn by what is written again.
    pub rewritten: f64,
    /// It is measured while it writes so many times that.
    pub measured: f64,
    /// What is no log is warm after so many requests, and measured for twice as many; a log, after no fewer.
    pub requests: u64,
    /// More requests than so many for each page are made neither to warm nor to measure.
    pub page_requests_max: u64,
}

/// What is run.
pub struct StudyConfig<W> {
    /// What is compared.
    pub under: StudySystem,
    /// What it lies on.
    pub medium: StudyMedium,
    /// Makes what users do.
    pub workload: W,
    /// How many users.
    pub users: usize,
    /// How much is done.
    pub effort: Effort,
    /// From which all that is random follows.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StudyOutcome {
    /// What users did while it was measured.
    pub done: RequestCounts,
    /// What the system did for that.
    pub counters: SystemCounters,
    /// How long it took, in seconds of the virtual clock.
    pub seconds: f64,
    /// The longest request of those that were measured, in seconds.
    pub longest: f64,
    /// The hot share over the whole run, of a placement that has one: seconds, and the share of the pages.
    pub hot_shares: Vec<(f64, f64)>,
    /// True if it was warm when it began to be measured: false of a log that took too many requests.
    pub warm: bool,
    /// Requests a second in each tenth of what was measured.
    pub tenths: Vec<f64>,
    /// How full the segments were that were in use, in the end, of what they can hold; of a log.
    pub density: Option<f64>,
}

/// What came of one configuration: or why nothing did.
pub type StudyResult = std::result::Result<StudyOutcome, String>;

impl StudyOutcome {
    /// Requests a second.
    pub fn throughput(&self) -> f64 {
        self.done.requests() as f64 / self.seconds
    }

    /// Bytes written to the medium for each that users wrote; nothing where that is not counted.
    pub fn amplification(&self) -> Option<f64> {
        let counted = self.counters.medium() > 0 && self.counters.users > 0;
        counted.then(|| self.counters.medium() as f64 / self.counters.users as f64)
    }
}

/// How far a run is.
struct RunProgress {
    at: f64,
    done: RequestCounts,
    counters: SystemCounters,
}

/// A run that goes on.
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

    /// Lets users work until `enough` is true of what was done since.
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
    /// Runs it, on a clock of its own.
    ///
    /// # Errors
    /// If it is refused, stalls, or what is read is not what was written.
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
                let turned = counters.medium() as f64 >= times * bytes;
                let rewritten = done.written as f64 >= rewritten * data;
                let as_wished = !is_log || (turned && rewritten);
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
        // Set where it is enough, to the end of the round.
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

/// How full segments in use are, of what they can hold beside headers: as much as of what was written so far is data.
fn density(system: &dyn MeasuredSystem, counters: &SystemCounters) -> Option<f64> {
    let data = counters.users - counters.in_place + counters.moved + counters.checkpoints;
    let density = system.density()?;
    (data > 0).then(|| density * counters.log as f64 / data as f64)
}

/// Requests a second in each tenth of the time from `from` to the last of the looks.
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
