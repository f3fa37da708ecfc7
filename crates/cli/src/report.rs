//! The report of a volume made of the layers there are; docs/status.md describes it.

use forebay_dcd::Status;

/// What `status --json` prints.
pub(crate) type Report = forebay_control::Report<Status>;
/// What a daemon answers.
pub(crate) type Reply = forebay_control::Reply<Status>;

#[cfg(test)]
pub(crate) mod tests {
    use forebay_control::{SCHEMA, Service};
    use forebay_dcd::{Latency, Mode};
    use forebay_device::{Field, Kind};

    use super::*;

    /// A report with something in every field.
    pub(crate) fn example() -> Report {
        let latency = Latency {
            count: 1,
            mean_us: 1.5,
            p50_us: 1,
            p90_us: 2,
            p99_us: 3,
            p999_us: 4,
            max_us: 5,
        };
        let status = Status {
            mode: Mode::Caching,
            mode_detail: None,
            len: 1 << 30,
            block_size: 512,
            log_bytes: 64 << 20,
            log_used_bytes: 2 << 20,
            dirty_bytes: 1 << 20,
            dirty_share: 0.03,
            drain_eta_s: Some(1.5),
            epoch: 1,
            map_bytes: 4096,
            map_bytes_max: 1 << 30,
            buffer_bytes: 8192,
            reads: 1,
            read_bytes: 2,
            read_hit_bytes: 3,
            writes: 4,
            write_bytes: 5,
            bypass_bytes: 6,
            flushes: 7,
            discards: 8,
            log_written_bytes: 9,
            destaged_bytes: 10,
            absorbed_bytes: 11,
            damaged_bytes: 12,
            unreadable_bytes: 0,
            refused_bytes: 4096,
            refused_ranges: vec![(8192, 4096)],
            data_errors: 13,
            throttled_s: 0.5,
            read_latency: latency,
            write_latency: latency,
            flush_latency: latency,
        };
        let service = Service {
            name: "archive".into(),
            volume: "00112233".into(),
            schema: SCHEMA,
            device: Some("/dev/loop0".into()),
            via: "loop".into(),
            ..Service::default()
        };
        Report { service, status }
    }

    #[test]
    fn a_report_reads_back_as_itself() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), example());
    }

    /// What docs/status.md says of a field's metric.
    fn metric(field: &Field) -> String {
        let name = field.name;
        match field.kind {
            Kind::Fact if name == "mode" => {
                "`forebay_mode{mode=\"…\"}` (gauge, 1 for the current mode, else 0)".into()
            }
            Kind::Fact => "—".into(),
            Kind::Gauge => format!("`forebay_{name}` (gauge)"),
            Kind::Counter => format!("`forebay_{name}_total` (counter)"),
            Kind::Latency => format!(
                "`forebay_{name}_us{{quantile=\"…\"}}` (gauge), `forebay_{name}_count_total` (counter)"
            ),
        }
    }

    #[test]
    fn every_field_of_a_report_is_documented_as_it_is_described() {
        let page = include_str!("../../../docs/status.md");
        let json = serde_json::to_value(example()).unwrap();
        let mut known: Vec<&String> = json.as_object().unwrap().keys().collect();
        for field in Service::FIELDS.iter().chain(Status::FIELDS) {
            let is_number = json[field.name].is_number();
            let measured = matches!(field.kind, Kind::Gauge | Kind::Counter);
            let exempt = ["schema", "pid"].contains(&field.name);
            assert!(is_number == measured || exempt, "{field:?}");
            let begin = format!("| `{}` | ", field.name);
            let (help, end) = (
                format!(" | {}", field.help),
                format!(" | {} |", metric(field)),
            );
            let mut rows = page.lines().filter(|line| line.starts_with(&begin));
            let is_so = |line: &str| line.contains(&help) && line.ends_with(&end);
            assert!(
                rows.any(is_so),
                "docs/status.md has no row \"{begin}…{help}{end}\""
            );
            known.retain(|name| *name != field.name);
        }
        assert!(known.is_empty(), "not described: {known:?}");
    }
}
