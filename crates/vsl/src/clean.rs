//! The cleaner: empties segments that hold little, so that they can be used again.
//!
//! What is live in a few segments is read, put in order, and appended to streams of moved data, and the map is
//! told. Nothing is given up by that alone: a segment is used again only when the moved copies are durable
//! (`usage.rs`). A moved piece counts only where the map still points at where it came from, now and at
//! recovery.
//!
//! - `clean/load.rs`: what is live in segments, read and checked.
//! - `clean/place.rs`: moving it.

mod load;
mod place;

use std::rc::Rc;
use std::time::Duration;

use forebay_placement::pace::{Decision, Urgency};
use forebay_placement::placement::{Collected, Order};
use forebay_segments::Composer as _;
use forebay_units::SegmentSeq;

use crate::error::SpaceError;
use crate::geometry::Slot;
use crate::pacing::window;
use crate::room::Room;
use crate::space::Inner;
use forebay_extents::Replaced;
use load::Piece;

/// The most bytes of segments that are cleaned together.
const WINDOW_BYTES: u64 = 32 << 20;
/// Unless room is short, a segment is cleaned only for this part of it.
const WORTH_PART: u32 = 4;

/// A segment that is being cleaned.
struct Chosen {
    slot: Slot,
    segment: SegmentSeq,
    live: u32,
    gain: u32,
}

/// Cleans when there is too little room.
pub(crate) async fn cleaner(inner: Rc<Inner>) {
    let now = || inner.rt.now().as_nanos();
    loop {
        let asked = inner.clean_asked.listen();
        let progress = inner.commit.progress();
        match inner.level_wear().await {
            Ok(false) => {}
            Ok(true) => continue,
            Err(_) if inner.commit.failure().is_some() => return,
            Err(error) => tracing::warn!(%error, "a segment that is worn little cannot be emptied"),
        }
        let decision = {
            let (streams, map) = (inner.commit.composer(), inner.map.borrow());
            let pacing = inner.pacing.borrow();
            pacing.decide(&streams, &map, inner.rt.now())
        };
        let urgency = match decision {
            Decision::Clean(urgency) => urgency,
            Decision::Rest => {
                inner.pacing.borrow_mut().pacer.pause();
                asked.await;
                inner.pacing.borrow_mut().pacer.begin(now());
                continue;
            }
            Decision::Wait(nanos) => {
                let span = Duration::from_nanos(nanos);
                let _ = inner.rt.timeout(span, asked).await;
                continue;
            }
        };
        drop(asked);
        match inner.clean_window(urgency).await {
            Ok(true) => {}
            // Nothing can be gained before a checkpoint, or at all.
            Ok(false) => {
                if urgency == Urgency::Urgent {
                    inner.ask_for_checkpoint();
                }
                progress.await;
            }
            Err(_) if inner.commit.failure().is_some() => return,
            // What cannot be read stays where it is; others may be cleaned.
            Err(error) => tracing::warn!(%error, "a segment cannot be cleaned"),
        }
        inner.rt.yield_now().await;
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

impl Inner {
    /// Segments to be cleaned together: as many as gain what a window is to gain, and as can be moved with the room
    /// that there is. They are not chosen again before the next checkpoint.
    fn choose(&self, urgency: Urgency) -> Vec<Chosen> {
        let selection = self.placement.borrow().selection();
        let mut streams = self.commit.composer_mut();
        let room = Room::of(&streams, &self.map.borrow());
        let segment = streams.layout.dense_sectors();
        let most = (WINDOW_BYTES / u64::from(streams.layout.segment_bytes)).max(1) as usize;
        let (now, wanted) = (streams.clock, window(&streams));
        let victims = streams.usage.choose(selection, now, wanted, most);
        let moved = usize::from(streams.counts.moved);
        let runway = streams.usage.runway().saturating_sub(room.for_cleaner);
        let mut budget = (runway + 1).saturating_sub(moved) as u64 * segment;
        let mut chosen: Vec<Chosen> = Vec::new();
        for victim in victims {
            let slot = Slot(victim.segment);
            let seq = streams.usage.get(slot).seq;
            let worth = urgency == Urgency::Urgent || victim.gain >= segment as u32 / WORTH_PART;
            let live = u64::from(victim.live);
            let affordable = chosen.is_empty() || live <= budget;
            // What is in memory is not on the medium yet.
            if !worth || !affordable || streams.flight().segment(seq).is_some() {
                continue;
            }
            if !streams.usage.begin_cleaning(slot) {
                continue;
            }
            budget = budget.saturating_sub(live);
            streams.usage.pin(slot);
            chosen.push(Chosen {
                slot,
                segment: seq,
                live: victim.live,
                gain: victim.gain,
            });
        }
        chosen
    }

    /// Empties a few segments, if any are worth it. Says whether some were.
    async fn clean_window(self: &Rc<Self>, urgency: Urgency) -> Result<bool, SpaceError> {
        let chosen = self.choose(urgency);
        if chosen.is_empty() {
            self.replenish(0);
            return Ok(false);
        }
        let sum = |part: fn(&Chosen) -> u32| chosen.iter().map(|one| u64::from(part(one))).sum();
        let (gain, live) = (sum(|one| one.gain), sum(|one| one.live));
        self.pacing.borrow_mut().pacer.begin_window(gain, live);
        let moved = self.empty(&chosen).await;
        for one in &chosen {
            self.commit.composer_mut().usage.end_cleaning(one.slot);
        }
        let pacer = &mut self.pacing.borrow_mut().pacer;
        pacer.end_window();
        // What is empty now counts as free.
        pacer.freed(u64::MAX);
        moved?;
        Ok(true)
    }

    /// Empties a segment that is worn less than others, so that it is used. Says whether there was one.
    async fn level_wear(self: &Rc<Self>) -> Result<bool, SpaceError> {
        let Some(unworn) = self.choose_unworn() else {
            return Ok(false);
        };
        let before = self.stats.borrow().bytes_moved;
        let slot = unworn.slot;
        let moved = self.empty(&[unworn]).await;
        self.commit.composer_mut().usage.end_cleaning(slot);
        let stats = &mut self.stats.borrow_mut();
        stats.bytes_levelled += stats.bytes_moved - before;
        moved.map(|()| true)
    }

    /// The segment that is to be emptied because it is worn less than others, if there is room for that.
    fn choose_unworn(&self) -> Option<Chosen> {
        let mut streams = self.commit.composer_mut();
        let room = Room::of(&streams, &self.map.borrow());
        if streams.usage.runway() < room.low {
            return None;
        }
        let slot = streams.usage.unworn()?;
        let known = *streams.usage.get(slot);
        let in_memory = streams.flight().segment(known.seq).is_some();
        if in_memory || !streams.usage.begin_cleaning(slot) {
            return None;
        }
        streams.usage.pin(slot);
        Some(Chosen {
            slot,
            segment: known.seq,
            live: known.live,
            gain: 0,
        })
    }

    async fn empty(self: &Rc<Self>, chosen: &[Chosen]) -> Result<(), SpaceError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut worst = Ok(());
        for one in chosen {
            let loaded = self.load_live(one.slot, one.segment).await;
            // It is in memory now: if its segment is used again meanwhile, nothing of it is live any more.
            self.unpin(one.slot);
            match loaded {
                Ok(loaded) => pieces.extend(loaded),
                Err(error) => {
                    // Another segment is tried next; this one, when the volume is taken up again.
                    self.commit.composer_mut().usage.give_up(one.slot);
                    worst = Err(error);
                }
            }
            let sectors = self.commit.composer().layout.segment_sectors();
            self.did(sectors);
        }
        if self.placement.borrow().needs().order == Order::Age {
            pieces.sort_by_key(|piece| piece.born);
        }
        for piece in pieces {
            self.move_piece(piece).await?;
        }
        self.send_off();
        for one in chosen {
            self.tell_collected(one);
        }
        self.replenish(0);
        self.commit.notify();
        worst
    }

    /// So many sectors were read or written to clean.
    fn did(&self, sectors: u64) {
        let now = self.rt.now().as_nanos();
        self.pacing.borrow_mut().pacer.did(sectors, now);
    }

    /// Tells the placement of a segment that is empty now.
    fn tell_collected(&self, one: &Chosen) {
        let streams = self.commit.composer();
        let segment = *streams.usage.get(one.slot);
        if segment.seq != one.segment || segment.live > 0 {
            return;
        }
        self.stats.borrow_mut().segments_cleaned += 1;
        let collected = Collected {
            stream: streams.counts.named(segment.stream),
            opened: segment.born,
            closed: segment.closed,
            now: streams.clock,
            live: one.live,
            capacity: streams.layout.dense_sectors() as u32,
        };
        self.placement.borrow_mut().collected(&collected);
    }

    /// Composes what was moved, so that it is written.
    pub(crate) fn send_off(self: &Rc<Self>) {
        let mut streams = self.commit.composer_mut();
        streams.end_inside();
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.commit.has_work();
    }

    /// What was mapped is no longer.
    pub(crate) fn discount(&self, replaced: &[Replaced]) {
        let mut streams = self.commit.composer_mut();
        for gone in replaced {
            streams.usage.discount(gone.place, gone.sectors);
        }
    }
}
