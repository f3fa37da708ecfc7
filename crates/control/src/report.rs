//! The state of a volume, as `status --json` prints it: the stable form of the data of the daemon and of the volume's
//! layers. docs/status.md describes it.

use forebay_device::described;
use serde::{Deserialize, Serialize};

/// The version of this form. It changes when a field is removed or changes its meaning, not when a field is added.
pub const SCHEMA: u32 = 1;

described! {
    /// The daemon's data about itself and its service.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct DaemonStatus {
        Fact name: String = "The name",
        Fact volume: String = "The id",
        Fact schema: u32 = "The version of this form: 1",
        Fact program_version: String = "The version of the daemon",
        Fact pid: u32 = "The daemon",
        Gauge uptime_s: f64 = "Time the volume has been attached, in seconds",
        Fact data: String = "The data device, as it was named",
        Fact log: Option<String> = "The log device, as it was named; none of a volume without one",
        Fact via: String = "What makes the block device: `ublk`, `loop`, `nbd`, `none`; `mount` of a filesystem",
        Fact device: Option<String> = "The block device: `/dev/forebay/NAME`, or as in `kernel_device` where that link is missing; null while this daemon has none",
        #[serde(default)]
        Fact kernel_device: Option<String> = "The block device as the kernel names it (`/dev/loop0`): the name may be another after each attach",
        #[serde(default)]
        Fact no_device: Option<String> = "Why there is no block device any more, or no link to it",
        #[serde(default)]
        Fact mounted: Option<String> = "Where a filesystem is mounted; null once it is unmounted, while somebody still uses it or it is being closed",
        #[serde(default)]
        Fact requests_by: Option<String> = "How its requests come from the kernel: `/dev/fuse`, or `io_uring` where that is switched on",
        Fact nbd_uri: Option<String> = "Where NBD clients connect; none of a filesystem",
        #[serde(default)]
        Fact http: Option<String> = "Where the page that shows all this is given out, with `--http`",
        Gauge nbd_connections: u64 = "NBD clients connected; with `via` `nbd` the kernel is one",
        #[serde(default)]
        Gauge foreign_loop_devices: u64 = "Loop devices that others put over the data or log device",
        #[serde(default)]
        Fact foreign_loops: Vec<String> = "Which, one sentence each: whatever is written there damages the volume",
        #[serde(default)]
        Fact cut_short: Vec<String> = "Devices of the volume that became shorter while it was attached, one sentence each: what lay beyond is lost",
        Gauge request_bytes: u64 = "Memory of request buffers, used or kept for the next, in bytes",
        Gauge request_bytes_max: u64 = "Bound on the memory of request buffers, in bytes",
    }
}

impl DaemonStatus {
    /// Returns true for a filesystem, even if it is no longer mounted.
    pub fn is_filesystem(&self) -> bool {
        self.via == "mount"
    }
}

/// A report of a volume: the data of its daemon, and the status `S` of its layers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeReport<S> {
    /// The data of the daemon.
    #[serde(flatten)]
    pub service: DaemonStatus,
    /// The status of the layers.
    #[serde(flatten)]
    pub status: S,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_single_json_object_with_all_fields_and_parses_back() {
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        struct ReportTestStatus {
            dirty_bytes: u64,
        }
        let report = VolumeReport {
            service: DaemonStatus {
                name: "archive".into(),
                schema: SCHEMA,
                ..DaemonStatus::default()
            },
            status: ReportTestStatus { dirty_bytes: 7 },
        };
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.starts_with(r#"{"name":"archive","#), "{json}");
        assert!(json.ends_with(r#","dirty_bytes":7}"#), "{json}");
        assert_eq!(
            serde_json::from_str::<VolumeReport<ReportTestStatus>>(&json).unwrap(),
            report
        );
    }
}
