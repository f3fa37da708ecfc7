//! The state of a volume, as `status --json` prints it: the stable form of the data of the daemon and of the volume's
//! layers. docs/status.md describes it.

use forebay_device::described;
use serde::{Deserialize, Serialize};

use crate::scrub::ScrubStatus;

/// The version of this form. It changes when a field is removed or changes its meaning, not when a field is added.
pub const SCHEMA: u32 = 1;

described! {
    /// The daemon's data about itself and its service.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct DaemonStatus {
        Fact name: String = "Name of the volume",
        Fact volume: String = "Id of the volume",
        Fact schema: u32 = "Version of the format of this report: 1",
        Fact program_version: String = "Version of the daemon",
        Fact pid: u32 = "Process id of the daemon",
        #[serde(default)]
        Fact health: String = "Health of the volume in one word; `ok` if it works",
        #[serde(default)]
        Fact health_severity: String = "Severity of the health: `ok`, `warning` or `critical`",
        #[serde(default)]
        Fact health_detail: Option<String> = "Reason of the health; null if the volume works",
        Gauge uptime_s: f64 = "Time the volume has been attached, in seconds",
        Fact data: String = "Path of the data device, as given by the administrator",
        Fact log: Option<String> = "Path of the log device, as given by the administrator; null for a volume without a log",
        Fact via: String = "Front end of the volume: `ublk`, `loop`, `nbd` or `none`; `mount` for a filesystem",
        Fact device: Option<String> = "Block device: `/dev/forebay/NAME`, or the path in `kernel_device` if that link is missing; null while the daemon has no block device",
        #[serde(default)]
        Fact kernel_device: Option<String> = "Block device with the kernel's name (`/dev/loop0`): the name can change at each attach",
        #[serde(default)]
        Fact no_device: Option<String> = "Reason why the block device, or the link to it, is missing",
        #[serde(default)]
        Fact mounted: Option<String> = "Mount point of the filesystem; null after the unmount, while a process still uses the filesystem or the daemon closes it",
        #[serde(default)]
        Fact requests_by: Option<String> = "Transport of the kernel's requests to the filesystem: `/dev/fuse`, or `io_uring` if it is enabled",
        Fact nbd_uri: Option<String> = "URI for NBD clients; null for a filesystem",
        #[serde(default)]
        Fact http: Option<String> = "Address of the status page, with `--http`",
        Gauge nbd_connections: u64 = "Connected NBD clients; with `via` `nbd` the kernel is one of them",
        #[serde(default)]
        Gauge foreign_loop_devices: u64 = "Loop devices of other programs over the data or log device",
        #[serde(default)]
        Fact foreign_loops: Vec<String> = "Description of each of these loop devices: every write to one of them damages the volume",
        #[serde(default)]
        Fact cut_short: Vec<String> = "Devices of the volume that became shorter while it was attached, one sentence each: data beyond the new end is lost",
        #[serde(default)]
        Gauge freeze_left_s: f64 = "Time until a frozen volume lets writes continue by itself, in seconds; 0 if it is not frozen",
        #[serde(default)]
        Gauge held_writes: u64 = "Requests that wait for the end of a freeze",
        Gauge request_bytes: u64 = "Memory of request buffers, in use or kept for later requests, in bytes",
        Gauge request_bytes_max: u64 = "Limit of the memory of request buffers, in bytes",
    }
}

impl DaemonStatus {
    /// Returns true for a filesystem, even if it is no longer mounted.
    pub fn is_filesystem(&self) -> bool {
        self.via == "mount"
    }
}

/// A report of a volume: the data of its daemon, its newest scrub, and the status `S` of its layers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeReport<S> {
    /// The data of the daemon.
    #[serde(flatten)]
    pub service: DaemonStatus,
    /// The newest scrub.
    #[serde(flatten)]
    pub scrub: ScrubStatus,
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
            scrub: ScrubStatus::default(),
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
