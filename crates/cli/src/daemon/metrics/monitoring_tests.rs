//! The alert rules and the dashboard in `packaging/monitoring` agree with the metrics, and Prometheus accepts them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use forebay_volume::kind_specs;
use serde_json::Value;

use super::tests::layered;
use super::text;
use crate::report_tests::example;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring");

fn shipped(name: &str) -> String {
    fs::read_to_string(Path::new(DIR).join(name)).unwrap()
}

/// Returns the expressions of the dashboard, with Grafana's variables replaced as Grafana does.
fn dashboard_expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&shipped("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    let replaced = expressions.map(|expression| {
        expression
            .replace("$__rate_interval", "5m")
            .replace("$volume", "archive|thin")
    });
    replaced.collect()
}

/// Returns the names of metrics in a text: words that begin with `forebay_`.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    let metrics = words.filter(|word| word.starts_with("forebay_"));
    metrics.map(str::to_owned).collect()
}

/// Returns the values of the label `mode` in a text.
fn modes(text: &str) -> BTreeSet<String> {
    let after = text.split("mode=\"").skip(1);
    let values = after.filter_map(|rest| rest.split('"').next());
    values.map(str::to_owned).collect()
}

fn exported() -> String {
    let reports = layered().into_iter().chain([example()]);
    reports.map(|report| text(&report)).collect()
}

#[test]
fn alert_rules_and_dashboard_use_metrics_and_modes_that_exist() {
    let exported = exported();
    let (known, known_modes) = (names(&exported), modes(&exported));
    assert!(kind_specs().count() >= 3 && known.len() > 60, "{known:?}");
    for text in [
        shipped("forebay-alerts.yml"),
        dashboard_expressions().join("\n"),
    ] {
        let used = names(&text);
        assert!(used.len() >= 8, "{used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
        let unknown: Vec<_> = modes(&text).difference(&known_modes).cloned().collect();
        assert!(unknown.is_empty(), "no such modes: {unknown:?}");
    }
}

/// Runs `promtool`; `None` if it is missing.
fn promtool(args: &[&str], dir: &Path) -> Option<Output> {
    let output = Command::new("promtool")
        .args(args)
        .current_dir(dir)
        .output();
    if output.is_err() {
        println!("SKIPPED: promtool is missing");
    }
    output.ok()
}

fn assert_accepted(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{problems}");
}

#[test]
fn prometheus_accepts_the_alert_rules_and_the_expressions_of_the_dashboard() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("alerts.yml"), shipped("forebay-alerts.yml")).unwrap();
    // Each expression of the dashboard becomes a recording rule, so that promtool parses it.
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (n, expression) in dashboard_expressions().iter().enumerate() {
        let quoted = serde_json::to_string(expression).unwrap();
        rules.push_str(&format!(
            "      - record: panel:expression:{n}\n        expr: {quoted}\n"
        ));
    }
    fs::write(dir.path().join("dashboard.yml"), rules).unwrap();
    let checked = promtool(
        &["check", "rules", "alerts.yml", "dashboard.yml"],
        dir.path(),
    );
    if let Some(output) = checked {
        assert_accepted(&output);
    }
}

#[test]
fn a_failed_log_and_a_nearly_full_volume_raise_their_alerts_and_a_healthy_volume_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("alerts.yml"), shipped("forebay-alerts.yml")).unwrap();
    fs::write(dir.path().join("test.yml"), ALERT_TEST).unwrap();
    if let Some(output) = promtool(&["test", "rules", "test.yml"], dir.path()) {
        assert_accepted(&output);
    }
}

/// A test for promtool. Only labels of alerts are compared, so the annotations are absent.
const ALERT_TEST: &str = r#"
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'forebay_health_severity{volume="archive"}'
        values: '0 0 2x30'
      - series: 'forebay_health_severity{volume="thin"}'
        values: '1x32'
      - series: 'forebay_health_severity{volume="well"}'
        values: '0x32'
      - series: 'forebay_mode{volume="archive",layer="cache",mode="degraded"}'
        values: '0 0 1x30'
      - series: 'forebay_mode{volume="archive",layer="cache",mode="caching"}'
        values: '1 1 0x30'
      - series: 'forebay_mode{volume="thin",layer="volume",mode="nearly_full"}'
        values: '1x32'
      - series: 'forebay_mode{volume="well",layer="cache",mode="degraded"}'
        values: '0x32'
      - series: 'forebay_damaged_bytes{volume="well",layer="cache"}'
        values: '0x32'
      - series: 'forebay_throttled_seconds_total{volume="well",layer="cache"}'
        values: '0+1x32'
      - series: 'forebay_throttled_seconds_total{volume="archive",layer="cache"}'
        values: '0+30x32'
    promql_expr_test:
      - expr: count by (alertname, volume) (ALERTS{alertstate="firing"})
        eval_time: 1m
        exp_samples: []
      - expr: count by (alertname, volume) (ALERTS{alertstate="firing"})
        eval_time: 25m
        exp_samples:
          - labels: '{alertname="ForebayCritical", volume="archive"}'
            value: 1
          - labels: '{alertname="ForebayLogFailed", volume="archive"}'
            value: 1
          - labels: '{alertname="ForebayNearlyFull", volume="thin"}'
            value: 1
          - labels: '{alertname="ForebayWarning", volume="thin"}'
            value: 1
          - labels: '{alertname="ForebayWritesThrottled", volume="archive"}'
            value: 1
"#;
