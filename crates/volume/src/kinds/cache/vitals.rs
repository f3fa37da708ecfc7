//! Figures of a write cache that are worth watching over time.

use forebay_dcd::DcdStatus;
use forebay_device::LatencySummary;

use crate::vitals::{FlowCounters, RingUsage, VolumeVitals};

/// Returns a write cache's vital signs: its log as a ring, the clients' requests, and the data written to the data
/// device.
pub(crate) fn of(status: &DcdStatus) -> VolumeVitals {
    let requests = |name, count: u64, bytes: Option<u64>, latency: LatencySummary| FlowCounters {
        name,
        count: Some(count),
        bytes,
        latency: Some(latency),
    };
    let moved = |name, bytes: u64| FlowCounters {
        name,
        bytes: Some(bytes),
        ..FlowCounters::default()
    };
    VolumeVitals {
        room: RingUsage {
            name: "log",
            bytes: status.log_bytes,
            used_bytes: status.log_used_bytes,
            head_bytes: status.log_head_bytes,
        },
        flows: vec![
            requests(
                "reads",
                status.reads,
                Some(status.read_bytes),
                status.read_latency,
            ),
            requests(
                "writes",
                status.writes,
                Some(status.write_bytes),
                status.write_latency,
            ),
            requests("flushes", status.flushes, None, status.flush_latency),
            moved("to the log", status.log_written_bytes),
            moved("destaged", status.destaged_bytes),
            moved("bypassed", status.bypass_bytes),
            moved("absorbed", status.absorbed_bytes),
        ],
    }
}
