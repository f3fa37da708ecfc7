//! The cleaner: empties segments that hold little, so that they can be used again.
//!
//! What is live in a segment is appended to a stream of moved data, and the map is told. Nothing is given up by
//! that alone: a segment is used again only behind a checkpoint, which has the moved copies durable first. A
//! moved piece counts only where the map still points at where it came from, now and at recovery.

use std::rc::Rc;

use forebay_device::BufMut;
use forebay_units::{SECTOR_BYTES, Sector, SegmentSeq};

use crate::checks::{Contents, read_contents};
use crate::error::SpaceError;
use crate::extent::{Check, Extent, Replaced};
use crate::format::{Entry, Stream};
use crate::geometry::Slot;
use crate::place::Place;
use crate::prepared::mapped;
use crate::room::Room;
use crate::space::{Inner, Space};
use crate::usage::SegmentState;

/// A piece of a segment that is live: it is moved.
struct Live {
    sector: Sector,
    sectors: u64,
    place: Place,
}

/// Cleans when there is too little room.
pub(crate) async fn cleaner(inner: Rc<Inner>) {
    loop {
        let asked = inner.clean_asked.listen();
        if !inner.wants_cleaning() {
            asked.await;
            continue;
        }
        drop(asked);
        match inner.clean_one().await {
            Ok(true) => {}
            // Nothing can be gained before a checkpoint, or at all.
            Ok(false) => {
                inner.ask_for_checkpoint();
                inner.commit.progress().await;
            }
            Err(_) if inner.commit.failure().is_some() => return,
            // What cannot be read stays where it is; others may be cleaned.
            Err(error) => tracing::warn!(%error, "a segment cannot be cleaned"),
        }
    }
}

/// Looks at what was detached from the map, and gives up what lay there.
pub(crate) async fn reaper(inner: Rc<Inner>) {
    loop {
        let asked = inner.reap_asked.listen();
        let mut replaced = Vec::new();
        match inner.loading(|map| map.reap(&mut replaced)).await {
            Ok(true) => {
                inner.discount(&replaced);
                inner.commit.notify();
                inner.rt.yield_now().await;
            }
            Ok(false) => asked.await,
            Err(_) if inner.commit.failure().is_some() => return,
            // It may be readable later.
            Err(error) => {
                tracing::warn!(%error, "what was trimmed cannot be looked at");
                asked.await;
            }
        }
    }
}

impl Space {
    /// Empties a segment, if one is worth it. Says whether one was.
    ///
    /// # Errors
    /// If what is live in it cannot be read or moved.
    pub async fn clean(&self) -> Result<bool, SpaceError> {
        self.inner.clean_one().await
    }
}

impl Inner {
    fn wants_cleaning(&self) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let room = Room::of(&streams, &map);
        room.wants(&streams, &map, self.entries_since.get())
            .cleaning
    }

    /// The closed segment with the least in it, if emptying it gains anything.
    fn victim(&self) -> Option<(Slot, SegmentSeq)> {
        let streams = self.commit.composer();
        let most = streams.layout.segment_sectors() * 15 / 16;
        let segments = streams.usage.all().iter().enumerate();
        let worth = segments.filter(|(_, segment)| {
            let live = u64::from(segment.live);
            let hopeless = self.hopeless.borrow().contains(&segment.seq);
            segment.state == SegmentState::Closed && live > 0 && live < most && !hopeless
        });
        let least = worth.min_by_key(|(n, segment)| (segment.live, *n))?;
        Some((Slot(least.0 as u32), least.1.seq))
    }

    async fn clean_one(self: &Rc<Self>) -> Result<bool, SpaceError> {
        let Some((slot, segment)) = self.victim() else {
            return Ok(false);
        };
        let superblock = self.superblock.borrow().clone();
        self.commit.composer_mut().usage.pin(slot);
        let contents = read_contents(&*self.device, &superblock, slot, segment).await;
        let emptied = match contents {
            Ok(contents) => self.empty(slot, &contents).await,
            Err(error) => Err(error.into()),
        };
        self.unpin(slot);
        if emptied.is_err() {
            // Another segment is tried next; this one, when the volume is taken up again.
            self.hopeless.borrow_mut().insert(segment);
        }
        self.stats.borrow_mut().segments_cleaned += u64::from(emptied.is_ok());
        emptied
    }

    /// Moves what is live in a segment. Says whether there is less of it now.
    async fn empty(self: &Rc<Self>, slot: Slot, contents: &Contents) -> Result<bool, SpaceError> {
        let before = self.commit.composer().usage.get(slot).live;
        let layout = self.commit.composer().layout;
        let mut nodes = false;
        for (_, at, entry) in &contents.entries {
            let place = layout.place(slot, *at);
            match *entry {
                Entry::Data {
                    sector, sectors, ..
                }
                | Entry::Moved {
                    sector, sectors, ..
                } => {
                    self.move_piece(sector, sectors.into(), place).await?;
                }
                Entry::Node { level, key, .. } => {
                    nodes |= self.loading(|map| map.redirty(level, key, place)).await?;
                }
                Entry::Trim { .. } | Entry::Opened { .. } | Entry::Meta { .. } => {}
            }
        }
        self.send_off();
        let after = self.commit.composer().usage.get(slot).live;
        if nodes {
            // They leave with the next checkpoint.
            self.ask_for_checkpoint();
        }
        Ok(after < before)
    }

    /// Moves what is still live of a piece that was written at `place`.
    async fn move_piece(
        self: &Rc<Self>,
        sector: Sector,
        sectors: u64,
        place: Place,
    ) -> Result<(), SpaceError> {
        let mut pins = self.map.borrow().pins();
        self.prepare(sector, sectors, &mut pins).await?;
        for live in self.live(sector, sectors, place) {
            let buf = BufMut::zeroed((live.sectors * SECTOR_BYTES) as usize);
            let space = Space {
                inner: Rc::clone(self),
            };
            // If its user writes it meanwhile, this may be the new data; then it is no longer live here.
            let data = space.read(live.sector, buf).await?;
            self.append_moved(&live, &data).await?;
        }
        Ok(())
    }

    /// What the map still points at of a piece that was written at `place`.
    fn live(&self, sector: Sector, sectors: u64, place: Place) -> Vec<Live> {
        let mut live = Vec::new();
        for extent in mapped(&self.map.borrow(), sector, sectors) {
            let here = place.plus(extent.sector - sector.0);
            if extent.place == here {
                live.push(Live {
                    sector: Sector(extent.sector),
                    sectors: extent.sectors,
                    place: here,
                });
            }
        }
        live
    }

    /// Appends the copy of a piece, when there is room, if it is still live then.
    async fn append_moved(&self, piece: &Live, data: &[u8]) -> Result<(), SpaceError> {
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            let still = self.live(piece.sector, piece.sectors, piece.place);
            let whole = still.len() == 1 && still[0].sectors == piece.sectors;
            if still.is_empty() {
                return Ok(());
            }
            if whole && self.has_room_to_move(piece.sectors) {
                self.move_now(piece, data);
                return Ok(());
            }
            if !whole {
                // A part was written meanwhile. What is left is looked at again with the segment.
                return Ok(());
            }
            self.send_off();
            self.ask_for_checkpoint();
            progress.await;
        }
    }

    /// Composes what was moved, so that it is written.
    fn send_off(&self) {
        let mut streams = self.commit.composer_mut();
        streams.end_inside();
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.commit.has_work();
    }

    /// What was mapped is no longer.
    fn discount(&self, replaced: &[Replaced]) {
        let mut streams = self.commit.composer_mut();
        for gone in replaced {
            streams.usage.discount(gone.place, gone.sectors);
        }
    }

    fn has_room_to_move(&self, sectors: u64) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let stream = Stream(streams.counts.user);
        if streams.fits(stream, sectors * SECTOR_BYTES) {
            return true;
        }
        let floor = 2 * Room::of(&streams, &map).for_checkpoint;
        streams.usage.runway() > floor && streams.can_open(1)
    }

    /// Appends the copy of a piece that is live, and has the map point at it.
    fn move_now(&self, piece: &Live, data: &[u8]) {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let (stream, crc) = (Stream(streams.counts.user), crc32c::crc32c(data));
        let born = streams
            .usage
            .get(streams.layout.slot_of(piece.place))
            .opened;
        let entry = Entry::Moved {
            sector: piece.sector,
            sectors: piece.sectors as u8,
            crc,
            from: piece.place,
            born,
        };
        let place = streams.append(stream, entry, data);
        let to = Extent {
            sector: piece.sector.0,
            sectors: piece.sectors,
            place,
            check: Check::Inline(crc),
        };
        let mut gone = Vec::new();
        let moved = map.replace_if(piece.place, to, &mut gone);
        moved.expect("the nodes were prepared");
        streams.usage.count(place, piece.sectors);
        for gone in gone {
            streams.usage.discount(gone.place, gone.sectors);
        }
        self.entries_since.set(self.entries_since.get() + 1);
        self.stats.borrow_mut().bytes_moved += data.len() as u64;
    }
}
