//! Prometheus metrics: the numbers of a report under their metric names.
//!
//! Names follow Prometheus' rules: base units, `_total` for counters, `_ratio` for shares, histograms for latencies.
//! The label `layer` distinguishes a cache from the log-structured volume below it.

use forebay_control::{DaemonStatus, ScrubStatus};
use forebay_device::{FieldKind, ReportField};
use forebay_volume::{HealthFinding, LATENCY_BOUNDS_US, LatencySummary, LayerStatus, VolumeHealth};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder as _, TextEncoder};
use serde_json::Value;

use crate::health;
use crate::report::StatusReport;

/// Formats the metrics of a scrape.
pub(super) fn text(report: &StatusReport) -> String {
    let mut families = MetricFamilies(Vec::new());
    let Ok(Value::Object(values)) = serde_json::to_value(report) else {
        return String::new();
    };
    let volume = ("volume", report.service.name.as_str());
    for field in DaemonStatus::FIELDS.iter().chain(ScrubStatus::FIELDS) {
        families.add(field, &[volume], &values[field.name]);
    }
    families.add_health(volume, &health::of_report(report));
    let (mut status, mut values) = (Some(&report.status), &Value::Object(values));
    while let Some(layer) = status {
        let labels = [volume, ("layer", layer.kind().label)];
        for field in layer.fields() {
            families.add(field, &labels, &values[field.name]);
        }
        families.add_modes(&labels, layer);
        (status, values) = (layer.below(), &values["below"]);
    }
    let mut out = Vec::new();
    match TextEncoder::new().encode(&families.0, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        // Writing to memory cannot fail, and each family has a sample.
        Err(_) => String::new(),
    }
}

/// Metrics by name, in the order of the report.
struct MetricFamilies(Vec<MetricFamily>);

impl MetricFamilies {
    /// Adds the number of a field, if it has one.
    fn add(&mut self, field: &ReportField, labels: MetricLabels<'_>, value: &Value) {
        let Some(name) = field.metric_name() else {
            return;
        };
        let mut metric = metric(labels);
        let kind = match (field.kind, value.as_f64()) {
            (FieldKind::Gauge, Some(value)) => {
                metric.set_gauge(gauge(value));
                MetricType::GAUGE
            }
            (FieldKind::Counter, Some(value)) => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
                MetricType::COUNTER
            }
            (FieldKind::Latency, _) => {
                let Ok(latency) = serde_json::from_value(value.clone()) else {
                    return;
                };
                metric.set_histogram(histogram(&latency));
                MetricType::HISTOGRAM
            }
            // The value is unknown at present.
            _ => return,
        };
        self.family(&name, field.help, kind)
            .mut_metric()
            .push(metric);
    }

    /// Adds a sample for each possible health of a volume, and its severity.
    fn add_health(&mut self, volume: (&str, &str), found: &HealthFinding) {
        let name = "forebay_health_severity";
        let help = "Severity of the health: 0 ok, 1 warning, 2 critical";
        let mut severity = metric(&[volume]);
        severity.set_gauge(gauge(f64::from(found.health.severity() as u8)));
        let family = self.family(name, help, MetricType::GAUGE);
        family.mut_metric().push(severity);
        for health in VolumeHealth::of_attached() {
            let mut metric = metric(&[volume, ("health", health.name())]);
            metric.set_gauge(gauge(f64::from(u8::from(health == found.health))));
            let help = "1 for the current health";
            let family = self.family("forebay_health", help, MetricType::GAUGE);
            family.mut_metric().push(metric);
        }
    }

    /// Adds a sample for each possible mode of a layer.
    fn add_modes(&mut self, labels: MetricLabels<'_>, layer: &LayerStatus) {
        let summary = layer.summary();
        for mode in summary.modes {
            let labels = [labels, &[("mode", mode)]].concat();
            let mut metric = metric(&labels);
            metric.set_gauge(gauge(f64::from(u8::from(mode == summary.mode))));
            let family = self.family("forebay_mode", "1 for the current mode", MetricType::GAUGE);
            family.mut_metric().push(metric);
        }
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType) -> &mut MetricFamily {
        let at = self.0.iter().position(|family| family.name() == name);
        let at = at.unwrap_or_else(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(kind);
            self.0.push(family);
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

type MetricLabels<'a> = &'a [(&'a str, &'a str)];

fn metric(labels: MetricLabels<'_>) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}

fn gauge(value: f64) -> Gauge {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    gauge
}

fn histogram(latency: &LatencySummary) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.set_sample_count(latency.count);
    histogram.set_sample_sum(latency.count as f64 * latency.mean_us / 1e6);
    let buckets = LATENCY_BOUNDS_US.iter().zip(latency.buckets);
    let buckets = buckets.map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound as f64 / 1e6);
        bucket.set_cumulative_count(count);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    histogram
}

#[cfg(test)]
mod monitoring_tests;

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use forebay_volume::{FilesFacts, SpaceStatus};

    use super::*;
    use crate::report_tests::example;

    #[test]
    fn each_number_of_the_report_is_a_metric_with_its_metric_name() {
        let text = text(&example());
        let status = example().status;
        let of_daemon = DaemonStatus::FIELDS.iter().chain(ScrubStatus::FIELDS);
        let of_daemon = of_daemon.map(|field| (field, ""));
        let of_layer = status
            .fields()
            .iter()
            .map(|field| (field, ",layer=\"cache\""));
        for (field, layer) in of_daemon.chain(of_layer) {
            let Some(name) = field.metric_name() else {
                continue;
            };
            let sample = match field.kind {
                FieldKind::Latency => format!("\n{name}_count{{volume=\"archive\"{layer}}} "),
                _ => format!("\n{name}{{volume=\"archive\"{layer}}} "),
            };
            assert!(text.contains(&sample), "{sample}: {text}");
        }
        let mode = "\nforebay_mode{volume=\"archive\",layer=\"cache\",mode=\"caching\"} 1\n";
        assert!(text.contains(mode), "{text}");
    }

    #[test]
    fn latencies_are_histograms_in_seconds() {
        let text = text(&example());
        let bucket = "\nforebay_read_latency_seconds_bucket{volume=\"archive\",layer=\"cache\",le=\"+Inf\"} ";
        assert!(text.contains(bucket), "{text}");
        assert!(
            text.contains("\n# TYPE forebay_read_latency_seconds histogram\n"),
            "{text}"
        );
        let (_, below) = text.split_once("le=\"0.00001\"} ").unwrap();
        assert!(
            below.starts_with(|digit: char| digit.is_ascii_digit()),
            "{text}"
        );
    }

    /// Reports of a cache over a log-structured volume, and of a filesystem.
    pub(super) fn layered() -> [StatusReport; 2] {
        let json = |value: serde_json::Result<Value>, label: &str| {
            let mut json = value.unwrap();
            json["layer"] = label.into();
            json
        };
        let mut cache = serde_json::to_value(example().status).unwrap();
        let mut files = json(serde_json::to_value(FilesFacts::default()), "filesystem");
        for upper in [&mut cache, &mut files] {
            upper["below"] = json(serde_json::to_value(SpaceStatus::default()), "volume");
        }
        [cache, files].map(|status| StatusReport {
            status: serde_json::from_value(status).unwrap(),
            ..example()
        })
    }

    #[test]
    fn metrics_of_the_lower_layer_have_its_label_in_the_same_family() {
        for report in layered() {
            let text = text(&report);
            let upper = report.status.kind().label;
            for layer in [upper, "volume"] {
                let sample =
                    format!("\nforebay_writes_total{{volume=\"archive\",layer=\"{layer}\"}} ");
                assert!(text.contains(&sample), "{layer}: {text}");
            }
            assert_eq!(
                text.matches("# TYPE forebay_writes_total counter").count(),
                1
            );
        }
    }

    #[test]
    fn promtool_accepts_the_metrics_of_every_kind_of_volume() {
        for report in layered().into_iter().chain([example()]) {
            let promtool = Command::new("promtool")
                .args(["check", "metrics"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut promtool) = promtool else {
                println!("SKIPPED: promtool is missing");
                return;
            };
            let text = text(&report);
            promtool
                .stdin
                .take()
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            let output = promtool.wait_with_output().unwrap();
            let problems = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && problems.is_empty(),
                "{problems}\n{text}"
            );
        }
    }

    /// The rules of `promtool check metrics` that names can break, for a system without that program.
    #[test]
    fn names_have_base_units_and_one_type_each() {
        let text = text(&example());
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut names: Vec<&str> = Vec::new();
        for line in types {
            let (name, kind) = line.split_once(' ').unwrap();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            let ends = ["_s", "_us", "_share", "_percent", "_count", "_sum", "_len"];
            assert!(!ends.iter().any(|end| name.ends_with(end)), "{line}");
            assert!(!names.contains(&name), "{name} twice");
            names.push(name);
        }
        assert!(names.len() > 30, "{names:?}");
    }
}
