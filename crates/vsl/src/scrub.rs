//! A scrub: reads all mapped data, the nodes of the map and both superblocks of a space in use, and compares them with
//! their checksums.
//!
//! Each step looks up the map anew, so the cleaner and writers are free to move data between two steps. A step pins the
//! segments that it reads, as a client's read does.

use std::ops::Range;

use forebay_device::{
    BufMut, SCRUB_BYTES, ScrubArea, ScrubFault, ScrubFaultKind, ScrubFuture, ScrubStep, ScrubTarget,
};
use forebay_extent_map::{LeafView, NODE_BYTES, NeededNode, NodeLoadError};
use forebay_segment_log::{COPIES_BYTES, COPIES_END, scrub_copies};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector, round_down, round_up};

use crate::error::SpaceError;
use crate::format::SpaceSuperblock;
use crate::read::SlotPin;
use crate::space::{Space, SpaceInner};
use crate::store::read_checked;

/// Sectors that one step reads.
const PIECE_SECTORS: u64 = SCRUB_BYTES / SECTOR_BYTES;
/// Reads of a block before its data counts as damaged: the first read may have been corrupted on its way.
const TRIES: usize = 2;

/// The mapped data and the map of a space, for a scrub. Positions are sectors of the space.
pub struct DataScrub(pub Space);

/// Both copies of a space's superblock, for a scrub. Positions are sectors of the device.
pub struct SuperblockScrub(pub Space);

/// The leaf at a position, or the range whose part of the map could not be read.
enum FoundLeaf {
    Leaf(LeafView),
    Empty,
    Unknown(ScrubFault),
}

impl Space {
    /// Returns true while batches wait for free space, so that a scrub should pause.
    pub fn has_waiting_writers(&self) -> bool {
        self.inner.pacing.borrow().has_waiting()
    }
}

impl ScrubTarget for DataScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::Data
    }

    fn end(&self) -> u64 {
        self.0.sectors()
    }

    fn bytes(&self) -> u64 {
        let map = self.0.inner.map.borrow();
        map.mapped_sectors() * SECTOR_BYTES + map.nodes() * NODE_BYTES as u64
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        Box::pin(self.scrub(range))
    }
}

impl DataScrub {
    async fn scrub(&self, range: Range<u64>) -> ScrubStep {
        let inner = &*self.0.inner;
        let mut step = ScrubStep {
            next: range.end,
            ..ScrubStep::default()
        };
        match inner.find_leaf(range.start, &mut step).await {
            FoundLeaf::Empty => {}
            FoundLeaf::Unknown(fault) => {
                step.next = fault.sectors.end.min(range.end).max(range.start + 1);
                step.add(fault);
            }
            FoundLeaf::Leaf(leaf) => {
                // The nodes were checked with the first piece of the leaf.
                if range.start == leaf.range.start {
                    inner.check_nodes(range.start, &mut step).await;
                }
                step.next = leaf.range.end.min(range.end);
                if let Some(piece) = first_piece(&leaf, &range) {
                    step.next = if piece.is_last {
                        step.next
                    } else {
                        piece.sectors.end
                    };
                    self.check_data(&piece, &mut step).await;
                }
            }
        }
        let limit = inner.options.map_bytes as usize;
        inner.map.borrow_mut().shrink(limit);
        step
    }

    /// Reads a piece, and, if that fails, each of its blocks.
    async fn check_data(&self, piece: &DataPiece, step: &mut ScrubStep) {
        step.bytes += piece.mapped * SECTOR_BYTES;
        step.checked_bytes += piece.mapped * SECTOR_BYTES;
        if self.read(&piece.sectors).await.is_ok() {
            return;
        }
        let mut at = piece.sectors.start;
        while at < piece.sectors.end {
            let end = (round_down(at, LINE_SECTORS) + LINE_SECTORS).min(piece.sectors.end);
            if let Some(error) = self.fault_of(at..end).await {
                step.add(as_fault(&error, at..end));
            }
            at = end;
        }
    }

    /// Returns the error of a range, if all attempts to read the range fail.
    async fn fault_of(&self, sectors: Range<u64>) -> Option<SpaceError> {
        let mut last = None;
        for _ in 0..TRIES {
            last = Some(self.read(&sectors).await.err()?);
        }
        last
    }

    async fn read(&self, sectors: &Range<u64>) -> Result<(), SpaceError> {
        let bytes = (sectors.end - sectors.start) * SECTOR_BYTES;
        let buf = BufMut::to_fill(bytes as usize);
        self.0.read(Sector(sectors.start), buf).await.map(drop)
    }
}

/// Sectors that a step reads.
struct DataPiece {
    sectors: Range<u64>,
    /// Mapped sectors in the piece.
    mapped: u64,
    /// True if no mapped sector of the range is behind the piece.
    is_last: bool,
}

/// Returns the first piece of a range with mapped sectors in a leaf.
fn first_piece(leaf: &LeafView, range: &Range<u64>) -> Option<DataPiece> {
    let parts = leaf
        .extents
        .iter()
        .filter_map(|extent| extent.part(range.clone()));
    let mut parts = parts.peekable();
    let start = parts.peek()?.sector;
    let limit = round_up(start + 1, LINE_SECTORS) - LINE_SECTORS + PIECE_SECTORS;
    let (mut end, mut mapped) = (start, 0);
    while let Some(part) = parts.peek()
        && part.sector < limit
    {
        let until = part.end().min(limit);
        mapped += until - part.sector;
        end = until;
        if part.end() > limit {
            break;
        }
        parts.next();
    }
    Some(DataPiece {
        sectors: start..end,
        mapped,
        is_last: parts.peek().is_none(),
    })
}

fn as_fault(error: &SpaceError, block: Range<u64>) -> ScrubFault {
    match error {
        SpaceError::Damaged { sector, sectors } => ScrubFault::damaged(
            ScrubArea::Data,
            sector.0..sector.0 + sectors,
            "the data does not match its checksum",
        ),
        SpaceError::Node(..) => ScrubFault::damaged(ScrubArea::Map, block, error),
        SpaceError::Headers(_) => ScrubFault::damaged(ScrubArea::Data, block, error),
        SpaceError::Device(error) => ScrubFault::of_device(ScrubArea::Data, block, error),
        _ => ScrubFault {
            kind: ScrubFaultKind::Unreadable,
            ..ScrubFault::damaged(ScrubArea::Data, block, error)
        },
    }
}

impl SpaceInner {
    /// Returns the leaf that covers a sector, and reads the nodes above it.
    async fn find_leaf(&self, at: u64, step: &mut ScrubStep) -> FoundLeaf {
        loop {
            let found = self.map.borrow().next_leaf(at);
            let need = match found {
                Ok(Some(leaf)) => return FoundLeaf::Leaf(leaf),
                Ok(None) => return FoundLeaf::Empty,
                Err(need) => need,
            };
            let mut error = None;
            for _ in 0..TRIES {
                error = self.load(&need).await.err();
                if error.is_none() {
                    break;
                }
            }
            step.bytes += NODE_BYTES as u64;
            step.checked_bytes += NODE_BYTES as u64;
            let Some(error) = error else { continue };
            // The map may have changed during the read.
            if self.map.borrow().next_leaf(at).err().as_ref() != Some(&need) {
                continue;
            }
            let fault = match &error {
                SpaceError::Device(error) => {
                    ScrubFault::of_device(ScrubArea::Map, need.range, error)
                }
                _ => ScrubFault::damaged(ScrubArea::Map, need.range, &error),
            };
            return FoundLeaf::Unknown(fault);
        }
    }

    /// Compares the copies on the device with the nodes in memory that begin with the leaf at `at`.
    async fn check_nodes(&self, at: u64, step: &mut ScrubStep) {
        let nodes = self.map.borrow().stored_nodes(at).unwrap_or_default();
        for node in nodes {
            step.bytes += NODE_BYTES as u64;
            step.checked_bytes += NODE_BYTES as u64;
            let mut fault = None;
            for _ in 0..TRIES {
                fault = self.check_copy(&node).await.err();
                if fault.is_none() {
                    break;
                }
            }
            let now = self.map.borrow().stored_nodes(at).unwrap_or_default();
            if let Some(fault) = fault
                && now.contains(&node)
            {
                step.add(fault);
            }
        }
    }

    /// Reads the copy of a node.
    async fn check_copy(&self, node: &NeededNode) -> Result<(), ScrubFault> {
        let damaged = |error: NodeLoadError| {
            let text = format!("the copy on the device of a node in memory is damaged: {error}");
            ScrubFault::damaged(ScrubArea::Map, node.range.clone(), text)
        };
        let pin = SlotPin::of_place(self, node.place);
        let pin = pin.ok_or_else(|| damaged(NodeLoadError::Stale))?;
        let offset = u64::from(self.store.layout().offset_of(node.place));
        let range = offset..offset + NODE_BYTES as u64;
        let check = |bytes: &[u8]| self.map.borrow().verify_copy(node, bytes);
        let checked = read_checked(&*self.store, pin.slot(), range, check).await;
        let checked = checked
            .map_err(|error| ScrubFault::of_device(ScrubArea::Map, node.range.clone(), &error))?;
        checked.map_err(damaged)
    }
}

impl ScrubTarget for SuperblockScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::Superblock
    }

    fn end(&self) -> u64 {
        COPIES_END
    }

    fn bytes(&self) -> u64 {
        COPIES_BYTES
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        Box::pin(async move {
            let inner = &self.0.inner;
            let volume = inner.superblock.borrow().volume;
            let (device, turn) = (&*inner.device, &inner.superblock_turn);
            scrub_copies::<SpaceSuperblock>(device, volume, turn, self.area(), range).await
        })
    }
}
