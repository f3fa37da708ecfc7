//! Bringing home: cold pages are kept where they are, in the long run.
//!
//! What a placement wants in place is appended like everything else, so it is acknowledged, checked, and part of its
//! batch as everything else is. Only then it is written *home*, to where it lay before: many lines at a time, in the order
//! of their places. When that is durable a record says so, and the copy in the log is no longer live. (HyLog overwrites
//! in place at once; the way by a log is DCD's, and so is what is gained: writers do not wait for the arm, which goes
//! over the medium in one direction.)
//!
//! Invariants:
//! - A line is written home only when the record that it was appended with is durable: until then, what lies there may
//!   be needed.
//! - A record says that it is home only when it is, durably.
//! - Home is where the same line lay as a whole: cleaning finds it there by the summary of that segment, though the
//!   checksum there is of what lay there before. The map has the right one.
//! - While something is written to a segment, it is neither cleaned nor used again, until the record that says so is
//!   composed.
//! - What was written, moved or trimmed meanwhile stays as that left it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Durability};
use forebay_extents::{Check, Extent, Map, Place};
use forebay_rt::Instant;
use forebay_segments::Composer as _;
use forebay_units::{LINE_BYTES, LINE_SECTORS, Line, Sector, SegmentSeq};
use futures_util::StreamExt;
use futures_util::stream;

use crate::error::SpaceError;
use crate::format::{Entry, Stream};
use crate::geometry::Slot;
use crate::options::Options;
use crate::prepared::mapped;
use crate::space::Inner;
use crate::streams::Streams;

/// At most one in so many bytes of the medium are on their way home: till then they take room in the log. But so many may
/// be.
const MEDIUM_PART: u64 = 512;
const LEAST_BYTES: u64 = 256 << 10;
/// What has waited for so long is brought home even if it is little.
const DELAY: Duration = Duration::from_secs(1);
/// Writes under way at once, as many as disks put in order.
const WRITES: usize = 32;
/// The most lines that are written home as one.
const RUN_LINES: usize = 64;

/// A line on its way home.
#[derive(Clone)]
struct Away {
    /// Where it is to be written, in which segment.
    home: Place,
    segment: SegmentSeq,
    /// Where its copy in the log lies.
    copy: Place,
    crc: u32,
    data: Buf,
}

/// Lines on their way home.
pub(crate) struct Homes {
    /// The most bytes of them.
    bytes_max: u64,
    waiting: BTreeMap<Line, Away>,
    /// Lines that are being written.
    under_way: usize,
    /// When the first of those that wait came.
    since: Option<Instant>,
}

impl Homes {
    /// None, of a medium of so many bytes.
    pub(crate) fn new(options: &Options, medium: u64) -> Homes {
        Homes {
            bytes_max: options
                .home_bytes
                .min((medium / MEDIUM_PART).max(LEAST_BYTES)),
            waiting: BTreeMap::new(),
            under_way: 0,
            since: None,
        }
    }

    /// Bytes that wait for being written home, or are being written.
    fn bytes(&self) -> u64 {
        (self.waiting.len() + self.under_way) as u64 * LINE_BYTES
    }

    /// When those that wait are to be brought home, if any do.
    fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.since.filter(|_| !self.waiting.is_empty())?;
        let many = self.waiting.len() as u64 * LINE_BYTES >= self.bytes_max / 2;
        Some(if many { now } else { since.plus(DELAY) })
    }

    /// Something else was written for these sectors, that is not to be brought home.
    pub(crate) fn forget(&mut self, sector: Sector) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&sector.line());
        }
    }

    /// A line was appended that is to be brought home.
    pub(crate) fn add(
        &mut self,
        line: Line,
        home: Home,
        copy: (Place, u32),
        data: Buf,
        now: Instant,
    ) {
        if self.waiting.is_empty() {
            self.since = Some(now);
        }
        let away = Away {
            home: home.place,
            segment: home.segment,
            copy: copy.0,
            crc: copy.1,
            data,
        };
        self.waiting.insert(line, away);
    }

    /// Where a line is at home, if it lies whole in a segment that is on the medium, or is on its way to one.
    pub(crate) fn of(&self, line: Line, map: &Map, streams: &Streams, block: u64) -> Option<Home> {
        let place = whole(map, line)?;
        let away = self.waiting.get(&line).filter(|away| away.copy == place);
        let known = away.map(|away| Home {
            place: away.home,
            segment: away.segment,
        });
        let here = || Home {
            place,
            segment: streams.usage.get(streams.layout.slot_of(place)).seq,
        };
        let home = known.unwrap_or_else(here);
        let aligned = home.place.bytes().is_multiple_of(block) && LINE_BYTES >= block;
        (aligned && home.takes(streams)).then_some(home)
    }
}

/// Where a line may be written.
#[derive(Clone, Copy)]
pub(crate) struct Home {
    place: Place,
    segment: SegmentSeq,
}

impl Home {
    /// True if it may be written there now: the segment is still what it was, full, and on the medium.
    fn takes(&self, streams: &Streams) -> bool {
        let slot = streams.layout.slot_of(self.place);
        streams.usage.may_overwrite(slot, self.segment)
            && streams.flight().segment(self.segment).is_none()
    }
}

/// Where a line lies, if it lies in one piece.
fn whole(map: &Map, line: Line) -> Option<Place> {
    let first = line.first_sector();
    let extents = mapped(map, first, LINE_SECTORS);
    let place = extents
        .first()
        .filter(|extent| extent.sector == first.0)?
        .place;
    let mut next = first.0;
    for extent in &extents {
        if extent.sector != next || extent.place != place.plus(next - first.0) {
            return None;
        }
        next = extent.end();
    }
    (next == first.0 + LINE_SECTORS).then_some(place)
}

/// Segments that something is written home to.
struct Claim<'a> {
    inner: &'a Rc<Inner>,
    slots: Vec<Slot>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut free = false;
        for slot in &self.slots {
            let usage = &mut self.inner.commit.composer_mut().usage;
            free |= usage.end_overwriting(*slot);
        }
        if free {
            self.inner.commit.notify();
        }
    }
}

/// What is under way is not any more when this is gone.
struct UnderWay<'a>(&'a Rc<Inner>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.homes.borrow_mut().under_way = 0;
        self.0.commit.notify();
    }
}

/// Brings home what waits for it.
pub(crate) async fn homeward(inner: Rc<Inner>) {
    loop {
        let asked = inner.home_asked.listen();
        let now = inner.rt.now();
        let due = inner.homes.borrow().due(now);
        match due {
            None => asked.await,
            Some(due) if due > now => {
                let _ = inner.rt.timeout(due.since(now), asked).await;
            }
            Some(_) => {
                drop(asked);
                match inner.bring_home().await {
                    Ok(()) => {}
                    Err(_) if inner.commit.failure().is_some() => return,
                    // It stays where it was appended.
                    Err(error) => {
                        tracing::warn!(%error, "what was written could not be brought home")
                    }
                }
                inner.rt.yield_now().await;
            }
        }
    }
}

impl Inner {
    /// Waits until little enough is on its way home.
    pub(crate) async fn wait_for_homes(&self) {
        loop {
            let progress = self.commit.progress();
            let (bytes, most) = {
                let homes = self.homes.borrow();
                (homes.bytes(), homes.bytes_max)
            };
            if bytes > 0 && bytes >= most / 2 {
                self.home_asked.notify_all();
            }
            if bytes <= most || self.commit.failure().is_some() {
                return;
            }
            progress.await;
        }
    }

    async fn bring_home(self: &Rc<Self>) -> Result<(), SpaceError> {
        let lines = {
            let homes = &mut *self.homes.borrow_mut();
            homes.under_way = homes.waiting.len();
            std::mem::take(&mut homes.waiting)
        };
        let _under_way = UnderWay(self);
        let appended = self.close_open();
        self.commit.has_work();
        self.commit.flush(appended).await?;
        let mut pins = self.map.borrow().pins();
        for line in lines.keys() {
            self.prepare(line.first_sector(), LINE_SECTORS, &mut pins)
                .await?;
        }
        let (claim, lines) = self.claim(lines);
        let home = self.write_home(lines).await;
        if home.is_empty() {
            return Ok(());
        }
        // A flush that failed may have lost what it was for: no later one makes that durable.
        let flushed = self.device.flush().await;
        flushed.map_err(|error| self.commit.fail(&error.to_string()))?;
        for (line, away) in &home {
            self.tell_home(*line, away).await?;
        }
        self.send_off();
        drop(claim);
        Ok(())
    }

    /// What may still be written home, in the order of places. Its segments are kept as they are.
    fn claim(self: &Rc<Self>, lines: BTreeMap<Line, Away>) -> (Claim<'_>, Vec<(Line, Away)>) {
        let mut streams = self.commit.composer_mut();
        let map = self.map.borrow();
        let mut lines: Vec<(Line, Away)> = lines
            .into_iter()
            .filter(|(line, away)| {
                let home = Home {
                    place: away.home,
                    segment: away.segment,
                };
                whole(&map, *line) == Some(away.copy) && home.takes(&streams)
            })
            .collect();
        lines.sort_by_key(|(_, away)| away.home.0);
        let layout = streams.layout;
        let mut slots: Vec<Slot> = lines
            .iter()
            .map(|(_, away)| layout.slot_of(away.home))
            .collect();
        slots.dedup();
        for slot in &slots {
            streams.usage.begin_overwriting(*slot);
        }
        let claim = Claim { inner: self, slots };
        (claim, lines)
    }

    /// Writes lines home that come in the order of their places. Says which of them were written.
    async fn write_home(&self, lines: Vec<(Line, Away)>) -> Vec<(Line, Away)> {
        let mut runs: Vec<Vec<(Line, Away)>> = Vec::new();
        for (line, away) in lines {
            match runs.last_mut() {
                Some(run)
                    if run.len() < RUN_LINES
                        && run[run.len() - 1].1.home.plus(LINE_SECTORS) == away.home =>
                {
                    run.push((line, away));
                }
                _ => runs.push(vec![(line, away)]),
            }
        }
        let writes = stream::iter(runs).map(async |run| {
            let at = self.commit.composer().layout.place_at(run[0].1.home);
            let mut bytes = BufMut::zeroed(run.len() * LINE_BYTES as usize);
            for (chunk, (_, away)) in bytes.chunks_exact_mut(LINE_BYTES as usize).zip(&run) {
                chunk.copy_from_slice(&away.data);
            }
            let written = self.device.write(at, bytes.freeze(), Durability::Flush);
            match written.await {
                Ok(()) => run,
                Err(error) => {
                    // They stay where they were appended.
                    tracing::warn!(%error, at, "a page could not be written home");
                    Vec::new()
                }
            }
        });
        let written: Vec<Vec<(Line, Away)>> = writes.buffer_unordered(WRITES).collect().await;
        written.into_iter().flatten().collect()
    }

    /// Appends that a line is home, if the space still lies at the copy that was brought there.
    async fn tell_home(self: &Rc<Self>, line: Line, away: &Away) -> Result<(), SpaceError> {
        let counts = self.commit.composer().counts;
        let stream = Stream(counts.user + counts.moved - 1);
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            if self.has_room_to_move(stream, 0) {
                break;
            }
            self.make_way();
            progress.await;
        }
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        if whole(&map, line) != Some(away.copy) {
            return Ok(());
        }
        let entry = Entry::Home {
            line,
            crc: away.crc,
            from: away.copy,
            place: away.home,
        };
        streams.append(stream, entry, &[]);
        let to = at_home(line, away.home, away.crc);
        let mut gone = Vec::new();
        let replaced = map.replace_if(away.copy, to, &mut gone);
        replaced.expect("the nodes were prepared");
        streams.usage.count(away.home, LINE_SECTORS);
        for gone in gone {
            streams.usage.discount(gone.place, gone.sectors);
        }
        self.entries_since.set(self.entries_since.get() + 1);
        self.stats.borrow_mut().bytes_in_place += LINE_BYTES;
        Ok(())
    }
}

/// How a line is mapped that is at home.
pub(crate) fn at_home(line: Line, place: Place, crc: u32) -> Extent {
    Extent {
        sector: line.first_sector().0,
        sectors: LINE_SECTORS,
        place,
        check: Check::Own(crc),
    }
}
