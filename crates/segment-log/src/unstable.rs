//! Stretches that were sent to the device but that no flush has made durable, for a log that writes them again.
//!
//! After a failed flush, a device may have dropped every write that the flush covered, and every write that was in
//! flight during the flush. So a stretch leaves this list only when a flush that began after its write succeeds, or
//! when the write itself was durable. After a failed flush, each stretch in the list is *lost* until it is written once
//! more.
//!
//! Invariants:
//! - A written stretch that is not in this list is durable.
//! - The bytes of every stretch in this list are in memory.

use std::collections::{BTreeMap, BTreeSet};

use forebay_units::{RecordSeq, SegmentSeq};

use crate::ram::WriteJob;

/// Result of a write that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobEnd {
    /// The device has the data; the next flush makes the data durable.
    Written,
    /// The data is durable.
    Durable,
    /// A flush failed while the write was in flight, so the device may have dropped the data.
    Lost,
}

/// The state of a stretch's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnstableStage {
    InFlight,
    /// On the device, written after the flush with this number began and before the next flush.
    Written(u64),
    /// Possibly in memory alone.
    Lost,
}

struct UnstableWrite {
    job: WriteJob,
    stage: UnstableStage,
}

/// Stretches that may not be durable, by the number of the job that wrote them.
#[derive(Default)]
pub(crate) struct UnstableWrites {
    stretches: BTreeMap<u64, UnstableWrite>,
    /// The lost stretches, by their first records.
    lost: BTreeSet<(RecordSeq, u64)>,
    /// The number of flushes begun.
    flushes: u64,
}

impl UnstableWrites {
    /// Returns the number of stretches.
    pub(crate) fn len(&self) -> usize {
        self.stretches.len()
    }

    /// Adds a stretch whose first write begins.
    pub(crate) fn add(&mut self, id: u64, job: WriteJob) {
        let stage = UnstableStage::InFlight;
        self.stretches.insert(id, UnstableWrite { job, stage });
    }

    /// Records that a write of a stretch succeeded. Returns true if the stretch is durable.
    pub(crate) fn end(&mut self, id: u64, end: JobEnd) -> bool {
        let Some(stretch) = self.stretches.get_mut(&id) else {
            return false;
        };
        match end {
            JobEnd::Written => stretch.stage = UnstableStage::Written(self.flushes),
            JobEnd::Durable => {
                self.stretches.remove(&id);
            }
            JobEnd::Lost => {
                stretch.stage = UnstableStage::Lost;
                self.lost.insert((stretch.job.first, id));
            }
        }
        end == JobEnd::Durable
    }

    /// Begins a flush, and returns its number.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }

    /// Removes the stretches that were written before a successful flush began. Returns their segments.
    pub(crate) fn flushed(&mut self, number: u64) -> Vec<SegmentSeq> {
        let mut segments = Vec::new();
        self.stretches.retain(|_, stretch| {
            let covered =
                matches!(stretch.stage, UnstableStage::Written(before) if before < number);
            if covered {
                segments.push(stretch.job.segment);
            }
            !covered
        });
        segments
    }

    /// Marks every stretch on the device as lost. Writes in flight end as [`JobEnd::Lost`].
    pub(crate) fn flush_failed(&mut self) {
        for (id, stretch) in &mut self.stretches {
            if let UnstableStage::Written(_) = stretch.stage {
                stretch.stage = UnstableStage::Lost;
                self.lost.insert((stretch.job.first, *id));
            }
        }
    }

    /// Returns the first record of the oldest lost stretch.
    pub(crate) fn first_lost(&self) -> Option<RecordSeq> {
        self.lost.first().map(|(record, _)| *record)
    }

    /// Takes the oldest lost stretch, to write it again.
    pub(crate) fn take_lost(&mut self) -> Option<(u64, WriteJob)> {
        let (_, id) = self.lost.pop_first()?;
        let stretch = self.stretches.get_mut(&id)?;
        stretch.stage = UnstableStage::InFlight;
        Some((id, stretch.job.clone()))
    }
}
