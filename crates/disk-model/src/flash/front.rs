//! A first MiB in front of plain flash, in which two blocks can be rewritten.
//!
//! Logs of segments keep two copies of a superblock, at byte 0 and byte 512 KiB, and rewrite them in place. Their
//! segments begin at 1 MiB. Flash cannot rewrite blocks in place. So a few erase units are reserved, and a rewrite of
//! one of these blocks is appended there in an *entry*: a head with the number of the block and of the rewrite, and the
//! block. The newest intact entry of each block is valid. All other bytes of the first MiB are zeroes. The bytes behind
//! it are the rest of the flash, unchanged.
//!
//! When a unit is full, another unit is erased and begins with the newest copy of the other block. The chosen unit
//! contains no newest copy. With three units such a unit always exists. So acknowledged data exists at any moment,
//! regardless of the state in which a power cut leaves an entry or an erase.
//!
//! Invariants:
//! - A unit is erased only if it contains no newest copy of either block.
//! - A unit that was open before a restart is never appended to: its pages may be half programmed.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, Result,
    ZeroedSpace,
};
use forebay_rt::Lock;

use super::format::{CopyHeader, HEAD_BYTES};

/// Bytes in front of the directly mapped flash: the start of segments in logs.
const FRONT_BYTES: u64 = 1 << 20;
/// Places of the rewritable blocks.
const PLACES: [u64; 2] = [0, 512 << 10];
const BLOCK: u64 = HEAD_BYTES as u64;
const ENTRY_BYTES: u64 = 2 * BLOCK;
/// Reserved erase units: one for the newest copy of each block, and one that may be erased.
const UNITS: u64 = 3;

/// Reason why flash cannot have such a front.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FrontedError {
    /// The device is not flash, or has no pages of 4096 bytes.
    #[error("the device has no erase units of pages of 4096 bytes")]
    NoFlash,
    /// The segments are not whole erase units.
    #[error(
        "a segment of {segment} bytes is not a multiple of an erase unit of {unit}: an erase unit must be released \
         as a whole (use larger segments, or gang fewer planes)"
    )]
    Segment {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of an erase unit.
        unit: u64,
    },
    /// The flash is too short for a segment behind the reserved units.
    #[error("the flash has {have} bytes; {need} are needed")]
    TooShort {
        /// Length of the flash, in bytes.
        have: u64,
        /// Minimum length, in bytes.
        need: u64,
    },
    /// The reserved units cannot be read, and may contain the newest copies.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Plain flash with a first MiB in which the blocks at byte 0 and at byte 512 KiB can be rewritten.
pub struct FrontedFlash {
    flash: Rc<dyn Device>,
    geometry: DeviceGeometry,
    unit: u64,
    /// Newest copies of both blocks.
    newest: RefCell<[Option<BlockCopy>; 2]>,
    /// Place of the next entry. `None` if the next entry begins another unit.
    next: Cell<Option<u64>>,
    last_sequence: Cell<u64>,
    last_unit: Cell<u64>,
    /// Lock that serialises entries.
    turn: Rc<Lock>,
}

/// A copy of a block.
#[derive(Clone)]
struct BlockCopy {
    sequence: u64,
    /// Erase unit that contains the copy.
    unit: u64,
    data: Buf,
}

/// A range of the device, split into its part in the first MiB, and the bytes of the flash behind it.
struct SplitRange {
    front: Range<u64>,
    flash: Range<u64>,
}

impl FrontedFlash {
    /// Finds the newest copies of the two blocks. They are zeroes on flash without copies. The client of the flash must
    /// discard `segment` bytes as a whole, from the first MiB on.
    ///
    /// # Errors
    /// If the segments do not fit the flash, or the flash cannot be read.
    pub async fn open(flash: Rc<dyn Device>, segment: u64) -> Result<FrontedFlash, FrontedError> {
        let below = flash.geometry();
        let unit = u64::from(below.discard_granularity);
        if u64::from(below.block_size) != BLOCK || unit < 3 * ENTRY_BYTES {
            return Err(FrontedError::NoFlash);
        }
        if segment == 0 || !segment.is_multiple_of(unit) {
            return Err(FrontedError::Segment { segment, unit });
        }
        let (have, need) = (below.len, UNITS * unit + segment);
        if have < need {
            return Err(FrontedError::TooShort { have, need });
        }
        let fronted = FrontedFlash {
            geometry: DeviceGeometry {
                len: FRONT_BYTES + have - UNITS * unit,
                zeroes_by_unmapping: false,
                ..below
            },
            flash,
            unit,
            newest: RefCell::default(),
            next: Cell::new(None),
            last_sequence: Cell::new(0),
            last_unit: Cell::new(UNITS - 1),
            turn: Rc::default(),
        };
        for unit in 0..UNITS {
            fronted.scan(unit).await?;
        }
        Ok(fronted)
    }

    /// Searches an erase unit for newer copies.
    async fn scan(&self, unit: u64) -> Result<()> {
        let entries = BufMut::zeroed(self.unit as usize);
        let entries = self.flash.read(unit * self.unit, entries).await?;
        for (head, data) in entries.as_chunks::<HEAD_BYTES>().0.chunks_exact(2).map(two) {
            let Some(head) = CopyHeader::decode(head) else {
                continue;
            };
            if head.data_crc != crc32c::crc32c(data) || head.place as usize >= PLACES.len() {
                continue;
            }
            let mut newest = self.newest.borrow_mut();
            let newest = &mut newest[head.place as usize];
            if newest
                .as_ref()
                .is_none_or(|copy| copy.sequence < head.sequence)
            {
                *newest = Some(BlockCopy {
                    sequence: head.sequence,
                    unit,
                    data: BufMut::copy_of(data).freeze(),
                });
            }
            if self.last_sequence.get() < head.sequence {
                self.last_sequence.set(head.sequence);
                self.last_unit.set(unit);
            }
        }
        Ok(())
    }

    /// Writes one of the two blocks.
    async fn rewrite(&self, place: usize, data: Buf) -> Result<()> {
        let _turn = self.turn.lock().await;
        // A failed entry leaves `next` empty: entries follow only entries that were written.
        let at = match self.next.take() {
            Some(at) => at,
            None => self.begin_unit(1 - place).await?,
        };
        let after = self.append(at, place, data).await?;
        let room = self.unit - after % self.unit;
        let fits = !after.is_multiple_of(self.unit) && room >= ENTRY_BYTES;
        self.next.set(fits.then_some(after));
        Ok(())
    }

    /// Erases another unit and writes the newest copy of block `other` to it, if the copy exists. Returns the place of
    /// the next entry.
    async fn begin_unit(&self, other: usize) -> Result<u64> {
        let newest = self.newest.borrow().clone();
        let holds = |unit: &u64| newest.iter().flatten().any(|copy| copy.unit == *unit);
        let last = self.last_unit.get();
        let mut units = (1..=UNITS).map(|n| (last + n) % UNITS);
        let unit = units.find(|unit| !holds(unit));
        let unit = unit.expect("two copies are in two of three units at most");
        self.last_unit.set(unit);
        let at = unit * self.unit;
        self.flash.discard(at..at + self.unit).await?;
        match &newest[other] {
            Some(copy) => self.append(at, other, copy.data.clone()).await,
            None => Ok(at),
        }
    }

    /// Writes an entry; returns its end.
    async fn append(&self, at: u64, place: usize, data: Buf) -> Result<u64> {
        let sequence = self.last_sequence.get() + 1;
        self.last_sequence.set(sequence);
        let head = CopyHeader {
            sequence,
            place: place as u32,
            data_crc: crc32c::crc32c(&data),
        };
        let mut entry = BufMut::zeroed(ENTRY_BYTES as usize);
        entry[..HEAD_BYTES].copy_from_slice(&head.encode());
        entry[HEAD_BYTES..].copy_from_slice(&data);
        self.flash
            .write(at, entry.freeze(), Durability::Fua)
            .await?;
        self.newest.borrow_mut()[place] = Some(BlockCopy {
            sequence,
            unit: at / self.unit,
            data,
        });
        Ok(at + ENTRY_BYTES)
    }

    fn parts(&self, range: Range<u64>) -> SplitRange {
        let behind = |at: u64| at.max(FRONT_BYTES) - FRONT_BYTES + UNITS * self.unit;
        SplitRange {
            front: range.start.min(FRONT_BYTES)..range.end.min(FRONT_BYTES),
            flash: behind(range.start)..behind(range.end),
        }
    }

    /// Copies the content of the first MiB from byte `at` on.
    fn peek(&self, at: u64, out: &mut [u8]) {
        out.fill(0);
        let newest = self.newest.borrow();
        for (copy, place) in newest.iter().zip(PLACES) {
            let Some(copy) = copy else { continue };
            let end = at + out.len() as u64;
            let from = place.max(at);
            let to = (place + BLOCK).min(end);
            if from < to {
                let within = (from - at) as usize..(to - at) as usize;
                let of_copy = (from - place) as usize..(to - place) as usize;
                out[within].copy_from_slice(&copy.data[of_copy]);
            }
        }
    }

    async fn write_front(&self, at: u64, data: Buf) -> Result<()> {
        let range = at..at + data.len() as u64;
        let blocks = || (range.start..range.end).step_by(BLOCK as usize);
        if let Some(stranger) = blocks().find(|block| !PLACES.contains(block)) {
            let why =
                format!("only the blocks at 0 and 512 KiB can be written, not that at {stranger}");
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
            return Err(DeviceError::io(DeviceOp::Write, range, source));
        }
        for block in blocks() {
            let place = usize::from(block == PLACES[1]);
            let from = (block - at) as usize;
            self.rewrite(place, data.slice(from..from + HEAD_BYTES))
                .await?;
        }
        Ok(())
    }

    /// Rewrites the two blocks with zeroes if they were written and begin in the range.
    async fn zero_front(&self, front: Range<u64>) -> Result<()> {
        for (place, at) in PLACES.into_iter().enumerate() {
            let written = self.newest.borrow()[place].is_some();
            if written && front.contains(&at) {
                let zeroes = BufMut::zeroed(HEAD_BYTES).freeze();
                self.rewrite(place, zeroes).await?;
            }
        }
        Ok(())
    }
}

fn two(blocks: &[[u8; HEAD_BYTES]]) -> (&[u8; HEAD_BYTES], &[u8; HEAD_BYTES]) {
    (&blocks[0], &blocks[1])
}

impl Device for FrontedFlash {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let SplitRange { front, flash } = self.parts(at..at + buf.len() as u64);
            if front.is_empty() {
                return self.flash.read(flash.start, buf).await;
            }
            let (in_front, behind) = buf.split_at_mut((front.end - front.start) as usize);
            self.peek(at, in_front);
            if !flash.is_empty() {
                let read = BufMut::zeroed(behind.len());
                let read = self.flash.read(flash.start, read).await?;
                behind.copy_from_slice(&read);
            }
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let SplitRange { front, flash } = self.parts(at..at + buf.len() as u64);
            if front.is_empty() {
                self.flash.write(flash.start, buf, durability).await
            } else {
                self.write_front(at, buf).await
            }
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.flash.flush()
    }

    /// Discards whole units behind the first MiB, counted from its end. Discards nothing of the first MiB.
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let SplitRange { flash, .. } = self.parts(range);
            if flash.is_empty() {
                Ok(())
            } else {
                self.flash.discard(flash).await
            }
        })
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let SplitRange { front, flash } = self.parts(range);
            self.zero_front(front).await?;
            if flash.is_empty() {
                Ok(())
            } else {
                self.flash.write_zeroes(flash, room).await
            }
        })
    }
}
