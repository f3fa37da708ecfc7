//! Space and map accounting: the counters of `status` agree with each other and with the requests.

use forebay_dcd::{DcdStatus, DcdVolume};
use forebay_device::DataLocation;

use forebay_sim::Violation;
use forebay_sim::system::ClientTotals;

/// Checks the counters of a volume without failures and without requests in flight.
///
/// # Errors
/// The counter that is inconsistent.
pub fn check(volume: &DcdVolume, asked: &ClientTotals, dirty_before: u64) -> Result<(), Violation> {
    let status = volume.status();
    let wrong = |what: String| Err(Violation::new("accounts", format!("{what}: {status:?}")));
    let counted = [
        ("reads", status.reads, asked.reads),
        ("bytes read", status.read_bytes, asked.read_bytes),
        ("writes", status.writes, asked.writes),
        ("bytes written", status.write_bytes, asked.write_bytes),
        ("flushes", status.flushes, asked.flushes),
        ("discards", status.discards, asked.discards),
        ("latencies of reads", status.read_latency.count, asked.reads),
        (
            "latencies of writes",
            status.write_latency.count,
            asked.writes,
        ),
    ];
    for (what, have, want) in counted {
        if have != want {
            return wrong(format!("{have} {what} counted, {want} done"));
        }
    }
    let DcdStatus {
        log_bytes,
        log_used_bytes,
        dirty_bytes,
        ..
    } = status;
    let cached: u64 = volume
        .place(0..status.len)
        .iter()
        .filter(|extent| matches!(extent.place, DataLocation::Ram | DataLocation::Log))
        .map(|extent| extent.range.end - extent.range.start)
        .sum();
    if cached != dirty_bytes {
        return wrong(format!(
            "{dirty_bytes} bytes dirty, and {cached} lie in memory or log"
        ));
    }
    if log_used_bytes > log_bytes || dirty_bytes > log_used_bytes || status.damaged_bytes > 0 {
        return wrong("more in the log than fits".into());
    }
    // All received bytes are in the log, absorbed, or destaged. An interrupted window can destage bytes more than once.
    let came = dirty_before + status.write_bytes - status.bypass_bytes;
    let stayed = status.absorbed_bytes + dirty_bytes;
    if stayed > came || came > stayed + status.destaged_bytes {
        return wrong(format!(
            "{came} bytes came, {stayed} stayed or were absorbed"
        ));
    }
    Ok(())
}

/// Checks the counters of a volume that was drained.
///
/// # Errors
/// If the volume is not empty.
pub fn check_drained(volume: &DcdVolume) -> Result<(), Violation> {
    let status = volume.status();
    match (status.dirty_bytes, status.drain_eta_s) {
        (0, None) => Ok(()),
        _ => Err(Violation::new(
            "accounts",
            format!("drained, and not empty: {status:?}"),
        )),
    }
}
