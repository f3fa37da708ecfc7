//! The last minutes of a volume, and its present figures, as JSON for the page.
//!
//! The daemon takes a sample each second from its start, so the page shows the time before it was opened. The memory is
//! bounded: [`SAMPLES_MAX`] samples of a few numbers for each layer.

use std::collections::VecDeque;

use forebay_volume::{FlowCounters, LayerStatus, VolumeVitals};
use serde_json::{Value, json};

use crate::report::StatusReport;

/// Number of samples that are kept.
const SAMPLES_MAX: usize = 300;
/// Interval between two samples, in seconds.
pub(super) const SAMPLE_EVERY_S: u64 = 1;

/// The figures of the layers of a volume, from the uppermost layer down.
type LayerVitals = Vec<(&'static str, VolumeVitals)>;

/// The figures of one layer at one time.
struct LayerSample {
    /// Used share of the log or of the capacity; `None` if nothing is used up.
    used_share: Option<f64>,
    /// For each flow, requests per second, or else bytes per second.
    rates: Vec<f64>,
}

/// The figures of the last minutes.
#[derive(Default)]
pub(super) struct VitalsHistory {
    samples: VecDeque<Vec<LayerSample>>,
    newest: Option<(f64, LayerVitals)>,
}

/// Returns the figures of all layers.
fn vitals(status: &LayerStatus) -> LayerVitals {
    let layers = std::iter::successors(Some(status), |status| status.below());
    layers
        .map(|layer| (layer.kind().label, layer.vitals()))
        .collect()
}

/// Returns the main figure of a flow.
fn counted(flow: &FlowCounters) -> u64 {
    flow.bytes.or(flow.count).unwrap_or_default()
}

impl VitalsHistory {
    /// Adds a sample taken at `uptime_s`, in seconds since the start of the daemon.
    pub(super) fn push(&mut self, uptime_s: f64, status: &LayerStatus) {
        let now = vitals(status);
        let before = self.newest.take();
        if let Some((at, before)) = before {
            let seconds = (uptime_s - at).max(0.001);
            let pairs = now.iter().zip(&before);
            let layers = pairs.map(|((_, now), (_, before))| sample(now, before, seconds));
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(layers.collect());
        }
        self.newest = Some((uptime_s, now));
    }

    /// Returns the samples, the newest last: for each layer, the used shares and the rates of each flow.
    pub(super) fn json(&self) -> Value {
        let labels = self.newest.iter().flat_map(|(_, vitals)| vitals);
        let layers = labels.enumerate().map(|(at, (label, vitals))| {
            let samples = || self.samples.iter().filter_map(|layers| layers.get(at));
            let used: Vec<_> = samples().map(|layer| layer.used_share).collect();
            let rates = (0..vitals.flows.len()).map(|flow| {
                let rates = samples().map(|layer| layer.rates.get(flow).copied());
                rates.collect::<Vec<_>>()
            });
            json!({"label": label, "used_shares": used, "rates": rates.collect::<Vec<_>>()})
        });
        let layers: Vec<_> = layers.collect();
        json!({"every_s": SAMPLE_EVERY_S, "samples_max": SAMPLES_MAX, "layers": layers})
    }
}

fn sample(now: &VolumeVitals, before: &VolumeVitals, seconds: f64) -> LayerSample {
    let room = now.room;
    let used = room.used_bytes as f64 / room.bytes.max(1) as f64;
    let flows = now.flows.iter().zip(&before.flows);
    let rate = |(now, before): (&FlowCounters, &FlowCounters)| {
        counted(now).saturating_sub(counted(before)) as f64 / seconds
    };
    LayerSample {
        used_share: (room.bytes > 0).then_some(used.min(1.0)),
        rates: flows.map(rate).collect(),
    }
}

/// Returns the report with the figures of each layer, in one form for all kinds of volumes.
pub(super) fn present(report: &StatusReport) -> Value {
    let layers = vitals(&report.status)
        .into_iter()
        .map(|(label, vitals)| {
            let room = vitals.room;
            let flows = vitals.flows.iter().map(|flow| {
                json!({"name": flow.name, "count": flow.count, "bytes": flow.bytes, "latency": flow.latency})
            });
            json!({
                "label": label,
                "room": {
                    "name": room.name,
                    "bytes": room.bytes,
                    "used_bytes": room.used_bytes,
                    "head_bytes": room.head_bytes,
                },
                "flows": flows.collect::<Vec<_>>(),
            })
        });
    let summary = report.status.summary();
    json!({
        "report": report,
        "layers": layers.collect::<Vec<_>>(),
        "len_bytes": summary.len_bytes,
        "mode": summary.mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_tests::{example, example_with};

    #[test]
    fn samples_are_rates_since_the_sample_before_and_their_number_is_bounded() {
        let mut history = VitalsHistory::default();
        assert_eq!(history.json()["layers"], json!([]));
        history.push(1.0, &example().status);
        assert_eq!(history.json()["layers"][0]["used_shares"], json!([]));
        let later = example_with(&[("\"write_bytes\": 5", "\"write_bytes\": 1005")]);
        history.push(3.0, &later.status);
        let layer = history.json()["layers"][0].clone();
        assert_eq!(layer["label"], "cache");
        assert_eq!(layer["used_shares"], json!([0.03125]));
        let flows = later.status.vitals().flows;
        let writes = flows.iter().position(|flow| flow.name == "writes").unwrap();
        assert_eq!(layer["rates"][writes], json!([500.0]));
        // A counter that restarted gives no negative rate.
        history.push(4.0, &example().status);
        assert_eq!(
            history.json()["layers"][0]["rates"][writes],
            json!([500.0, 0.0])
        );
        for second in 0..2 * SAMPLES_MAX {
            history.push(5.0 + second as f64, &example().status);
        }
        let shares = history.json()["layers"][0]["used_shares"].clone();
        assert_eq!(shares.as_array().unwrap().len(), SAMPLES_MAX);
    }

    #[test]
    fn every_layer_has_its_figures_under_its_label() {
        let shown = present(&example());
        assert_eq!(shown["report"]["name"], "archive");
        assert_eq!(shown["layers"][0]["label"], "cache");
        assert_eq!(shown["layers"][0]["room"]["name"], "log");
        let flow = &shown["layers"][0]["flows"][1];
        assert_eq!(
            (&flow["name"], &flow["count"]),
            (&"writes".into(), &4.into())
        );
        assert_eq!(flow["latency"]["count"], 1);
    }
}
