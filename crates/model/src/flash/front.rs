//! A first MiB before plain flash, in which two blocks can be rewritten.
//!
//! Logs of segments keep two copies of a superblock, at byte 0 and byte 512 KiB, and rewrite them in place;
//! their segments begin at 1 MiB. Flash has no such places. So a few erase units are kept back, and a rewrite of
//! one of these blocks is appended there, in an *entry*: a head that says which block and the how-manieth
//! rewrite it is, and the block. The newest sound entry of each block counts. All other bytes of the first MiB
//! are zeroes, and everything behind it is the rest of the flash, as it is.
//!
//! A unit that is full is left for another one, which is erased and begins with the newest copy of the other
//! block. It is one that has no newest copy of either, which there is since three are kept: so at any moment,
//! and whatever a power cut leaves of an entry or of an erase, what has been acknowledged is there.
//!
//! Invariants:
//! - A unit is erased only if neither block's newest copy lies in it.
//! - What was open before a restart is never appended to: pages may be half programmed there.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, Result, Room,
};
use forebay_rt::Lock;

use super::format::{HEAD_BYTES, Head};

/// Bytes before what is mapped one to one: where logs of segments have their first.
const FRONT_BYTES: u64 = 1 << 20;
/// The blocks that can be rewritten.
const PLACES: [u64; 2] = [0, 512 << 10];
const BLOCK: u64 = HEAD_BYTES as u64;
const ENTRY_BYTES: u64 = 2 * BLOCK;
/// Erase units kept back: one for the newest copy of each block, and one that may be erased.
const UNITS: u64 = 3;

/// Why flash cannot have a front.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FrontedError {
    /// It is not flash, or not of pages of 4096 bytes.
    #[error("the device has no erase units of pages of 4096 bytes")]
    NoFlash,
    /// The segments are not whole erase units.
    #[error(
        "a segment of {segment} bytes is not a multiple of an erase unit of {unit}: what is erased must \
         be given up as a whole (use larger segments, or gang fewer planes)"
    )]
    Segment {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of an erase unit.
        unit: u64,
    },
    /// There is nothing left behind what is kept back.
    #[error("the flash has {have} bytes; {need} are needed")]
    TooShort {
        /// Its length, in bytes.
        have: u64,
        /// The least that would do, in bytes.
        need: u64,
    },
    /// What is kept back cannot be read, and it may hold the newest copies.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Plain flash with a first MiB in which the blocks at byte 0 and at byte 512 KiB can be rewritten.
pub struct Fronted {
    flash: Rc<dyn Device>,
    geometry: Geometry,
    unit: u64,
    /// The newest copies.
    newest: RefCell<[Option<Copy>; 2]>,
    /// Where the next entry goes; none if it begins another unit.
    next: Cell<Option<u64>>,
    last_sequence: Cell<u64>,
    last_unit: Cell<u64>,
    /// Entries are written one after the other.
    turn: Rc<Lock>,
}

/// A block's copy.
#[derive(Clone)]
struct Copy {
    sequence: u64,
    /// The erase unit it lies in.
    unit: u64,
    data: Buf,
}

/// A range of the device, as what lies in the first MiB and what behind it, as bytes of the flash.
struct Parts {
    front: Range<u64>,
    flash: Range<u64>,
}

impl Fronted {
    /// Finds what was written to the two blocks; on flash without any of it they are zeroes. What uses the
    /// flash must give up `segment` bytes as a whole, from the first MiB on.
    ///
    /// # Errors
    /// If the segments do not suit the flash, or it cannot be read.
    pub async fn open(flash: Rc<dyn Device>, segment: u64) -> Result<Fronted, FrontedError> {
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
        let fronted = Fronted {
            geometry: Geometry {
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

    /// Looks for newer copies in an erase unit.
    async fn scan(&self, unit: u64) -> Result<()> {
        let entries = BufMut::zeroed(self.unit as usize);
        let entries = self.flash.read(unit * self.unit, entries).await?;
        for (head, data) in entries.as_chunks::<HEAD_BYTES>().0.chunks_exact(2).map(two) {
            let Some(head) = Head::decode(head) else {
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
                *newest = Some(Copy {
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
        // Only an entry that was written has another one behind it.
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

    /// Erases another unit and writes the newest copy of a block to it, if there is one. Gives where the next
    /// entry goes.
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

    /// Writes an entry; gives where it ends.
    async fn append(&self, at: u64, place: usize, data: Buf) -> Result<u64> {
        let sequence = self.last_sequence.get() + 1;
        self.last_sequence.set(sequence);
        let head = Head {
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
        self.newest.borrow_mut()[place] = Some(Copy {
            sequence,
            unit: at / self.unit,
            data,
        });
        Ok(at + ENTRY_BYTES)
    }

    fn parts(&self, range: Range<u64>) -> Parts {
        let behind = |at: u64| at.max(FRONT_BYTES) - FRONT_BYTES + UNITS * self.unit;
        Parts {
            front: range.start.min(FRONT_BYTES)..range.end.min(FRONT_BYTES),
            flash: behind(range.start)..behind(range.end),
        }
    }

    /// Copies what the first MiB holds from byte `at` on.
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
            return Err(DeviceError::io(Op::Write, range, source));
        }
        for block in blocks() {
            let place = usize::from(block == PLACES[1]);
            let from = (block - at) as usize;
            self.rewrite(place, data.slice(from..from + HEAD_BYTES))
                .await?;
        }
        Ok(())
    }

    /// Makes zeroes of what is not.
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

impl Device for Fronted {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let Parts { front, flash } = self.parts(at..at + buf.len() as u64);
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
            let Parts { front, flash } = self.parts(at..at + buf.len() as u64);
            match front.is_empty() {
                true => self.flash.write(flash.start, buf, durability).await,
                false => self.write_front(at, buf).await,
            }
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.flash.flush()
    }

    /// Of the first MiB nothing is given back. What lies behind it is erased by whole units, which are counted
    /// from its end.
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let Parts { flash, .. } = self.parts(range);
            match flash.is_empty() {
                true => Ok(()),
                false => self.flash.discard(flash).await,
            }
        })
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let Parts { front, flash } = self.parts(range);
            self.zero_front(front).await?;
            match flash.is_empty() {
                true => Ok(()),
                false => self.flash.write_zeroes(flash, room).await,
            }
        })
    }
}
