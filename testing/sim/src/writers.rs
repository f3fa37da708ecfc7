//! Checks of prefix consistency with the flush bound, and of reads.
//!
//! A *writer* has a region of its own and sends one request at a time. Any number of writers run concurrently. After a
//! crash each region must have the state after some prefix of its writer's steps, at least up to the durable step. The
//! prefixes must also be consistent with each other: if a step is visible, all steps acknowledged before its request
//! must be visible, too.

use std::ops::Range;
use std::sync::Arc;

use crate::history::{History, StepContent, SurvivalRule};
use crate::stamp::{BEFORE, SECTOR, SectorContent, read_sector};

/// Guarantee that a volume must keep after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashGuarantee {
    /// A prefix of all requests, including everything that was flushed.
    Prefix,
    /// The guarantee of a disk, for each sector separately: a version not older than the last flush.
    Sectors,
    /// Any former version of each sector: nothing more can be expected of a log on a disk that lies, rots or misplaces
    /// writes.
    Known,
}

/// Request and acknowledgement of a step, as numbers of events in the scenario.
#[derive(Clone, Copy, Debug)]
struct StepTimes {
    asked: u64,
    acknowledged: u64,
}

const NEVER: u64 = u64::MAX;

/// The writers of a scenario and their requests.
pub struct WriterHistories {
    histories: Vec<History>,
    times: Vec<Vec<StepTimes>>,
    events: u64,
}

/// The last acknowledged step of each writer at some moment.
pub type WriterProgress = Vec<usize>;

impl WriterHistories {
    /// Creates writers on these regions of a volume with the content `base`.
    pub fn new(base: Vec<u8>, regions: &[Range<u64>]) -> WriterHistories {
        let base = Arc::new(base);
        let history = |(n, region): (usize, &Range<u64>)| {
            History::sharing(Arc::clone(&base), region.clone(), n as u64 + 1)
        };
        WriterHistories {
            histories: regions.iter().enumerate().map(history).collect(),
            times: vec![Vec::new(); regions.len()],
            events: 0,
        }
    }

    /// Returns the history of a writer.
    pub fn history(&self, writer: usize) -> &History {
        &self.histories[writer]
    }

    fn now(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Notes that a writer requests a change. Returns the step and, for data, its stamp.
    pub fn begin(
        &mut self,
        writer: usize,
        range: Range<u64>,
        what: Option<StepContent>,
    ) -> (usize, u64) {
        let asked = self.now();
        let history = &mut self.histories[writer];
        let id = history.next_id();
        let step = history.step(range, what.unwrap_or(StepContent::Data(id)));
        self.times[writer].push(StepTimes {
            asked,
            acknowledged: NEVER,
        });
        (step, id)
    }

    /// Notes that a writer requests concurrent writes of one stamp. Returns the step after which all are done, and the
    /// stamp.
    pub fn begin_batch(&mut self, writer: usize, ranges: &[Range<u64>]) -> (usize, u64) {
        let asked = self.now();
        let history = &mut self.histories[writer];
        let id = history.next_id();
        let step = history.batch(ranges, StepContent::Data(id));
        let times = StepTimes {
            asked,
            acknowledged: NEVER,
        };
        self.times[writer].extend([times; 2]);
        (step, id)
    }

    /// Notes that the change was acknowledged.
    pub fn acknowledged(&mut self, writer: usize, step: usize) {
        let now = self.now();
        self.times[writer][step - 1].acknowledged = now;
        self.histories[writer].set_acknowledged(step);
    }

    /// Notes that the change failed.
    pub fn failed(&mut self, writer: usize, step: usize, range: Range<u64>) {
        self.histories[writer].failed(step, range);
    }

    /// Returns the last acknowledged step of each writer.
    pub fn marks(&mut self) -> WriterProgress {
        self.histories.iter().map(History::acknowledged).collect()
    }

    /// Returns the last durable step of each writer.
    pub fn durable_marks(&self) -> WriterProgress {
        self.histories.iter().map(History::durable).collect()
    }

    /// Notes that all steps up to `marks` are durable.
    pub fn durable(&mut self, marks: &WriterProgress) {
        for (history, upto) in self.histories.iter_mut().zip(marks) {
            history.set_durable(*upto);
        }
    }

    /// Notes that a writer's steps up to `step` are durable.
    pub fn writer_durable(&mut self, writer: usize, step: usize) {
        self.histories[writer].set_durable(step);
    }

    /// Notes that data up to now may be lost: unreadable data is declared lost.
    pub fn abandon_unreadable(&mut self) {
        self.histories
            .iter_mut()
            .for_each(History::abandon_unreadable);
    }

    /// Returns true if a sector may be permanently unreadable after a crash now.
    pub fn may_be_lost(&self, sector: u64, kept: SurvivalRule) -> bool {
        let writer = self.writer_of(sector).map(|writer| &self.histories[writer]);
        writer.is_some_and(|history| history.may_be_lost(sector, history.kept(kept)))
    }

    /// Returns true if any data may be lost.
    pub fn may_have_lost(&self) -> bool {
        self.histories.iter().any(History::may_have_lost)
    }

    fn writer_of(&self, sector: u64) -> Option<usize> {
        let at = sector * SECTOR as u64;
        self.histories
            .iter()
            .position(|history| history.region().contains(&at))
    }

    /// Returns true if this stamp was written to this sector at any time, or was there at the start.
    pub fn was_written(&self, sector: u64, id: u64) -> bool {
        if id == BEFORE {
            return true;
        }
        let Some(writer) = self.writer_of(sector) else {
            return false;
        };
        id >> 32 == writer as u64 + 1 && id < self.histories[writer].next_id()
    }

    /// Checks that a read that began at `marks` may have returned `bytes` from `at` on.
    ///
    /// # Errors
    /// If the result is impossible; the text names the place.
    pub fn check_read(&self, at: u64, bytes: &[u8], marks: &WriterProgress) -> Result<(), String> {
        for (n, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let sector = at / SECTOR as u64 + n as u64;
            if let Some(writer) = self.writer_of(sector) {
                self.histories[writer].one_sector(sector, bytes, marks[writer])?;
            }
        }
        Ok(())
    }

    /// Checks that a volume may have this content after a crash now. Returns the possible steps of each writer.
    ///
    /// # Errors
    /// If the content is impossible; the text names the place.
    pub fn judge(
        &self,
        seen: &[u8],
        unreadable: &dyn Fn(u64) -> bool,
        guarantee: CrashGuarantee,
        kept: SurvivalRule,
    ) -> Result<Vec<Vec<usize>>, String> {
        match guarantee {
            CrashGuarantee::Prefix => {
                let writers = self.histories.iter().enumerate();
                let after = writers.map(|(n, history)| {
                    let after = history.prefixes_from(history.kept(kept), seen, unreadable);
                    after.map_err(|wrong| format!("writer {n}: {wrong}"))
                });
                let after: Vec<Vec<usize>> = after.collect::<Result<_, _>>()?;
                self.go_together(&after)?;
                Ok(after)
            }
            CrashGuarantee::Sectors => {
                for (n, history) in self.histories.iter().enumerate() {
                    let held = history.each_sector_from(history.kept(kept), seen, unreadable);
                    held.map_err(|wrong| format!("writer {n}: {wrong}"))?;
                }
                Ok(self.any_step(kept))
            }
            CrashGuarantee::Known => {
                for (n, bytes) in seen.chunks_exact(SECTOR).enumerate() {
                    let (sector, content) = (n as u64, read_sector(bytes));
                    let known = match content {
                        SectorContent::Zero => true,
                        SectorContent::Stamp { id, sector: of } => {
                            of == sector && self.was_written(sector, id)
                        }
                        SectorContent::Other => false,
                    };
                    if !known && !unreadable(sector) {
                        return Err(format!("sector {n} holds {content:?}, which it never had"));
                    }
                }
                Ok(self.any_step(SurvivalRule::Durable))
            }
        }
    }

    fn any_step(&self, kept: SurvivalRule) -> Vec<Vec<usize>> {
        let steps = |history: &History| (history.kept(kept)..=history.steps()).collect();
        self.histories.iter().map(steps).collect()
    }

    /// Returns the number of steps of writer `other` that were acknowledged before `writer` requested its step.
    fn must_show(&self, writer: usize, step: usize, other: usize) -> usize {
        let Some(step) = step.checked_sub(1) else {
            return 0;
        };
        let asked = self.times[writer][step].asked;
        let times = &self.times[other];
        // Steps are acknowledged in order, except for failed ones.
        let before = times.iter().rposition(|times| times.acknowledged < asked);
        before.map_or(0, |n| n + 1)
    }

    /// Finds the lowest consistent steps of all writers. A higher step of a writer may require a higher step of
    /// another.
    fn go_together(&self, after: &[Vec<usize>]) -> Result<(), String> {
        let mut at: Vec<usize> = after.iter().map(|steps| steps[0]).collect();
        loop {
            let mut settled = true;
            for writer in 0..at.len() {
                for other in 0..at.len() {
                    let least = self.must_show(writer, at[writer], other);
                    if other == writer || at[other] >= least {
                        continue;
                    }
                    settled = false;
                    let higher = after[other].iter().find(|step| **step >= least);
                    at[other] = *higher.ok_or_else(|| {
                        format!(
                            "writer {writer} shows step {}, which was asked for after step {least} of \
                             writer {other} was acknowledged, and that does not show",
                            at[writer]
                        )
                    })?;
                }
            }
            if settled {
                return Ok(());
            }
        }
    }

    /// Continues from `seen`, in which the sectors `lost` (in order) cannot be read. Each writer may be after the given
    /// steps.
    pub fn rebase(&mut self, seen: Vec<u8>, lost: &[u64], after: &[Vec<usize>]) {
        let seen = Arc::new(seen);
        let is_lost = |sector| lost.binary_search(&sector).is_ok();
        for (history, after) in self.histories.iter_mut().zip(after) {
            history.rebase_sharing(Arc::clone(&seen), &is_lost, after);
        }
        self.times.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::stamp;

    const LEN: u64 = 64 << 10;

    #[test]
    fn writer_histories_detect_lost_flushes_holes_and_inconsistent_writers() {
        let half = LEN / 2;
        let base = stamp(BEFORE, 0, LEN);
        let mut writers = WriterHistories::new(base.clone(), &[0..half, half..LEN]);
        let (one, first) = writers.begin(0, 0..512, None);
        writers.acknowledged(0, one);
        let (other, second) = writers.begin(1, half..half + 512, None);
        writers.acknowledged(1, other);
        let (third, last) = writers.begin(0, 512..1024, None);
        writers.acknowledged(0, third);
        let with = |writes: &[(u64, u64)]| {
            let mut seen = base.clone();
            for (id, at) in writes {
                let at = *at as usize;
                seen[at..at + 512].copy_from_slice(&stamp(*id, at as u64, 512));
            }
            seen
        };
        let judge = |writers: &WriterHistories, writes: &[(u64, u64)]| {
            let judged = writers.judge(
                &with(writes),
                &|_| false,
                CrashGuarantee::Prefix,
                SurvivalRule::Durable,
            );
            judged.is_ok()
        };
        assert!(judge(&writers, &[]) && judge(&writers, &[(first, 0), (second, half)]));
        assert!(!judge(&writers, &[(last, 512)]), "a hole in a writer");
        assert!(
            !judge(&writers, &[(second, half)]),
            "writer 1 without writer 0"
        );
        let old = stamp(BEFORE, 0, 512);
        let marks = writers.marks();
        assert!(writers.check_read(0, &old, &marks).is_err(), "an old read");
        assert!(writers.check_read(0, &stamp(first, 0, 512), &marks).is_ok());
        writers.durable(&marks);
        assert!(!judge(&writers, &[(first, 0), (second, half)]), "flushed");
        let sectors = writers.judge(
            &with(&[(first, 0)]),
            &|_| false,
            CrashGuarantee::Sectors,
            SurvivalRule::Durable,
        );
        assert!(sectors.is_err(), "a flushed sector");
        let known = writers.judge(
            &vec![1; LEN as usize],
            &|_| false,
            CrashGuarantee::Known,
            SurvivalRule::Durable,
        );
        assert!(known.is_err(), "what nobody wrote");
    }

    #[test]
    fn abandoned_data_may_be_lost_and_lost_sectors_are_undefined_until_rewritten() {
        let base = stamp(BEFORE, 0, 4096);
        let mut writers = WriterHistories::new(base.clone(), std::slice::from_ref(&(0..4096)));
        let put = |writers: &mut WriterHistories, at: u64| {
            let (step, id) = writers.begin(0, at..at + 512, None);
            writers.acknowledged(0, step);
            let marks = writers.marks();
            writers.durable(&marks);
            stamp(id, at, 512)
        };
        let first = put(&mut writers, 0);
        assert!(!writers.may_be_lost(0, SurvivalRule::Durable) && !writers.may_have_lost());
        writers.abandon_unreadable();
        put(&mut writers, 512);
        assert!(
            writers.may_be_lost(0, SurvivalRule::Durable)
                && writers.may_be_lost(7, SurvivalRule::Durable)
        );
        assert!(
            !writers.may_be_lost(1, SurvivalRule::Durable),
            "it was written since"
        );
        let holds = |writers: &WriterHistories, first: &[u8], lost: &[u64]| {
            let mut seen = base.clone();
            seen[..512].copy_from_slice(first);
            let lost = |sector| lost.contains(&sector);
            let judged =
                writers.judge(&seen, &lost, CrashGuarantee::Sectors, SurvivalRule::Durable);
            judged.is_ok()
        };
        assert!(
            holds(&writers, &first, &[1]),
            "what was abandoned may be there"
        );
        assert!(!holds(&writers, &base[..512], &[1]), "but nothing older");
        writers.rebase(base.clone(), &[0], &[vec![0]]);
        assert!(
            writers.may_be_lost(0, SurvivalRule::Durable)
                && !writers.may_be_lost(1, SurvivalRule::Durable)
        );
        assert!(holds(&writers, &base[..512], &[0]));
        assert!(!holds(&writers, &first, &[]) && !holds(&writers, &base[..512], &[]));
        let again = put(&mut writers, 0);
        assert!(!writers.may_be_lost(0, SurvivalRule::Durable) && holds(&writers, &again, &[]));
    }

    #[test]
    fn concurrent_writes_may_survive_in_any_combination_until_durable() {
        let base = stamp(BEFORE, 0, 4096);
        let mut writers = WriterHistories::new(base.clone(), std::slice::from_ref(&(0..4096)));
        // Two of the ranges overlap.
        let (step, id) = writers.begin_batch(0, &[0..512, 1024..1536, 0..1024]);
        let with = |sectors: &[u64]| {
            let mut seen = base.clone();
            for sector in sectors {
                let at = sector * 512;
                seen[at as usize..at as usize + 512].copy_from_slice(&stamp(id, at, 512));
            }
            seen
        };
        let holds = |writers: &WriterHistories, sectors: &[u64]| {
            let judged = writers.judge(
                &with(sectors),
                &|_| false,
                CrashGuarantee::Prefix,
                SurvivalRule::Durable,
            );
            judged.is_ok()
        };
        for sectors in [&[][..], &[2], &[0, 1], &[0, 1, 2]] {
            assert!(holds(&writers, sectors), "{sectors:?}");
        }
        writers.acknowledged(0, step);
        assert!(holds(&writers, &[2]));
        let marks = writers.marks();
        writers.durable(&marks);
        assert!(!holds(&writers, &[2]) && !holds(&writers, &[]));
        assert!(holds(&writers, &[0, 1, 2]));
    }
}
