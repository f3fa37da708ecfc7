//! Prometheus metrics: the numbers of a report under their names, and nothing else.

use std::fmt;

use forebay_control::DaemonStatus;
use forebay_device::{FieldKind, ReportField};
use forebay_volume::LayerStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use forebay_program::report::StatusReport;

/// Formats the metrics of a scrape.
pub(super) fn text(report: StatusReport) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(MetricsSnapshot(report)));
    let mut out = String::new();
    match prometheus_client::encoding::text::encode(&mut out, &registry) {
        Ok(()) => out,
        // Writing to a string cannot fail.
        Err(fmt::Error) => String::new(),
    }
}

/// A report as metrics.
#[derive(Debug)]
struct MetricsSnapshot(StatusReport);

impl Collector for MetricsSnapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(Value::Object(values)) = serde_json::to_value(&self.0) else {
            return Err(fmt::Error);
        };
        let volume = ("volume", self.0.service.name.as_str());
        let status = &self.0.status;
        for field in DaemonStatus::FIELDS.iter().chain(status.fields()) {
            metric(&mut to, "forebay", field, volume, &values[field.name])?;
        }
        modes(&mut to, "forebay", volume, status)?;
        if let Some(below) = status.below() {
            for field in below.fields() {
                let value = &values["below"][field.name];
                metric(&mut to, "forebay_below", field, volume, value)?;
            }
            modes(&mut to, "forebay_below", volume, below)?;
        }
        Ok(())
    }
}

/// Encodes a number of a report; `of` names its source.
fn metric(
    to: &mut DescriptorEncoder<'_>,
    of: &str,
    field: &ReportField,
    volume: MetricLabel<'_>,
    value: &Value,
) -> Result<(), fmt::Error> {
    match field.kind {
        FieldKind::Fact => Ok(()),
        FieldKind::Gauge | FieldKind::Counter => match value.as_f64() {
            Some(value) => {
                let name = format!("{of}_{}", field.name);
                let samples = [(&[volume][..], value)];
                sample(to, &name, field.help, field.kind, &samples)
            }
            None => Ok(()),
        },
        FieldKind::Latency => latency(to, of, field, volume, value),
    }
}

/// Encodes a sample for each possible mode.
fn modes(
    to: &mut DescriptorEncoder<'_>,
    of: &str,
    volume: MetricLabel<'_>,
    status: &LayerStatus,
) -> Result<(), fmt::Error> {
    let is = |mode| f64::from(u8::from(mode == status.mode()));
    let modes = status.modes().into_iter();
    let modes: Vec<_> = modes
        .map(|mode| ([volume, ("mode", mode)], is(mode)))
        .collect();
    let modes: Vec<_> = modes
        .iter()
        .map(|(labels, is)| (&labels[..], *is))
        .collect();
    let help = "1 for the current mode";
    sample(to, &format!("{of}_mode"), help, FieldKind::Gauge, &modes)
}

/// The quantiles of a latency.
const QUANTILES: [(&str, &str); 5] = [
    ("0.5", "p50_us"),
    ("0.9", "p90_us"),
    ("0.99", "p99_us"),
    ("0.999", "p999_us"),
    ("1", "max_us"),
];

fn latency(
    to: &mut DescriptorEncoder<'_>,
    of: &str,
    field: &ReportField,
    volume: MetricLabel<'_>,
    latency: &Value,
) -> Result<(), fmt::Error> {
    let value = |key: &str| latency[key].as_f64().unwrap_or(0.0);
    let samples = QUANTILES.map(|(quantile, key)| ([volume, ("quantile", quantile)], value(key)));
    let samples: Vec<_> = samples
        .iter()
        .map(|(labels, v)| (&labels[..], *v))
        .collect();
    let name = format!("{of}_{}_us", field.name);
    let help = "Latency in microseconds";
    sample(to, &name, help, FieldKind::Gauge, &samples)?;
    let count = [(&[volume][..], value("count"))];
    let name = format!("{of}_{}_count", field.name);
    sample(to, &name, "Requests measured", FieldKind::Counter, &count)
}

type MetricLabel<'a> = (&'a str, &'a str);
type MetricLabels<'a> = &'a [MetricLabel<'a>];

/// Encodes a metric with all its samples.
fn sample(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: FieldKind,
    samples: &[(MetricLabels<'_>, f64)],
) -> Result<(), fmt::Error> {
    let counts = kind == FieldKind::Counter;
    let metric_type = if counts {
        MetricType::Counter
    } else {
        MetricType::Gauge
    };
    let mut metric = to.encode_descriptor(name, help, None, metric_type)?;
    for (labels, value) in samples {
        let family = metric.encode_family(labels)?;
        if counts {
            ConstCounter::new(*value).encode(family)?
        } else {
            ConstGauge::new(*value).encode(family)?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_tests::example;

    #[test]
    fn every_number_of_the_report_is_a_metric_with_its_name() {
        let text = text(example());
        let status = example().status;
        for field in DaemonStatus::FIELDS.iter().chain(status.fields()) {
            let total = match field.kind {
                FieldKind::Gauge => "",
                FieldKind::Counter => "_total",
                FieldKind::Fact | FieldKind::Latency => continue,
            };
            let sample = format!("\nforebay_{}{total}{{volume=\"archive\"}} ", field.name);
            assert!(text.contains(&sample), "{sample}: {text}");
        }
        assert!(text.contains("mode=\"caching\"} 1.0\n"), "{text}");
        assert!(text.contains("forebay_read_latency_us{volume=\"archive\",quantile=\"0.99\"} 3.0"));
        assert!(text.ends_with("# EOF\n"));
    }
}
