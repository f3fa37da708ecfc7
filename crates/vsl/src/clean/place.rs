//! Moving what is live.

use std::rc::Rc;

use forebay_placement::placement::{MovedPiece, MovedPlace};
use forebay_units::{SECTOR_BYTES, Sector};

use super::load::Piece;
use crate::error::SpaceError;
use crate::format::{Entry, Stream};
use crate::prepared::mapped;
use crate::room::Room;
use crate::space::Inner;
use forebay_extents::{Check, Extent};

impl Inner {
    /// Appends the copy of a piece to where the placement wants it, as far as it is still live then.
    pub(super) async fn move_piece(self: &Rc<Self>, piece: Piece) -> Result<(), SpaceError> {
        let mut rest = piece;
        while rest.sectors > 0 {
            let (stream, sectors) = self.place_moved(&rest);
            let behind = Piece {
                sector: rest.sector.plus(sectors),
                sectors: rest.sectors - sectors,
                place: rest.place.plus(sectors),
                data: rest.data.slice((sectors * SECTOR_BYTES) as usize..),
                ..rest.clone()
            };
            let part = Piece {
                sectors,
                data: rest.data.slice(..(sectors * SECTOR_BYTES) as usize),
                ..rest
            };
            self.append_moved(stream, &part).await?;
            rest = behind;
        }
        Ok(())
    }

    /// The stream that a piece is moved to, and how much of it.
    fn place_moved(&self, piece: &Piece) -> (Stream, u64) {
        let streams = self.commit.composer();
        let counts = streams.counts;
        let moved = MovedPiece {
            at: piece.sector,
            sectors: piece.sectors as u32,
            now: streams.clock,
            born: piece.born,
            stream: counts.named(piece.stream),
            segment_age: streams.clock.since(piece.closed),
        };
        let placed = self.placement.borrow_mut().place_moved(&moved);
        let (MovedPlace::Append(n) | MovedPlace::Plug(n)) = placed.place;
        let stream = Stream(counts.user + n.min(counts.moved - 1));
        (stream, u64::from(placed.sectors).clamp(1, piece.sectors))
    }

    async fn append_moved(
        self: &Rc<Self>,
        stream: Stream,
        piece: &Piece,
    ) -> Result<(), SpaceError> {
        let mut pins = self.map.borrow().pins();
        self.prepare(piece.sector, piece.sectors, &mut pins).await?;
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            if self.has_room_to_move(stream, piece.sectors) {
                self.move_now(stream, piece);
                return Ok(());
            }
            self.make_way();
            progress.await;
        }
    }

    /// Sends off what was moved, and has what is empty be used again.
    pub(crate) fn make_way(self: &Rc<Self>) {
        self.send_off();
        let need = Room::of(&self.commit.composer(), &self.map.borrow()).for_cleaner;
        self.replenish(need);
        let usable = self.commit.composer().usage.usable();
        if usable == 0 {
            self.ask_for_checkpoint();
        }
    }

    /// True if there is room for an entry of moved data.
    pub(crate) fn has_room_to_move(&self, stream: Stream, sectors: u64) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        if streams.fits(stream, sectors * SECTOR_BYTES) {
            return true;
        }
        let floor = 2 * Room::of(&streams, &map).for_checkpoint;
        streams.usage.runway() > floor && streams.can_open(1)
    }

    /// Appends the copy of what is still live of a piece, and has the map point at it.
    fn move_now(self: &Rc<Self>, stream: Stream, piece: &Piece) {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let slot = streams.layout.slot_of(piece.place);
        if streams.usage.get(slot).seq != piece.segment {
            return;
        }
        for extent in mapped(&map, piece.sector, piece.sectors) {
            let skip = extent.sector - piece.sector.0;
            // Its user wrote it meanwhile, or trimmed it.
            if extent.place != piece.place.plus(skip) {
                continue;
            }
            let from = (skip * SECTOR_BYTES) as usize;
            let data = &piece.data[from..from + (extent.sectors * SECTOR_BYTES) as usize];
            let crc = crc32c::crc32c(data);
            let entry = Entry::Moved {
                sector: Sector(extent.sector),
                sectors: extent.sectors as u8,
                crc,
                from: extent.place,
                born: piece.born,
            };
            let place = streams.append(stream, entry, data);
            let to = Extent {
                place,
                check: Check::Inline(crc),
                ..extent
            };
            let mut gone = Vec::new();
            let moved = map.replace_if(extent.place, to, &mut gone);
            moved.expect("the nodes were prepared");
            streams.usage.count(place, extent.sectors);
            for gone in gone {
                streams.usage.discount(gone.place, gone.sectors);
            }
            self.entries_since.set(self.entries_since.get() + 1);
            self.stats.borrow_mut().bytes_moved += data.len() as u64;
        }
        drop((streams, map));
        self.did(piece.sectors);
    }
}
