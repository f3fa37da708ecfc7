//! The values of volumes over the last minutes, and the selected volume.
//!
//! This module uses neither a clock nor a terminal: the time is that of the reports, and keys are already decoded.

use std::collections::VecDeque;

use forebay_volume::{FlowCounters, VolumeVitals};

use crate::report::StatusReport;

/// Time for which values are kept, in seconds. Each second has one value.
pub(super) const KEPT: usize = 300;

/// The result of one request to all volumes.
#[derive(Debug, Default)]
pub(crate) struct StatusSample {
    /// Reports of the attached volumes.
    pub(crate) reports: Vec<StatusReport>,
    /// Additional notes for the user.
    pub(crate) notes: Vec<String>,
}

/// Values, one per second; `None` for a second without a measurement.
#[derive(Default)]
pub(super) struct TimeSeries {
    values: VecDeque<Option<f64>>,
    /// Number of values ever added.
    taken: usize,
}

impl TimeSeries {
    fn push(&mut self, value: Option<f64>) {
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
        self.taken += 1;
    }

    /// Returns the newest value.
    pub(super) fn last(&self) -> Option<f64> {
        self.values.back().copied().flatten()
    }

    /// Returns all kept values in `count` columns, each the mean of some seconds, the newest last. A second stays in
    /// its column as time passes, so that columns move and do not flicker.
    pub(super) fn columns(&self, count: usize) -> Vec<Option<f64>> {
        let each = KEPT.div_ceil(count.max(1));
        let newest = self.taken.saturating_sub(1) / each;
        let mut columns = vec![(0.0, 0u32); count];
        for (ago, value) in self.values.iter().rev().enumerate() {
            let column = (self.taken - 1 - ago) / each;
            let place = count.checked_sub(newest - column + 1);
            if let (Some(place), Some(value)) = (place, value) {
                let (sum, seconds) = &mut columns[place];
                *sum += value;
                *seconds += 1;
            }
        }
        let mean = |(sum, seconds): (f64, u32)| (seconds > 0).then(|| sum / f64::from(seconds));
        columns.into_iter().map(mean).collect()
    }
}

/// A flow of requests over time.
#[derive(Default)]
pub(super) struct FlowHistory {
    /// The counters since attach.
    pub(super) flow: FlowCounters,
    /// Requests per second.
    pub(super) counts: TimeSeries,
    /// Bytes per second.
    pub(super) bytes: TimeSeries,
    /// Mean latency in microseconds.
    pub(super) mean_us: TimeSeries,
}

impl FlowHistory {
    fn take(&mut self, now: &FlowCounters, span: f64) {
        let before = std::mem::replace(&mut self.flow, *now);
        let rate = |now: Option<u64>, before: Option<u64>| {
            Some(now?.saturating_sub(before?) as f64 / span)
        };
        self.counts.push(rate(now.count, before.count));
        self.bytes.push(rate(now.bytes, before.bytes));
        let sum = |flow: FlowCounters| {
            let latency = flow.latency?;
            Some((latency.count, latency.mean_us * latency.count as f64))
        };
        let mean = sum(*now).zip(sum(before)).and_then(|(now, before)| {
            let count = now.0.checked_sub(before.0).filter(|count| *count > 0)?;
            Some((now.1 - before.1).max(0.0) / count as f64)
        });
        self.mean_us.push(mean);
    }
}

/// A volume over time.
pub(super) struct VolumeHistory {
    pub(super) report: StatusReport,
    pub(super) vitals: VolumeVitals,
    /// The volume is no longer attached; the other fields are its last state.
    pub(super) gone: bool,
    /// Used share of the capacity, 0 to 1.
    pub(super) filled: TimeSeries,
    pub(super) flows: Vec<FlowHistory>,
}

impl VolumeHistory {
    fn new(report: StatusReport) -> VolumeHistory {
        let vitals = report.status.vitals();
        let flows = vitals.flows.iter().map(|flow| FlowHistory {
            flow: *flow,
            ..FlowHistory::default()
        });
        let mut history = VolumeHistory {
            flows: flows.collect(),
            report,
            vitals,
            gone: false,
            filled: TimeSeries::default(),
        };
        history.note_fill();
        history
    }

    fn note_fill(&mut self) {
        let room = &self.vitals.room;
        let filled = room.used_bytes as f64 / room.bytes.max(1) as f64;
        self.filled.push(Some(filled));
    }

    fn take(&mut self, report: StatusReport) {
        self.gone = false;
        let (now, before) = (&report.service, &self.report.service);
        let span = now.uptime_s - before.uptime_s;
        if now.pid != before.pid || span < 0.0 {
            // Attached anew: its counters start at 0.
            *self = VolumeHistory::new(report);
            return;
        }
        if span == 0.0 {
            return;
        }
        self.vitals = report.status.vitals();
        self.report = report;
        self.note_fill();
        for (flow, now) in self.flows.iter_mut().zip(&self.vitals.flows) {
            flow.take(now, span);
        }
    }
}

/// The meaning of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WatchKey {
    /// Selects the next volume.
    Next,
    /// Selects the previous volume.
    Previous,
    /// Ends the program.
    Quit,
}

/// All shown data.
#[derive(Default)]
pub(super) struct WatchView {
    /// The volumes, sorted by name.
    volumes: Vec<VolumeHistory>,
    /// The id of the selected volume.
    shown: String,
    notes: Vec<String>,
    /// The user has quit.
    pub(super) ended: bool,
}

impl WatchView {
    /// Records a new result.
    pub(super) fn take(&mut self, seen: StatusSample) {
        self.notes = seen.notes;
        for volume in &mut self.volumes {
            volume.gone = true;
        }
        for report in seen.reports {
            let id = &report.service.volume;
            let known = |volume: &&mut VolumeHistory| volume.report.service.volume == *id;
            match self.volumes.iter_mut().find(known) {
                Some(volume) => volume.take(report),
                None => self.volumes.push(VolumeHistory::new(report)),
            }
        }
        let name = |volume: &VolumeHistory| volume.report.service.name.clone();
        self.volumes.sort_by_key(name);
        if let (None, Some(first)) = (self.place(), self.volumes.first()) {
            self.shown = first.report.service.volume.clone();
        }
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: WatchKey) {
        let count = self.volumes.len();
        let step = match key {
            WatchKey::Quit => {
                self.ended = true;
                return;
            }
            WatchKey::Next => 1,
            WatchKey::Previous => count.saturating_sub(1),
        };
        if let Some(place) = self.place() {
            let next = &self.volumes[(place + step) % count];
            self.shown = next.report.service.volume.clone();
        }
    }

    fn place(&self) -> Option<usize> {
        let ids = self.volumes.iter();
        let mut ids = ids.map(|volume| &volume.report.service.volume);
        ids.position(|id| *id == self.shown)
    }

    /// Returns the selected volume, its number (from 1), and the number of volumes.
    pub(super) fn volume(&self) -> Option<(&VolumeHistory, usize, usize)> {
        let place = self.place()?;
        Some((&self.volumes[place], place + 1, self.volumes.len()))
    }

    /// Returns additional notes for the user.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report_tests::example_with;

    /// Returns the example report at `second` seconds after the attach, with `writes` writes of 4 KiB and 2 ms each.
    pub(in crate::watch) fn at(second: u32, writes: u64) -> StatusReport {
        let latency = format!("\"count\": {writes}, \"mean_us\": 2000.0");
        example_with(&[
            ("\"uptime_s\": 1.5", &format!("\"uptime_s\": {second}.5")),
            ("\"writes\": 4", &format!("\"writes\": {writes}")),
            (
                "\"write_bytes\": 5",
                &format!("\"write_bytes\": {}", writes * 4096),
            ),
            ("\"count\": 1, \"mean_us\": 1.5", &latency),
        ])
    }

    pub(in crate::watch) fn seen(reports: Vec<StatusReport>) -> StatusSample {
        let notes = Vec::new();
        StatusSample { reports, notes }
    }

    fn named(name: &str, mut report: StatusReport) -> StatusReport {
        report.service.name = name.into();
        report.service.volume = format!("id of {name}");
        report
    }

    #[test]
    fn rates_and_latencies_are_those_of_the_last_second() {
        let mut view = WatchView::default();
        view.take(seen(vec![at(1, 100)]));
        let flow = |view: &WatchView| {
            let writes = &view.volume().unwrap().0.flows[1];
            let last = [&writes.counts, &writes.bytes, &writes.mean_us].map(TimeSeries::last);
            (writes.flow.name, last)
        };
        assert_eq!(flow(&view), ("writes", [None; 3]));
        view.take(seen(vec![at(3, 160)]));
        let expected = [Some(30.0), Some(30.0 * 4096.0), Some(2000.0)];
        assert_eq!(flow(&view), ("writes", expected));
        // A second without writes has no latency. A second report of the same moment adds no value.
        view.take(seen(vec![at(4, 160)]));
        view.take(seen(vec![at(4, 160)]));
        assert_eq!(flow(&view).1, [Some(0.0), Some(0.0), None]);
        assert_eq!(view.volume().unwrap().0.filled.values.len(), 3);
    }

    #[test]
    fn a_detached_volume_keeps_its_last_values_and_a_new_attach_starts_a_new_history() {
        let mut view = WatchView::default();
        view.take(seen(vec![at(50, 100)]));
        view.take(seen(vec![]));
        let (volume, ..) = view.volume().unwrap();
        assert!(volume.gone && volume.report == at(50, 100));
        let mut anew = at(1, 7);
        anew.service.pid = 8;
        view.take(seen(vec![anew]));
        let (volume, ..) = view.volume().unwrap();
        assert!(!volume.gone && volume.flows[1].counts.values.is_empty());
    }

    #[test]
    fn keys_cycle_through_volumes_by_name_and_a_new_volume_keeps_the_selection() {
        let mut view = WatchView::default();
        view.press(WatchKey::Next);
        assert!(view.volume().is_none());
        view.take(seen(vec![named("m", at(1, 1)), named("z", at(1, 1))]));
        let name = |view: &WatchView| {
            let (volume, place, count) = view.volume().unwrap();
            (volume.report.service.name.clone(), place, count)
        };
        assert_eq!(name(&view), ("m".into(), 1, 2));
        view.take(seen(vec![named("a", at(1, 1)), named("m", at(2, 1))]));
        assert_eq!(name(&view), ("m".into(), 2, 3));
        view.press(WatchKey::Next);
        assert_eq!(name(&view), ("z".into(), 3, 3));
        view.press(WatchKey::Next);
        assert_eq!(name(&view), ("a".into(), 1, 3));
        view.press(WatchKey::Previous);
        assert_eq!(name(&view), ("z".into(), 3, 3));
        view.press(WatchKey::Quit);
        assert!(view.ended);
    }

    #[test]
    fn columns_cover_the_last_minutes_at_any_width() {
        let mut series = TimeSeries::default();
        assert_eq!(series.columns(3), [None; 3]);
        series.push(Some(4.0));
        assert_eq!(series.columns(3), [None, None, Some(4.0)]);
        assert!(series.columns(0).is_empty());
        for n in 1..100 {
            series.push((n % 2 == 0).then_some(4.0));
        }
        // The first hundred seconds form one column of three; the next second begins another.
        assert_eq!(series.columns(3), [None, None, Some(4.0)]);
        series.push(Some(8.0));
        assert_eq!(series.columns(3), [None, Some(4.0), Some(8.0)]);
        for _ in 0..1000 {
            series.push(Some(1.0));
        }
        assert_eq!(series.values.len(), KEPT);
        let wide = series.columns(400);
        assert_eq!(
            (wide[99], wide[100], wide[399]),
            (None, Some(1.0), Some(1.0))
        );
    }
}
