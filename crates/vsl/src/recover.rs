//! Making a volume, and taking one up again after a stop or a crash.
//!
//! Recovery reads the superblock, the checkpoint it leads to, and the records behind that ([`scan`]), applies them
//! to map and table, and ends with a checkpoint of a new epoch. Until that is valid, nothing on the device is
//! changed that this, or another try, would need: recovery writes to segments of the allocation queue in which nothing
//! is valid. Records of another epoch than the superblock's are never valid, so what lies beyond the end of the
//! order is never taken up later. Each try reserves an epoch and numbers of its own before it writes (`superblocks.rs`).

mod apply;
pub(crate) mod read;
pub(crate) mod scan;

use forebay_placement::WriteClock;
use forebay_placement::cost::Disk;
use forebay_placement::placement::{Kind, Placement, Tuner};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, Room as Keep};
use forebay_rt::{Event, Lock, Portions, Rt};
use forebay_segments::{Commit, CommitWorkers, LogError, OnFailure, PORTION_BYTES, read_copies};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::changed::{ChangedBounds, checkpoint_segments, map_memory};
use crate::checkpoint::checkpointer;
use crate::checks::Checks;
use crate::clean::{cleaner, reaper};
use crate::discard::{discard, discarder};
use crate::error::OpenError;
use crate::format::{Checkpoint, Entry, SEGMENTS_AT, Superblock, VolumeId};
use crate::geometry::{AHEAD_SEGMENTS, Layout, Slot};
use crate::handles::Handles;
use crate::home::homeward;
use crate::homes::Homes;
use crate::meta::Meta;
use crate::noting::noter;
use crate::options::Options;
use crate::pacing::{Pacing, gathering};
use crate::placed::{medium_of, placement_of};
use crate::segment::{Segment, SegmentPhase};
use crate::space::{Inner, Space, Workers};
use crate::spare::spare_part;
use crate::stats::Stats;
use crate::store::{DeviceStore, SegmentStore};
use crate::streams::{Counts, Resume, Streams};
use crate::superblocks::Reserved;
use crate::table::SegmentTable;
use crate::tune::tuner;
use forebay_extents::Place;
use forebay_extents::{Map, NODE_SECTORS, Shape};
use scan::{Scan, scan};

/// What recovery found, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Recovery {
    /// Records behind the checkpoint that changed what is mapped.
    pub records: u64,
    /// Entries in them that did.
    pub entries: u64,
    /// Bytes read to find them.
    pub bytes_read: u64,
}

/// What a volume is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// Whose it is.
    pub volume: VolumeId,
    /// Its segments.
    pub layout: Layout,
    /// Sectors of the space.
    pub space_sectors: u64,
    /// How data is placed.
    pub placement: Kind,
    /// True if the volume is to change its placement where another is expected to cost less.
    pub auto: bool,
    /// Sectors of a page, for the placements that go by pages.
    pub page_sectors: u32,
    /// The medium, if it was measured.
    pub disk: Option<Disk>,
}

/// How often it is looked whether the device fails while a volume is made or opened.
const LOOK_AT_FAULT: Duration = Duration::from_millis(500);
/// Memory that holds segments until they are durable, in bytes: so much may have been opened behind a segment of which something
/// is on the device.
const IN_MEMORY_BYTES: u64 = 16 << 20;

/// How far behind the last segment of the allocation queue that shows something recovery looks.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// Segments of which the ends are looked at.
    pub(crate) looked_at: usize,
    /// Segments that are read as a whole if what stands where they begin is neither a record nor zeroes.
    pub(crate) looked_through: usize,
}

impl Ahead {
    pub(crate) fn of(superblock: &Superblock) -> Ahead {
        let segment = u64::from(superblock.segment_bytes);
        let in_memory = (IN_MEMORY_BYTES / segment).clamp(3, 128) as usize;
        Ahead {
            looked_at: Layout::of(superblock).in_memory_max(),
            // The placement may have been another one when they were opened.
            looked_through: in_memory + Counts::MOST,
        }
    }
}

/// Makes an empty volume on `device`: wipes what other systems would recognise the device by (its first
/// MiB), and writes a checkpoint of nothing.
///
/// # Errors
/// The device's.
pub async fn create(rt: Rt, device: Rc<dyn Device>, making: &Making) -> Result<(), OpenError> {
    device.write_zeroes(0..SEGMENTS_AT, Keep::Keep).await?;
    device.flush().await?;
    let layout = making.layout;
    let superblock = Superblock {
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
        page_sectors: making.page_sectors,
        positioning: making
            .disk
            .map_or(0, |disk| (disk.positioning * 1e9) as u32),
        bandwidth: making
            .disk
            .map_or(0, |disk| (disk.bandwidth / 1024.0) as u32),
        arms: making.disk.map_or(0, |disk| (disk.arms * 100.0) as u32),
    };
    let options = Options::default();
    let mut segments = vec![Segment::NEW; layout.segment_count as usize];
    // This checkpoint, and that of the first recovery.
    let needed = 2 * checkpoint_segments(&layout, 0) + AHEAD_SEGMENTS;
    let used = segments.len().min(needed);
    for segment in &mut segments[..used] {
        segment.phase = SegmentPhase::Queued;
    }
    let queue = (0..used as u32).map(Slot).collect();
    let resume = Resume {
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
    let parts = Parts {
        streams: Streams::new(layout, counts, table, resume),
        map: Map::new(making.volume, Shape::default()),
        placement,
        meta: Meta::empty(layout.segment_count as usize),
    };
    let (inner, _workers) = assemble(rt, device, options, superblock, parts);
    while_it_works(&inner, inner.checkpoint()).await?;
    // What still continues the queue ends here, so that nothing is under way when the volume is opened.
    let last = inner.commit.composer_mut().end_all();
    inner.commit.has_work();
    Ok(inner.commit.flush(last).await?)
}

/// Waits for writes with which a volume is made or opened.
///
/// # Errors
/// If the device has been failing for longer than requests wait.
async fn while_it_works(
    inner: &Rc<Inner>,
    writes: impl Future<Output = Result<(), LogError>>,
) -> Result<(), LogError> {
    let mut writes = std::pin::pin!(writes);
    loop {
        match inner.rt.timeout(LOOK_AT_FAULT, writes.as_mut()).await {
            Ok(written) => return written,
            Err(_) => {
                if let Some(error) = inner.failing(inner.options.patience) {
                    return Err(LogError(error.to_string().into()));
                }
            }
        }
    }
}

/// Whether the volume that `superblock` describes can lie on this device.
///
/// # Errors
/// If the device is too short or has larger blocks.
pub fn fits_device(superblock: &Superblock, device: &dyn Device) -> Result<(), OpenError> {
    let geometry = device.geometry();
    let (have, need) = (geometry.len, superblock.len);
    if have < need {
        return Err(OpenError::Truncated { have, need });
    }
    let (have, want) = (geometry.block_size, superblock.block);
    if !want.is_multiple_of(have) {
        return Err(OpenError::Block { have, want });
    }
    Ok(())
}

/// Takes up the volume on `device`.
///
/// # Errors
/// If the device fails or holds no volume that can be taken up, or something durable is missing and
/// `accept_loss` is not given.
pub async fn open(
    rt: Rt,
    device: Rc<dyn Device>,
    options: Options,
    accept_loss: bool,
) -> Result<(Space, Workers, Recovery), OpenError> {
    // Records of a process that was killed may be in the device's cache only. Recovery makes them durable before it builds on
    // them.
    device.flush().await?;
    let copies = read_copies::<Superblock>(&*device).await?;
    let superblock = match accept_loss {
        true => copies.newest_readable()?,
        false => copies.newest()?,
    };
    let superblock = superblock.clone();
    fits_device(&superblock, &*device)?;
    let layout = Layout::of(&superblock);
    let store = DeviceStore::new(Rc::clone(&device), layout);
    let read = read::read_checkpoint(&store, &superblock).await?;
    let checkpoint = read.checkpoint;
    let (mut placement, counts) = placement_of(&superblock);
    let ahead = Ahead::of(&superblock);
    let found = scan(&store, &superblock, &checkpoint, ahead).await?;
    if found.is_damaged() && !accept_loss {
        return Err(OpenError::Damaged {
            missing: found.last.next(),
            stable: found.stable,
        });
    }
    let (segments, queue) = take_up(&layout, &found, read.segments, &read.slots);
    if options.discard {
        discard_queue(&store, &queue).await;
    }
    let spare = spare_part(&options, &layout, superblock.placement);
    let mut table = SegmentTable::new(layout, spare, segments, queue, &options);
    for (place, sectors) in read.meta.places(layout.segment_count as usize) {
        table.count_meta(place, sectors);
    }
    let behind = found.behind_all(&checkpoint, &layout);
    let reserved = Reserved::new(&superblock, behind, table.queued())?;
    let resume = resume(&reserved, &checkpoint, &found, &options);
    let (root, detached) = (checkpoint.root, &checkpoint.detached);
    let map = Map::open(superblock.volume, Shape::default(), root, detached);
    table.set_nodes(map.nodes() * NODE_SECTORS);
    placement.restore(&checkpoint.placement);
    let parts = Parts {
        streams: Streams::new(layout, counts, table, resume),
        map,
        placement,
        meta: read.meta,
    };
    let (inner, commit) = assemble(rt.clone(), device, options, reserved.superblock, parts);
    let (records, entries) = apply::apply(&inner, &found.records).await?;
    if let Err(error) = inner.recount(checkpoint.doubtful).await {
        // Until that is possible, no segment gets free: what is live is not lost.
        tracing::error!(%error, "what is live cannot be counted anew");
    }
    while_it_works(&inner, inner.first_checkpoint()).await?;
    inner.tell_fill();
    let workers = start(&rt, &inner, commit);
    let recovery = Recovery {
        records,
        entries,
        bytes_read: found.bytes_read,
    };
    Ok((Space { inner }, workers, recovery))
}

/// Where the volume goes on behind what was found.
fn resume(reserved: &Reserved, checkpoint: &Checkpoint, found: &Scan, options: &Options) -> Resume {
    let superblock = &reserved.superblock;
    Resume {
        volume: superblock.volume,
        epoch: superblock.reserved_epoch,
        next_segment: reserved.next_segment,
        next_record: found.last.next(),
        clock: checkpoint.clock,
        changed: ChangedBounds::of(&Layout::of(superblock), options, superblock.placement),
        map_bytes: map_memory(options),
    }
}

/// Begins what goes on in the background.
fn start(rt: &Rt, inner: &Rc<Inner>, commit: CommitWorkers) -> Workers {
    let tasks = vec![
        rt.spawn(checkpointer(Rc::clone(inner))),
        rt.spawn(cleaner(Rc::clone(inner))),
        rt.spawn(reaper(Rc::clone(inner))),
        rt.spawn(homeward(Rc::clone(inner))),
        rt.spawn(discarder(Rc::clone(inner))),
        rt.spawn(noter(Rc::clone(inner))),
        rt.spawn(tuner(Rc::clone(inner))),
    ];
    Workers {
        _commit: commit,
        _tasks: tasks,
    }
}

/// Discards queued segments: something may have been written there that is not valid.
async fn discard_queue(store: &dyn SegmentStore, queue: &VecDeque<Slot>) {
    let mut slots: Vec<Slot> = queue.iter().copied().collect();
    slots.sort_unstable();
    if let Err(error) = discard(store, &slots).await {
        tracing::debug!(%error, "the queued segments were not discarded");
    }
}

/// The table as recovery begins with it, and the allocation queue that is left when all records are applied: those of its
/// segments in which nothing is valid. `holding` are the slots in which the checkpoint lies.
fn take_up(
    layout: &Layout,
    scan: &Scan,
    mut segments: Vec<Segment>,
    holding: &[(Slot, Place)],
) -> (Vec<Segment>, VecDeque<Slot>) {
    let mut used: BTreeSet<Slot> = holding.iter().map(|(slot, _)| *slot).collect();
    used.extend(scan.records.iter().map(|record| record.slot));
    // What holds the checkpoint was opened behind its cut, or before. Its number is told by its place, even if a disk that
    // lies has lost the records that say so; what is live in it is counted already.
    for (slot, place) in holding {
        let known = &mut segments[slot.0 as usize];
        let number = layout.segment_of(*place);
        if known.seq != number {
            *known = Segment {
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
            && let Some(Entry::Opened { stream, clock }) = record.entries.first()
        {
            (known.stream, known.born, known.closed) = (*stream, *clock, *clock);
        }
        if known.phase != SegmentPhase::Closed {
            known.phase = SegmentPhase::Open;
        }
    }
    let queue = scan.queue.iter().copied();
    let left: VecDeque<Slot> = queue.filter(|slot| !used.contains(slot)).collect();
    // Some were put there behind the cut.
    for slot in &left {
        segments[slot.0 as usize].phase = SegmentPhase::Queued;
    }
    (segments, left)
}

/// What a volume in use is made of.
struct Parts {
    streams: Streams,
    map: Map,
    placement: Box<dyn Placement>,
    meta: Meta,
}

fn assemble(
    rt: Rt,
    device: Rc<dyn Device>,
    options: Options,
    superblock: Superblock,
    parts: Parts,
) -> (Rc<Inner>, CommitWorkers) {
    let disk = superblock.disk();
    let layout = parts.streams.layout;
    let medium = u64::from(layout.segment_bytes) * u64::from(layout.segment_count);
    let (commit, workers) = Commit::new(
        rt.clone(),
        Rc::clone(&device),
        gathering(&disk, &options, &layout),
        OnFailure::RETRY,
        parts.streams,
        Handles::new(Rc::clone(&device)),
    );
    let inner = Rc::new(Inner {
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
        homes: RefCell::new(Homes::new(&options, medium)),
        home_asked: Event::new(),
        pacing: RefCell::new(Pacing::new(&disk)),
        superblock: RefCell::new(superblock),
        superblock_turn: Rc::new(Lock::new()),
        superblock_fault: RefCell::new(None),
        cleaner_fault: RefCell::new(None),
        reaper_fault: RefCell::new(None),
        checks: RefCell::new(Checks::new(options.check_bytes)),
        meta: RefCell::new(parts.meta),
        admission: Rc::new(Lock::new()),
        portions: Portions::of(PORTION_BYTES),
        checkpoint_turn: Rc::new(Lock::new()),
        checkpoint_wanted: Cell::new(false),
        checkpoint_asked: Event::new(),
        clean_asked: Event::new(),
        may_reuse: Cell::new(false),
        discard_asked: Event::new(),
        reap_asked: Event::new(),
        entries_since: Cell::new(0),
        written_since: Cell::new(0),
        closing: Cell::new(false),
        stats: RefCell::new(Stats::default()),
    });
    (inner, workers)
}
