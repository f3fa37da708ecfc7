//! Status of a filesystem as users see it. Field names are the names in JSON and in metrics.

use std::any::Any;
use std::cell::{Cell, RefCell};

use forebay_device::{LatencyHistogram, LatencySummary, ReportField, described};
use forebay_dfs::{Fs, FsCapacity};
use serde::{Deserialize, Serialize};

use super::render;
use crate::kinds::space::SpaceMode;
use crate::render::{RenderContext, ReportLines};
use crate::report::{LayerReport, StatusSummary};
use crate::vitals::VolumeVitals;

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

/// Kind of a request to a filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesystemRequestKind {
    /// A read of a file.
    Read,
    /// A write to a file.
    Write,
    /// A request to make changes durable.
    Sync,
    /// Creation, change or removal of a name or of attributes.
    Change,
    /// Any other request.
    Look,
}

impl FilesystemRequestKind {
    const COUNT: usize = 5;
}

/// Counters of requests to a filesystem, maintained by the front end that serves it.
#[derive(Default)]
pub struct FilesystemCounters {
    times: Cell<[u64; FilesystemRequestKind::COUNT]>,
    bytes: Cell<[u64; FilesystemRequestKind::COUNT]>,
    errors: Cell<u64>,
    full: Cell<u64>,
    latencies: RefCell<[LatencyHistogram; FilesystemRequestKind::COUNT]>,
}

impl FilesystemCounters {
    /// Counts a completed request: its bytes, and its duration in nanoseconds.
    pub fn did(&self, asked: FilesystemRequestKind, bytes: u64, ns: u64) {
        let (n, mut times, mut all) = (asked as usize, self.times.get(), self.bytes.get());
        times[n] += 1;
        all[n] += bytes;
        self.times.set(times);
        self.bytes.set(all);
        self.latencies.borrow_mut()[n].record(ns);
    }

    /// Counts a failed request: the filesystem was full, or had another error.
    pub fn failed(&self, is_full: bool) {
        let count = if is_full { &self.full } else { &self.errors };
        count.set(count.get() + 1);
    }

    fn latency(&self, asked: FilesystemRequestKind) -> LatencySummary {
        self.latencies.borrow()[asked as usize].summary()
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
    let (times, bytes) = (counted.times.get(), counted.bytes.get());
    let [of, in_bytes] =
        [times, bytes].map(|all| move |asked: FilesystemRequestKind| all[asked as usize]);
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
        reads: of(FilesystemRequestKind::Read),
        read_bytes: in_bytes(FilesystemRequestKind::Read),
        writes: of(FilesystemRequestKind::Write),
        write_bytes: in_bytes(FilesystemRequestKind::Write),
        syncs: of(FilesystemRequestKind::Sync),
        changes: of(FilesystemRequestKind::Change),
        looks: of(FilesystemRequestKind::Look),
        full_errors: counted.full.get(),
        errors: counted.errors.get(),
        read_latency: counted.latency(FilesystemRequestKind::Read),
        write_latency: counted.latency(FilesystemRequestKind::Write),
        sync_latency: counted.latency(FilesystemRequestKind::Sync),
        change_latency: counted.latency(FilesystemRequestKind::Change),
    }
}

impl LayerReport for FilesFacts {
    fn fields(&self) -> &'static [ReportField] {
        FilesFacts::FIELDS
    }

    fn values(&self) -> &dyn erased_serde::Serialize {
        self
    }

    fn summary(&self) -> StatusSummary {
        let modes = SpaceMode::ALL.map(SpaceMode::name);
        StatusSummary {
            mode_detail: self.mode_detail.clone(),
            drain_fails: self.mode == SpaceMode::Failed,
            ..StatusSummary::of_mode(self.mode.name(), modes.into(), self.len)
        }
    }

    fn vitals(&self) -> VolumeVitals {
        render::vitals(self)
    }

    fn lines(
        &self,
        earlier: Option<(&dyn LayerReport, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines {
        let earlier =
            earlier.and_then(|(report, ago)| Some((report.as_any().downcast_ref()?, ago)));
        render::status(self, earlier, around)
    }

    fn when_drained(&self, _has_layer_below: bool) -> &'static str {
        "its device needs no recovery"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
