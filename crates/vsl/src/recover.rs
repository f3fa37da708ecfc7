//! Creation of a volume, and recovery after a stop or a crash.
//!
//! Recovery reads the superblock, the checkpoint that the superblock leads to, and the records behind it ([`scan`]). It
//! applies the records to map and table, and ends with a checkpoint of a new epoch. Until that checkpoint is valid,
//! recovery changes nothing on the device that this or another try needs: it writes to segments of the allocation queue
//! without valid records. Records of another epoch than the superblock's are never valid, so data beyond the end of the
//! order is never recovered later. Each try reserves its own epoch and numbers before it writes (`superblocks.rs`).

mod apply;
pub(crate) mod read;
pub(crate) mod scan;

use forebay_placement::WriteClock;
use forebay_placement::cost::DiskParameters;
use forebay_placement::placement::{Placement, PlacementKind, Tuner};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, ZeroedSpace as Keep};
use forebay_rt::{CoopBudget, Event, Lock, Rt};
use forebay_segment_log::{
    CommitPipeline, CommitWorkers, LogError, OnFailure, PORTION_BYTES, read_copies,
};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::changed::{ChangedBounds, checkpoint_segments, map_memory};
use crate::checkpoint_queue::CheckpointQueue;
use crate::checkpointer::checkpointer;
use crate::checks::ChecksumCache;
use crate::clean::{cleaner, reaper};
use crate::discard::{discard, discarder};
use crate::error::SpaceOpenError;
use crate::format::{Checkpoint, SEGMENTS_AT, SpaceEntry, SpaceSuperblock, VolumeId};
use crate::geometry::{AHEAD_SEGMENTS, SegmentLayout, SegmentSlot};
use crate::handles::StreamHandles;
use crate::home::homeward;
use crate::homes::InPlaceWrites;
use crate::meta::CheckpointParts;
use crate::noting::noter;
use crate::options::SpaceSettings;
use crate::pacing::{WriterPacing, gathering};
use crate::placed::{medium_of, placement_of};
use crate::segment::{SegmentEntry, SegmentPhase};
use crate::space::{Space, SpaceInner, SpaceWorkers};
use crate::spare::spare_part;
use crate::stats::SpaceStats;
use crate::still::StillnessState;
use crate::store::{DeviceStore, SegmentStore};
use crate::streams::{ResumeState, SegmentStreams, StreamCounts};
use crate::superblocks::OpenReservation;
use crate::table::SegmentTable;
use crate::tune::tuner;
use forebay_extent_map::LogPlace;
use forebay_extent_map::{ExtentMap, NODE_SECTORS, NodeCapacity};
use scan::{RecoveryScan, scan};

/// The result of recovery, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SpaceRecovery {
    /// Records behind the checkpoint that changed the map.
    pub records: u64,
    /// Entries in these records that changed the map.
    pub entries: u64,
    /// Bytes read to find the records.
    pub bytes_read: u64,
}

/// Properties of a new volume.
#[derive(Clone, Copy, Debug)]
pub struct SpaceSpec {
    /// Identity of the volume.
    pub volume: VolumeId,
    /// Segments of the volume.
    pub layout: SegmentLayout,
    /// Sectors of the space.
    pub space_sectors: u64,
    /// Placement of data.
    pub placement: PlacementKind,
    /// True if the volume changes its placement when another placement is expected to cost less.
    pub auto: bool,
    /// Sectors of a page, for placements that use pages.
    pub page_sectors: u32,
    /// Model of the device, if it was measured.
    pub disk: Option<DiskParameters>,
}

/// Interval of the checks for a failing device while a volume is created or opened.
const LOOK_AT_FAULT: Duration = Duration::from_millis(500);
/// Memory for segments until they are durable, in bytes. This amount can have been opened behind the last segment with
/// data on the device.
const IN_MEMORY_BYTES: u64 = 16 << 20;

/// Limits of the search behind the last segment of the allocation queue with a record.
#[derive(Clone, Copy)]
pub(crate) struct QueueLookahead {
    /// Number of segments whose summary and first header are read.
    pub(crate) read_headers_max: usize,
    /// Number of segments that are searched as a whole if their first bytes are neither a record nor zeroes.
    pub(crate) looked_through: usize,
}

impl QueueLookahead {
    pub(crate) fn of(superblock: &SpaceSuperblock) -> QueueLookahead {
        let segment = u64::from(superblock.segment_bytes);
        let in_memory = (IN_MEMORY_BYTES / segment).clamp(3, 128) as usize;
        QueueLookahead {
            read_headers_max: SegmentLayout::of(superblock).in_memory_max(),
            // The placement may have been different when the segments were opened.
            looked_through: in_memory + StreamCounts::MOST,
        }
    }
}

/// Creates an empty volume on `device`: wipes the signatures of other systems (the first MiB), and writes an empty
/// checkpoint.
///
/// # Errors
/// The device's.
pub async fn create(
    rt: Rt,
    device: Rc<dyn Device>,
    making: &SpaceSpec,
) -> Result<(), SpaceOpenError> {
    device.write_zeroes(0..SEGMENTS_AT, Keep::Keep).await?;
    device.flush().await?;
    let layout = making.layout;
    let superblock = SpaceSuperblock {
        volume: making.volume,
        generation: 0,
        epoch: Epoch(0),
        reserved_epoch: Epoch(0),
        reserved_segments: SegmentSeq(0),
        stable: RecordSeq(0),
        len: layout.len,
        space_sectors: making.space_sectors,
        segment_bytes: layout.segment_bytes,
        segment_count: layout.segment_count,
        block: layout.block,
        checkpoint_sectors: 0,
        checkpoint: 0,
        checkpoint_segment: SegmentSeq(0),
        checkpoint_crc: 0,
        placement: making.placement,
        auto: making.auto,
        alias: None,
        page_sectors: making.page_sectors,
        positioning: making
            .disk
            .map_or(0, |disk| (disk.positioning * 1e9) as u32),
        bandwidth: making
            .disk
            .map_or(0, |disk| (disk.bandwidth / 1024.0) as u32),
        arms: making.disk.map_or(0, |disk| (disk.arms * 100.0) as u32),
    };
    let options = SpaceSettings::default();
    let mut segments = vec![SegmentEntry::NEW; layout.segment_count as usize];
    // Segments for this checkpoint, and for the checkpoint of the first recovery.
    let needed = 2 * checkpoint_segments(&layout, 0) + AHEAD_SEGMENTS;
    let used = segments.len().min(needed);
    for segment in &mut segments[..used] {
        segment.phase = SegmentPhase::Queued;
    }
    let queue = (0..used as u32).map(SegmentSlot).collect();
    let resume = ResumeState {
        volume: making.volume,
        epoch: Epoch(0),
        next_segment: SegmentSeq(0),
        next_record: RecordSeq(1),
        clock: WriteClock(0),
        changed: ChangedBounds::of(&layout, &options, making.placement),
        map_bytes: map_memory(&options),
    };
    let (placement, counts) = placement_of(&superblock);
    let spare = spare_part(&options, &layout, making.placement);
    let table = SegmentTable::new(layout, spare, segments, queue, &options);
    let parts = RecoveredParts {
        streams: SegmentStreams::new(layout, counts, table, resume),
        map: ExtentMap::new(making.volume, NodeCapacity::default()),
        placement,
        meta: CheckpointParts::empty(layout.segment_count as usize),
    };
    let (inner, _workers) = assemble(rt, device, options, superblock, parts);
    while_it_works(&inner, inner.make_checkpoint(None)).await?;
    // Complete the records that continue the queue, so that no write is in progress when the volume is opened.
    let last = inner.commit.composer_mut().end_all();
    inner.commit.has_work();
    Ok(inner.commit.flush(last).await?)
}

/// Waits for the writes that create or open a volume.
///
/// # Errors
/// The device has been failing for longer than requests wait.
async fn while_it_works(
    inner: &Rc<SpaceInner>,
    writes: impl Future<Output = Result<(), LogError>>,
) -> Result<(), LogError> {
    let mut writes = std::pin::pin!(writes);
    loop {
        match inner.rt.timeout(LOOK_AT_FAULT, writes.as_mut()).await {
            Ok(written) => return written,
            Err(_) => {
                if let Some(error) = inner.failing(inner.options.patience) {
                    return Err(LogError::Failed(error.to_string().into()));
                }
            }
        }
    }
}

/// Checks that the volume of `superblock` can lie on this device.
///
/// # Errors
/// The device is too short, or has larger blocks.
pub fn fits_device(
    superblock: &SpaceSuperblock,
    device: &dyn Device,
) -> Result<(), SpaceOpenError> {
    let geometry = device.geometry();
    let (have, need) = (geometry.len, superblock.len);
    if have < need {
        return Err(SpaceOpenError::Truncated { have, need });
    }
    let (have, want) = (geometry.block_size, superblock.block);
    if !want.is_multiple_of(have) {
        return Err(SpaceOpenError::Block { have, want });
    }
    Ok(())
}

/// Opens the volume on `device`.
///
/// # Errors
/// The device failed, has no volume that can be opened, or durable data is missing and `accept_loss` is false.
pub async fn open(
    rt: Rt,
    device: Rc<dyn Device>,
    options: SpaceSettings,
    accept_loss: bool,
) -> Result<(Space, SpaceWorkers, SpaceRecovery), SpaceOpenError> {
    // Records of a killed process may be only in the device's cache. Recovery makes them durable before it builds on
    // them.
    device.flush().await?;
    let copies = read_copies::<SpaceSuperblock>(&*device).await?;
    let superblock = if accept_loss {
        copies.newest_readable()?
    } else {
        copies.newest()?
    };
    let superblock = superblock.clone();
    fits_device(&superblock, &*device)?;
    let layout = SegmentLayout::of(&superblock);
    let store = DeviceStore::new(Rc::clone(&device), layout);
    let read = read::read_checkpoint(&store, &superblock).await?;
    let checkpoint = read.checkpoint;
    let (mut placement, counts) = placement_of(&superblock);
    let ahead = QueueLookahead::of(&superblock);
    let found = scan(&store, &superblock, &checkpoint, ahead).await?;
    if found.is_damaged() && !accept_loss {
        return Err(SpaceOpenError::Damaged {
            missing: found.last.next(),
            stable: found.stable,
        });
    }
    let (segments, queue) = recovered_table(&layout, &found, read.segments, &read.slots);
    if options.discard {
        discard_queue(&store, &queue).await;
    }
    let spare = spare_part(&options, &layout, superblock.placement);
    let mut table = SegmentTable::new(layout, spare, segments, queue, &options);
    for (place, sectors) in read.meta.places(layout.segment_count as usize) {
        table.count_meta(place, sectors);
    }
    let behind = found.behind_all(&checkpoint, &layout);
    let reserved = OpenReservation::new(&superblock, behind, table.queued())?;
    let resume = resume(&reserved, &checkpoint, &found, &options);
    let (root, detached) = (checkpoint.root, &checkpoint.detached);
    let map = ExtentMap::open(superblock.volume, NodeCapacity::default(), root, detached);
    table.set_nodes(map.nodes() * NODE_SECTORS);
    placement.restore(&checkpoint.placement);
    let parts = RecoveredParts {
        streams: SegmentStreams::new(layout, counts, table, resume),
        map,
        placement,
        meta: read.meta,
    };
    let (inner, commit) = assemble(rt.clone(), device, options, reserved.superblock, parts);
    let (records, entries) = apply::apply(&inner, &found.records).await?;
    if let Err(error) = inner.recount(checkpoint.doubtful).await {
        // Until counting succeeds, no segment becomes free, so live data is not lost.
        tracing::error!(%error, "live data cannot be counted; no segment becomes free until the count succeeds");
    }
    while_it_works(&inner, inner.first_checkpoint()).await?;
    inner.tell_fill();
    let workers = start(&rt, &inner, commit);
    let recovery = SpaceRecovery {
        records,
        entries,
        bytes_read: found.bytes_read,
    };
    Ok((Space { inner }, workers, recovery))
}

/// Returns the state from which the volume continues behind the found records.
fn resume(
    reserved: &OpenReservation,
    checkpoint: &Checkpoint,
    found: &RecoveryScan,
    options: &SpaceSettings,
) -> ResumeState {
    let superblock = &reserved.superblock;
    ResumeState {
        volume: superblock.volume,
        epoch: superblock.reserved_epoch,
        next_segment: reserved.next_segment,
        next_record: found.last.next(),
        clock: checkpoint.clock,
        changed: ChangedBounds::of(
            &SegmentLayout::of(superblock),
            options,
            superblock.placement,
        ),
        map_bytes: map_memory(options),
    }
}

/// Starts the background tasks.
fn start(rt: &Rt, inner: &Rc<SpaceInner>, commit: CommitWorkers) -> SpaceWorkers {
    let tasks = vec![
        rt.spawn(checkpointer(Rc::clone(inner))),
        rt.spawn(cleaner(Rc::clone(inner))),
        rt.spawn(reaper(Rc::clone(inner))),
        rt.spawn(homeward(Rc::clone(inner))),
        rt.spawn(discarder(Rc::clone(inner))),
        rt.spawn(noter(Rc::clone(inner))),
        rt.spawn(tuner(Rc::clone(inner))),
    ];
    SpaceWorkers {
        _commit: commit,
        _tasks: tasks,
    }
}

/// Discards queued segments, since they can contain invalid data.
async fn discard_queue(store: &dyn SegmentStore, queue: &VecDeque<SegmentSlot>) {
    let mut slots: Vec<SegmentSlot> = queue.iter().copied().collect();
    slots.sort_unstable();
    if let Err(error) = discard(store, &slots).await {
        tracing::debug!(%error, "the discard of queued segments failed");
    }
}

/// Returns the table from which recovery starts, and the allocation queue after all records are applied: its segments
/// without valid records. `holding` are the slots that contain the checkpoint.
fn recovered_table(
    layout: &SegmentLayout,
    scan: &RecoveryScan,
    mut segments: Vec<SegmentEntry>,
    holding: &[(SegmentSlot, LogPlace)],
) -> (Vec<SegmentEntry>, VecDeque<SegmentSlot>) {
    let mut used: BTreeSet<SegmentSlot> = holding.iter().map(|(slot, _)| *slot).collect();
    used.extend(scan.records.iter().map(|record| record.slot));
    // The segments of the checkpoint were opened before or after its cut. Their numbers follow from their places, even
    // if a disk that ignored flushes has lost the records of their opening. Their live data is counted already.
    for (slot, place) in holding {
        let known = &mut segments[slot.0 as usize];
        let number = layout.segment_of(*place);
        if known.seq != number {
            *known = SegmentEntry {
                seq: number,
                live: 0,
                units: 0,
                wear: known.wear.saturating_add(1),
                ..*known
            };
        }
        let opened = scan
            .records
            .iter()
            .find(|record| record.slot == *slot && record.segment == number);
        if let Some(record) = opened
            && let Some(SpaceEntry::Opened { stream, clock }) = record.entries.first()
        {
            (known.stream, known.born, known.closed) = (*stream, *clock, *clock);
        }
        if known.phase != SegmentPhase::Closed {
            known.phase = SegmentPhase::Open;
        }
    }
    let queue = scan.queue.iter().copied();
    let left: VecDeque<SegmentSlot> = queue.filter(|slot| !used.contains(slot)).collect();
    // Some segments were put on the queue behind the cut.
    for slot in &left {
        segments[slot.0 as usize].phase = SegmentPhase::Queued;
    }
    (segments, left)
}

/// The parts of a volume in use.
struct RecoveredParts {
    streams: SegmentStreams,
    map: ExtentMap,
    placement: Box<dyn Placement>,
    meta: CheckpointParts,
}

fn assemble(
    rt: Rt,
    device: Rc<dyn Device>,
    options: SpaceSettings,
    superblock: SpaceSuperblock,
    parts: RecoveredParts,
) -> (Rc<SpaceInner>, CommitWorkers) {
    let disk = superblock.disk();
    let layout = parts.streams.layout;
    let medium = u64::from(layout.segment_bytes) * u64::from(layout.segment_count);
    let (commit, workers) = CommitPipeline::new(
        rt.clone(),
        Rc::clone(&device),
        gathering(&disk, &options, &layout),
        OnFailure::RETRY,
        parts.streams,
        StreamHandles::new(Rc::clone(&device)),
    );
    let inner = Rc::new(SpaceInner {
        rt,
        store: Rc::new(DeviceStore::new(Rc::clone(&device), layout)),
        device,
        options,
        commit,
        map: RefCell::new(parts.map),
        placement: RefCell::new(parts.placement),
        tuner: RefCell::new(Tuner::new(medium_of(&superblock))),
        auto: Cell::new(superblock.auto),
        tune_turn: Rc::new(Lock::new()),
        tune_asked: Event::new(),
        fill_told: Cell::new(None),
        homes: RefCell::new(InPlaceWrites::new(&options, medium)),
        home_asked: Event::new(),
        pacing: RefCell::new(WriterPacing::new(&disk)),
        superblock: RefCell::new(superblock),
        superblock_turn: Rc::new(Lock::new()),
        superblock_fault: RefCell::new(None),
        cleaner_fault: RefCell::new(None),
        reaper_fault: RefCell::new(None),
        checks: RefCell::new(ChecksumCache::new(options.check_bytes)),
        meta: RefCell::new(parts.meta),
        admission: Rc::new(Lock::new()),
        portions: CoopBudget::of(PORTION_BYTES),
        checkpoint_turn: Rc::new(Lock::new()),
        checkpoints: CheckpointQueue::default(),
        checkpoint_wanted: Cell::new(false),
        checkpoint_asked: Event::new(),
        clean_asked: Event::new(),
        may_reuse: Cell::new(false),
        discard_asked: Event::new(),
        reap_asked: Event::new(),
        entries_since: Cell::new(0),
        written_since: Cell::new(0),
        closing: Cell::new(false),
        still: StillnessState::default(),
        stats: RefCell::new(SpaceStats::default()),
    });
    (inner, workers)
}
