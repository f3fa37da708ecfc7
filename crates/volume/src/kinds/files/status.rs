//! Status of a filesystem as users see it. Field names are the names in JSON and in metrics.

use forebay_device::{LatencySummary, described};
use forebay_dfs::{Fs, FsCapacity, RequestClass};
use serde::{Deserialize, Serialize};

use crate::filesystem_counters::FilesystemCounters;
use crate::kinds::space::SpaceMode;

described! {
    /// Summary of a filesystem. Counters start when it was mounted.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct FilesFacts {
        Fact mode: SpaceMode = "`serving`; `nearly_full`: 90 % of the capacity is in use; `full`: all of it is in \
                                use; `failed`: the device failed",
        Fact mode_detail: Option<String> = "The failure, or a recommended action",
        Gauge len: u64 = "Capacity in bytes",
        Gauge free_bytes: u64 = "Free bytes of the capacity",
        Gauge used_share: f64 = "Used share of the capacity, 0 to 1",
        Gauge files_max: u64 = "Maximum number of files",
        Gauge file_bytes_max: u64 = "Maximum size of a file, in bytes",
        Gauge small_file_bytes_max: u64 = "Maximum size of files that share a region of the address space, in bytes",
        Fact mounts: u64 = "Number of mounts of the filesystem",
        Counter reads: u64 = "Reads of files",
        Counter read_bytes: u64 = "Bytes read of files",
        Counter writes: u64 = "Writes to files",
        Counter write_bytes: u64 = "Bytes written to files",
        Counter syncs: u64 = "Requests to make data durable: `fsync`, `sync`",
        Counter changes: u64 = "Changes of names and attributes",
        Counter looks: u64 = "Other requests: lookups of names, attributes, listings",
        Counter full_errors: u64 = "Requests refused because the filesystem was full",
        Counter errors: u64 = "Requests that failed because of a device or a damaged structure",
        Latency read_latency: LatencySummary = "Latencies of reads",
        Latency write_latency: LatencySummary = "Latencies of writes",
        Latency sync_latency: LatencySummary = "Latencies of `fsync` and `sync`",
        Latency change_latency: LatencySummary = "Latencies of changes of names and attributes",
    }
}

/// Returns the mode of a filesystem with this capacity and free space.
pub(super) fn mode(room: FsCapacity) -> SpaceMode {
    let used = room.bytes.saturating_sub(room.free);
    SpaceMode::at(used as f64 / room.bytes.max(1) as f64)
}

/// Returns the filesystem's present status.
pub(super) fn of(fs: &Fs, counted: &FilesystemCounters) -> FilesFacts {
    let (room, space, superblock) = (fs.room(), fs.space(), fs.superblock());
    let failure = space.failure().map(|failure| failure.to_string());
    let mode = match &failure {
        Some(_) => SpaceMode::Failed,
        None => mode(room),
    };
    let detail = match (mode, failure) {
        (SpaceMode::NearlyFull | SpaceMode::Full, _) => {
            Some("remove unneeded files, or copy the files to a larger device".into())
        }
        (_, Some(failure)) => Some(format!(
            "{failure}; durable data is kept, and the rest is written when the device works again"
        )),
        _ => None,
    };
    let of = |asked| counted.count(asked);
    let in_bytes = |asked| counted.bytes(asked);
    let (full_errors, errors) = counted.failures();
    FilesFacts {
        mode,
        mode_detail: detail,
        len: room.bytes,
        free_bytes: room.free,
        used_share: room.bytes.saturating_sub(room.free) as f64 / room.bytes.max(1) as f64,
        files_max: room.files,
        file_bytes_max: superblock.geometry.size_max(),
        small_file_bytes_max: superblock.geometry.slot_bytes(),
        mounts: superblock.mounts,
        reads: of(RequestClass::Read),
        read_bytes: in_bytes(RequestClass::Read),
        writes: of(RequestClass::Write),
        write_bytes: in_bytes(RequestClass::Write),
        syncs: of(RequestClass::Sync),
        changes: of(RequestClass::Change),
        looks: of(RequestClass::Look),
        full_errors,
        errors,
        read_latency: counted.latency(RequestClass::Read),
        write_latency: counted.latency(RequestClass::Write),
        sync_latency: counted.latency(RequestClass::Sync),
        change_latency: counted.latency(RequestClass::Change),
    }
}
