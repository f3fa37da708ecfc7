//! Replays a trace through a model.

use forebay_disk_model::disk::{DiskOp, DiskOptions, DiskSpec, MechanicalDisk};
use forebay_rt::Instant;
use forebay_sim::trace::MeasuredRequest;

use super::trace::op;

/// The meaning of the gap in a line of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum GapMeaning {
    /// Idle time before the line's own request
    Before,
    /// Idle time after the line's own request
    After,
}

impl GapMeaning {
    /// Returns the meaning in the known traces of the drive. The meaning depends on the program that recorded the
    /// traces.
    pub(crate) fn of(spec: &DiskSpec) -> GapMeaning {
        match spec.name() {
            "dec_rz26" => GapMeaning::After,
            name if name.starts_with("hp") => GapMeaning::After,
            _ => GapMeaning::Before,
        }
    }
}

/// Service times in milliseconds, sorted separately for reads and writes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SortedServiceTimes {
    reads: Vec<f64>,
    writes: Vec<f64>,
}

impl SortedServiceTimes {
    /// Sorts the times `ms` of the requests of `trace`, which are in the trace's order.
    pub(crate) fn new(trace: &[MeasuredRequest], ms: &[f64]) -> SortedServiceTimes {
        let mut sorted = SortedServiceTimes {
            reads: Vec::new(),
            writes: Vec::new(),
        };
        for (r, &ms) in trace.iter().zip(ms) {
            match op(r) {
                DiskOp::Read => sorted.reads.push(ms),
                DiskOp::Write => sorted.writes.push(ms),
            }
        }
        sorted.reads.sort_by(f64::total_cmp);
        sorted.writes.sort_by(f64::total_cmp);
        sorted
    }

    pub(crate) fn of(&self, op: DiskOp) -> Vec<f64> {
        match op {
            DiskOp::Read => self.reads.clone(),
            DiskOp::Write => self.writes.clone(),
        }
    }

    pub(crate) fn all(&self) -> Vec<f64> {
        let mut all = [&self.reads[..], &self.writes[..]].concat();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// Returns the model's service times of the requests, in milliseconds.
///
/// Each request is issued at its time on the real drive, or later when the previous request is done. So the rotational
/// position at each request depends on the starting phase throughout the trace.
pub(crate) fn replay(
    spec: &DiskSpec,
    options: DiskOptions,
    trace: &[MeasuredRequest],
    gap: GapMeaning,
) -> Vec<f64> {
    let mut disk = MechanicalDisk::new(spec.clone(), options);
    let mut done = Vec::new();
    let mut free = Instant::from_nanos(0);
    let mut real_us = 0.0;
    let mut times = Vec::with_capacity(trace.len());
    for (r, id) in trace.iter().zip(0..) {
        if gap == GapMeaning::Before {
            real_us += r.gap_us;
        }
        let issued = Instant::from_nanos((real_us * 1000.0) as u64).max(free);
        disk.submit(issued, id, op(r), r.first, r.blocks);
        while done.is_empty() {
            let next = disk.next_event().expect("a request is under way");
            disk.advance(next, &mut done);
        }
        free = done[0].at;
        done.clear();
        times.push(free.since(issued).as_secs_f64() * 1000.0);
        real_us += r.service_us;
        if gap == GapMeaning::After {
            real_us += r.gap_us;
        }
    }
    times
}
