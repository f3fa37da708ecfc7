//! Making a volume, and taking one up again after a stop or a crash.
//!
//! Recovery reads the superblock, the checkpoint it leads to, and the records behind that ([`scan`]), applies them
//! to map and table, and ends with a checkpoint of a new epoch. Until that counts, nothing on the medium is
//! changed that this, or another try, would need: it is written to segments of the runway in which nothing
//! counts. Records of another epoch than the superblock's never count, so what lies beyond the end of the
//! order is never taken up later.

mod apply;
pub(crate) mod scan;

use forebay_placement::WriteClock;
use forebay_placement::cost::Disk;
use forebay_placement::placement::{self, Kind, Placement};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use forebay_device::{Device, Room as Keep};
use forebay_rt::{Event, Lock, Portions, Rt};
use forebay_segments::{Commit, CommitWorkers, OnFailure, PORTION_BYTES, read_copies};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::checkpoint::{checkpointer, read_checkpoint};
use crate::checks::Checks;
use crate::clean::{cleaner, reaper};
use crate::discard::{discard, discarder};
use crate::error::OpenError;
use crate::format::{Entry, SEGMENTS_AT, Superblock, VolumeId};
use crate::geometry::{Layout, Slot};
use crate::home::homeward;
use crate::homes::Homes;
use crate::options::Options;
use crate::pacing::{Pacing, gathering};
use crate::segment::{Segment, SegmentState};
use crate::space::{Inner, Space, Workers};
use crate::stats::Stats;
use crate::streams::{Counts, Resume, Streams};
use crate::usage::Usage;
use forebay_extents::Place;
use forebay_extents::{Map, Shape};
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
    /// Sectors of a page, for the placements that go by pages.
    pub page_sectors: u32,
    /// The medium, if it was measured.
    pub disk: Option<Disk>,
}

/// Bytes of segments that may have been opened without anything of them being on the medium: what memory holds,
/// and the largest batch.
const AHEAD_BYTES: u64 = 256 << 20;
/// Segments of the runway that are looked at in any case behind the last that shows something.
const AHEAD_SEGMENTS: usize = 64;

/// How many segments of the runway may have been opened without anything of them being on the medium.
pub(crate) fn ahead(layout: &Layout) -> usize {
    (AHEAD_BYTES / u64::from(layout.segment_bytes)) as usize + AHEAD_SEGMENTS
}

/// The policy that a superblock names, and its streams.
fn placement_of(superblock: &Superblock) -> (Box<dyn Placement>, Counts) {
    let options = placement::Options {
        page_sectors: superblock.page_sectors,
        segment_bytes: superblock.segment_bytes.into(),
        disk: superblock.disk(),
        ..placement::Options::default()
    };
    let placement = superblock.placement.build(&options);
    let needs = placement.needs();
    let counts = Counts {
        user: needs.user,
        moved: needs.moved,
    };
    (placement, counts)
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
        len: layout.len,
        space_sectors: making.space_sectors,
        segment_bytes: layout.segment_bytes,
        segment_count: layout.segment_count,
        block: layout.block,
        checkpoint_sectors: 0,
        checkpoint: Place(0),
        checkpoint_crc: 0,
        placement: making.placement,
        page_sectors: making.page_sectors,
        positioning: making
            .disk
            .map_or(0, |disk| (disk.positioning * 1e9) as u32),
        bandwidth: making
            .disk
            .map_or(0, |disk| (disk.bandwidth / 1024.0) as u32),
    };
    let mut segments = vec![Segment::NEW; layout.segment_count as usize];
    let used = segments.len().min(AHEAD_SEGMENTS);
    for segment in &mut segments[..used] {
        segment.state = SegmentState::Runway;
    }
    let runway = (0..used as u32).map(Slot).collect();
    let resume = Resume {
        volume: making.volume,
        epoch: Epoch(0),
        next_segment: SegmentSeq(0),
        next_record: RecordSeq(1),
        clock: WriteClock(0),
    };
    let usage = Usage::new(layout, segments, runway, &Options::default());
    let (placement, counts) = placement_of(&superblock);
    let parts = Parts {
        streams: Streams::new(layout, counts, usage, resume),
        map: Map::new(making.volume, Shape::default()),
        placement,
    };
    let (inner, _workers) = assemble(rt, device, Options::default(), superblock, parts);
    Ok(inner.checkpoint().await?)
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
    let copies = read_copies::<Superblock>(&*device).await?;
    let superblock = match accept_loss {
        true => copies.newest_readable()?,
        false => copies.newest()?,
    };
    let superblock = superblock.clone();
    fits_device(&superblock, &*device)?;
    let layout = Layout::of(&superblock);
    let (checkpoint, segments, meta) = read_checkpoint(&*device, &superblock).await?;
    let found = scan(&*device, &superblock, &checkpoint, ahead(&layout)).await?;
    if found.is_damaged() && !accept_loss {
        return Err(OpenError::Damaged {
            missing: found.last.next(),
            stable: found.stable,
        });
    }
    let (segments, runway) = take_up(&found, segments, &holding(layout, &meta));
    if options.discard {
        discard_runway(&*device, &layout, &runway).await;
    }
    let mut usage = Usage::new(layout, segments, runway, &options);
    for (place, sectors) in &meta {
        usage.count(*place, *sectors);
    }
    let resume = Resume {
        volume: superblock.volume,
        epoch: superblock.epoch.next(),
        next_segment: checkpoint.next_segment.plus(found.runway.len() as u64),
        next_record: found.last.next(),
        clock: checkpoint.clock,
    };
    let map = Map::open(
        superblock.volume,
        Shape::default(),
        checkpoint.root,
        &checkpoint.detached,
    );
    let (mut placement, counts) = placement_of(&superblock);
    placement.restore(&checkpoint.placement);
    let parts = Parts {
        streams: Streams::new(layout, counts, usage, resume),
        map,
        placement,
    };
    let (inner, commit) = assemble(rt.clone(), device, options, superblock, parts);
    *inner.meta.borrow_mut() = meta;
    let (records, entries) = apply::apply(&inner, &found.records).await?;
    inner.checkpoint().await?;
    inner.tell_fill();
    let workers = start(&rt, &inner, commit);
    let recovery = Recovery {
        records,
        entries,
        bytes_read: found.bytes_read,
    };
    Ok((Space { inner }, workers, recovery))
}

/// Begins what goes on in the background.
fn start(rt: &Rt, inner: &Rc<Inner>, commit: CommitWorkers) -> Workers {
    let tasks = vec![
        rt.spawn(checkpointer(Rc::clone(inner))),
        rt.spawn(cleaner(Rc::clone(inner))),
        rt.spawn(reaper(Rc::clone(inner))),
        rt.spawn(homeward(Rc::clone(inner))),
        rt.spawn(discarder(Rc::clone(inner))),
    ];
    Workers {
        _commit: commit,
        _tasks: tasks,
    }
}

/// Discards segments of the runway: something may have been written there that does not count.
async fn discard_runway(device: &dyn Device, layout: &Layout, runway: &VecDeque<Slot>) {
    let mut slots: Vec<Slot> = runway.iter().copied().collect();
    slots.sort_unstable();
    if let Err(error) = discard(device, layout, &slots).await {
        tracing::debug!(%error, "the runway was not discarded");
    }
}

/// The table as recovery begins with it, and the runway that is left when all records are applied: those of its
/// segments in which nothing counts.
fn take_up(
    scan: &Scan,
    mut segments: Vec<Segment>,
    holding: &BTreeSet<Slot>,
) -> (Vec<Segment>, VecDeque<Slot>) {
    let mut used = holding.clone();
    used.extend(scan.records.iter().map(|record| record.slot));
    // What holds the checkpoint was opened behind its cut, even if a disk that lies has lost the records that say so,
    // and before the checkpoint counted: what is live in it is counted already.
    for slot in holding {
        let known = &mut segments[slot.0 as usize];
        let record = scan.records.iter().find(|record| record.slot == *slot);
        if let Some(record) = record.filter(|record| record.segment != known.seq) {
            *known = Segment {
                seq: record.segment,
                wear: known.wear.saturating_add(1),
                ..*known
            };
            if let Some(Entry::Opened { stream, clock }) = record.entries.first() {
                (known.stream, known.born, known.closed) = (*stream, *clock, *clock);
            }
        }
        known.state = SegmentState::Open;
    }
    let runway = scan.runway.iter().copied();
    let left: VecDeque<Slot> = runway.filter(|slot| !used.contains(slot)).collect();
    // Some were put there behind the cut.
    for slot in &left {
        segments[slot.0 as usize].state = SegmentState::Runway;
    }
    (segments, left)
}

/// The segments that a checkpoint lies in.
fn holding(layout: Layout, meta: &[(Place, u64)]) -> BTreeSet<Slot> {
    meta.iter()
        .map(|(place, _)| layout.slot_of(*place))
        .collect()
}

/// What a volume in use is made of.
struct Parts {
    streams: Streams,
    map: Map,
    placement: Box<dyn Placement>,
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
        OnFailure::Latch,
        parts.streams,
        (),
    );
    let inner = Rc::new(Inner {
        rt,
        device,
        options,
        commit,
        map: RefCell::new(parts.map),
        placement: RefCell::new(parts.placement),
        fill_told: Cell::new(None),
        homes: RefCell::new(Homes::new(&options, medium)),
        home_asked: Event::new(),
        pacing: RefCell::new(Pacing::new(&disk)),
        superblock: RefCell::new(superblock),
        checks: RefCell::new(Checks::new(options.check_bytes)),
        meta: RefCell::new(Vec::new()),
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
        stats: RefCell::new(Stats::default()),
    });
    (inner, workers)
}
