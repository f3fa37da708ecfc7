//! Figures of a write cache that are worth watching over time.

use forebay_dcd::{Latency, Status};

use crate::vitals::{Flow, Room, Vitals};

/// Returns a write cache's vital signs: its log as a ring, the clients' requests, and the data written to the data
/// device.
pub(crate) fn of(status: &Status) -> Vitals {
    let requests = |name, count: u64, bytes: Option<u64>, latency: Latency| Flow {
        name,
        count: Some(count),
        bytes,
        latency: Some(latency),
    };
    let moved = |name, bytes: u64| Flow {
        name,
        bytes: Some(bytes),
        ..Flow::default()
    };
    Vitals {
        room: Room {
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
            moved("home", status.destaged_bytes),
            moved("past the log", status.bypass_bytes),
            moved("never needed", status.absorbed_bytes),
        ],
    }
}
