//! Doing a batch: waiting for room, then all of it in one go.

use forebay_placement::WriteClock;
use std::rc::Rc;

use forebay_device::{Buf, Durability};
use forebay_segments::Composer as _;
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector};

use crate::batch::{Batch, Op};
use crate::error::SpaceError;
use crate::extent::{Check, Extent, Replaced};
use crate::format::{Entry, Stream};
use crate::map::Map;
use crate::place::Place;
use crate::prepared::{mapped, unmap};
use crate::room::{Room, Verdict};
use crate::space::{Inner, Space, is_durable};
use crate::streams::Streams;

impl Space {
    /// Does a batch: all of it, in order, or nothing.
    ///
    /// # Errors
    /// If it is refused, or the volume has failed. Then nothing of it was done.
    pub async fn apply(&self, batch: &Batch, durability: Durability) -> Result<(), SpaceError> {
        let inner = &self.inner;
        batch.check(self.sectors())?;
        let mut ranges = Vec::with_capacity(batch.ops().len());
        for op in batch.ops() {
            ranges.push(op.range()?);
        }
        let mut pins = inner.map.borrow().pins();
        for (op, (sector, sectors)) in batch.ops().iter().zip(&ranges) {
            match op {
                Op::Write { .. } => inner.prepare(*sector, *sectors, &mut pins).await?,
                Op::Trim { .. } => {
                    inner.prepare_to_unmap(*sector, *sectors, &mut pins).await?;
                }
            }
        }
        inner.admit(batch, &ranges).await?;
        // From here to the end of the batch nothing waits, so nothing comes between its parts.
        let target = inner.do_all(batch);
        drop(pins);
        inner.after_batch();
        if is_durable(durability) {
            let target = target.max(inner.close_open());
            inner.commit.flush(target).await?;
        }
        Ok(())
    }
}

impl Inner {
    fn close_open(&self) -> forebay_units::RecordSeq {
        self.commit.composer_mut().close()
    }

    /// Waits until there is room for a batch. In a line: who came first goes first.
    async fn admit(&self, batch: &Batch, ranges: &[(Sector, u64)]) -> Result<(), SpaceError> {
        if !self.admission.is_claimed(&(0..1)) && self.has_room(batch, ranges)? {
            return Ok(());
        }
        let _turn = self.admission.lock(0..1).await;
        loop {
            let progress = self.commit.progress();
            if self.has_room(batch, ranges)? {
                return Ok(());
            }
            self.clean_asked.notify_all();
            progress.await;
        }
    }

    /// Whether a batch can be done now.
    ///
    /// # Errors
    /// If it never can be, as things are, or the volume has failed.
    fn has_room(&self, batch: &Batch, ranges: &[(Sector, u64)]) -> Result<bool, SpaceError> {
        if let Some(failure) = self.commit.failure() {
            return Err(failure.into());
        }
        let streams = self.commit.composer();
        let map = self.map.borrow();
        let room = Room::of(&streams, &map);
        match room.verdict(&streams, &map, batch, ranges) {
            Verdict::Now => Ok(true),
            Verdict::Wait { checkpoint } => {
                drop((streams, map));
                if checkpoint {
                    self.ask_for_checkpoint();
                }
                Ok(false)
            }
            Verdict::Never { need, have } => Err(SpaceError::Full { need, have }),
        }
    }

    /// Does all of a batch. Says the newest record that is composed; what is open comes behind it.
    fn do_all(&self, batch: &Batch) -> forebay_units::RecordSeq {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let mut doing = Doing {
            streams: &mut streams,
            map: &mut map,
            gone: Vec::new(),
            huge: self.options.huge_trim,
        };
        for op in batch.ops() {
            match op {
                Op::Write { sector, data } => doing.write(*sector, data),
                Op::Trim { sector, sectors } => doing.trim(*sector, *sectors),
            }
        }
        streams.end_batch();
        drop(map);
        self.commit.appended(&mut streams, false);
        self.entries_since
            .set(self.entries_since.get() + batch.entries());
        let mut stats = self.stats.borrow_mut();
        stats.batches += 1;
        stats.bytes_written += batch.bytes();
        streams.last_record()
    }

    /// Has the cleaner and checkpoints look whether there is something to do.
    fn after_batch(self: &Rc<Self>) {
        let wants = {
            let (streams, map) = (self.commit.composer(), self.map.borrow());
            Room::of(&streams, &map).wants(&streams, &map, self.entries_since.get())
        };
        if wants.checkpoint {
            self.ask_for_checkpoint();
        }
        if wants.cleaning {
            self.clean_asked.notify_all();
        }
        if self.map.borrow().detached() > 0 {
            self.reap_asked.notify_all();
        }
        self.map
            .borrow_mut()
            .shrink(self.options.map_bytes as usize);
    }
}

/// A batch while it is being done.
struct Doing<'a> {
    streams: &'a mut Streams,
    map: &'a mut Map,
    gone: Vec<Replaced>,
    /// Trims from this length on do not look at all that was mapped there.
    huge: u64,
}

/// Pieces that lie side by side, in the space and on the medium.
struct Run {
    sector: Sector,
    sectors: u64,
    place: Place,
    /// Of a run of one piece.
    crc: Option<u32>,
}

impl Doing<'_> {
    /// The stream that a user's write goes to.
    fn stream_for(&mut self, sector: Sector, sectors: u64) -> Stream {
        let _ = (sector, sectors);
        Stream(0)
    }

    fn write(&mut self, sector: Sector, data: &Buf) {
        let (mut at, mut rest) = (sector, &data[..]);
        let mut run: Option<Run> = None;
        while !rest.is_empty() {
            let in_line = LINE_SECTORS - u64::from(at.in_line());
            let sectors = in_line.min(rest.len() as u64 / SECTOR_BYTES);
            let (piece, more) = rest.split_at((sectors * SECTOR_BYTES) as usize);
            let stream = self.stream_for(at, sectors);
            if self.streams.counts.user > 1 && self.is_open_elsewhere(at, sectors, stream) {
                self.streams.end_round();
            }
            let crc = crc32c::crc32c(piece);
            let entry = Entry::Data {
                sector: at,
                sectors: sectors as u8,
                crc,
            };
            let place = self.streams.append(stream, entry, piece);
            match &mut run {
                Some(run) if run.place.plus(run.sectors) == place => {
                    run.sectors += sectors;
                    run.crc = None;
                }
                _ => {
                    let ended = run.replace(Run {
                        sector: at,
                        sectors,
                        place,
                        crc: Some(crc),
                    });
                    ended.into_iter().for_each(|ended| self.map_to(ended));
                }
            }
            (at, rest) = (at.plus(sectors), more);
        }
        run.into_iter().for_each(|run| self.map_to(run));
        let written = data.len() as u64 / SECTOR_BYTES;
        self.streams.clock = WriteClock(self.streams.clock.0 + written);
    }

    fn map_to(&mut self, run: Run) {
        let extent = Extent {
            sector: run.sector.0,
            sectors: run.sectors,
            place: run.place,
            check: run.crc.map_or(Check::Segment, Check::Inline),
        };
        let set = self.map.set(extent, &mut self.gone);
        set.expect("the nodes were prepared");
        self.streams.usage.count(run.place, run.sectors);
        self.discount();
    }

    fn trim(&mut self, sector: Sector, sectors: u64) {
        let stream = Stream(0);
        let elsewhere = || sectors >= self.huge || self.is_open_elsewhere(sector, sectors, stream);
        if self.streams.counts.user > 1 && elsewhere() {
            self.streams.end_round();
        }
        self.streams
            .append(stream, Entry::Trim { sector, sectors }, &[]);
        unmap(self.map, sector, sectors, self.huge, &mut self.gone);
        self.discount();
    }

    /// True if a part of the range lies in an open record of another stream.
    fn is_open_elsewhere(&self, sector: Sector, sectors: u64, stream: Stream) -> bool {
        let mapped = mapped(self.map, sector, sectors);
        let mut mapped = mapped.into_iter();
        mapped.any(|extent| self.streams.is_open_elsewhere(extent.place, stream))
    }

    fn discount(&mut self) {
        for gone in self.gone.drain(..) {
            self.streams.usage.discount(gone.place, gone.sectors);
        }
    }
}
