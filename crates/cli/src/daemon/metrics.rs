//! Prometheus metrics over HTTP: the numbers of a report under their names, and nothing else.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use forebay_control::Service;
use forebay_device::{BufMut, Field, Kind};
use forebay_os::{Listener, Stream};
use forebay_stack::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::Daemon;
use crate::report::Report;

/// Clients at a time; the next is closed at once.
const CLIENTS_MAX: usize = 8;
/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// How long a client may take for its request and for the answer, each.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait when the process has no descriptor left for a client.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Takes clients for ever.
pub(super) async fn listen(daemon: Rc<Daemon>, listener: Listener) {
    let clients = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok(_) if clients.get() >= CLIENTS_MAX => {}
            Ok(stream) => {
                let (daemon, clients) = (Rc::clone(&daemon), Rc::clone(&clients));
                clients.set(clients.get() + 1);
                let rt = daemon.rt.clone();
                rt.spawn(async move {
                    serve(&daemon, &stream).await;
                    clients.set(clients.get() - 1);
                })
                .detach();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take a metrics client");
                daemon.rt.sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

async fn serve(daemon: &Daemon, stream: &Stream) {
    let request = daemon.rt.timeout(PATIENCE, receive(stream)).await;
    let Ok(Some(request)) = request else { return };
    let response = respond(&request, || daemon.report());
    let send = stream.send(BufMut::copy_of(response.as_bytes()).freeze());
    let _ = daemon.rt.timeout(PATIENCE, send).await;
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// The request's head; `None` if there is none of reasonable length.
async fn receive(stream: &Stream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let room = REQUEST_BYTES_MAX
            .checked_sub(request.len())
            .filter(|n| *n > 0)?;
        let (buf, n) = stream.recv(BufMut::zeroed(room)).await.ok()?;
        if n == 0 {
            return None;
        }
        request.extend_from_slice(&buf[..n]);
        if request.windows(4).any(|window| window == b"\r\n\r\n") {
            return Some(request);
        }
    }
}

fn respond(request: &[u8], report: impl FnOnce() -> Report) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or(&[]);
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    let (status, body) = match (method, path) {
        _ if !is_http => ("400 Bad Request", String::new()),
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", text(report())),
        (Some(b"GET"), _) => ("404 Not Found", "see /metrics\n".into()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
         charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The metrics of one scrape.
fn text(report: Report) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(report)));
    let mut out = String::new();
    match prometheus_client::encoding::text::encode(&mut out, &registry) {
        Ok(()) => out,
        // Writing to a string cannot fail.
        Err(fmt::Error) => String::new(),
    }
}

/// A report as metrics.
#[derive(Debug)]
struct Snapshot(Report);

impl Collector for Snapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(Value::Object(values)) = serde_json::to_value(&self.0) else {
            return Err(fmt::Error);
        };
        let volume = ("volume", self.0.service.name.as_str());
        let status = &self.0.status;
        for field in Service::FIELDS.iter().chain(status.fields()) {
            let value = &values[field.name];
            match field.kind {
                Kind::Fact => {}
                Kind::Gauge | Kind::Counter => {
                    if let Some(value) = value.as_f64() {
                        let name = format!("forebay_{}", field.name);
                        let samples = [(&[volume][..], value)];
                        sample(&mut to, &name, field.help, field.kind, &samples)?;
                    }
                }
                Kind::Latency => latency(&mut to, field, volume, value)?,
            }
        }
        modes(&mut to, volume, status)
    }
}

/// One sample for each mode there is.
fn modes(
    to: &mut DescriptorEncoder<'_>,
    volume: Label<'_>,
    status: &Status,
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
    sample(to, "forebay_mode", help, Kind::Gauge, &modes)
}

/// The quantiles of a latency, and how many there were.
const QUANTILES: [(&str, &str); 5] = [
    ("0.5", "p50_us"),
    ("0.9", "p90_us"),
    ("0.99", "p99_us"),
    ("0.999", "p999_us"),
    ("1", "max_us"),
];

fn latency(
    to: &mut DescriptorEncoder<'_>,
    field: &Field,
    volume: Label<'_>,
    latency: &Value,
) -> Result<(), fmt::Error> {
    let value = |key: &str| latency[key].as_f64().unwrap_or(0.0);
    let samples = QUANTILES.map(|(quantile, key)| ([volume, ("quantile", quantile)], value(key)));
    let samples: Vec<_> = samples
        .iter()
        .map(|(labels, v)| (&labels[..], *v))
        .collect();
    let name = format!("forebay_{}_us", field.name);
    let help = "Latency in microseconds";
    sample(to, &name, help, Kind::Gauge, &samples)?;
    let count = [(&[volume][..], value("count"))];
    let name = format!("forebay_{}_count", field.name);
    sample(to, &name, "Requests measured", Kind::Counter, &count)
}

type Label<'a> = (&'a str, &'a str);
type Labels<'a> = &'a [Label<'a>];

/// One metric with all its samples.
fn sample(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: Kind,
    samples: &[(Labels<'_>, f64)],
) -> Result<(), fmt::Error> {
    let counts = kind == Kind::Counter;
    let metric_type = match counts {
        true => MetricType::Counter,
        false => MetricType::Gauge,
    };
    let mut metric = to.encode_descriptor(name, help, None, metric_type)?;
    for (labels, value) in samples {
        let family = metric.encode_family(labels)?;
        match counts {
            true => ConstCounter::new(*value).encode(family)?,
            false => ConstGauge::new(*value).encode(family)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn every_number_is_given_out_under_its_name() {
        let response = respond(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", example);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        let status = example().status;
        for field in Service::FIELDS.iter().chain(status.fields()) {
            let total = match field.kind {
                Kind::Gauge => "",
                Kind::Counter => "_total",
                Kind::Fact | Kind::Latency => continue,
            };
            let sample = format!("\nforebay_{}{total}{{volume=\"archive\"}} ", field.name);
            assert!(response.contains(&sample), "{sample}: {response}");
        }
        assert!(response.contains("mode=\"caching\"} 1.0\n"), "{response}");
        assert!(
            response.contains("forebay_read_latency_us{volume=\"archive\",quantile=\"0.99\"} 3.0")
        );
        assert!(response.ends_with("# EOF\n"));
    }

    #[test]
    fn other_requests_get_an_error_and_no_report() {
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ] {
            let response = respond(request, || unreachable!("no report is made"));
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status}")),
                "{response}"
            );
        }
    }
}
