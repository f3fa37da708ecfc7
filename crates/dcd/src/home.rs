//! Bringing pieces home: what destaging and the rescue from a failed log share.

use std::cell::Cell;
use std::ops::Range;
use std::pin::pin;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Result};
use forebay_log::{Addr, Log};
use forebay_units::{LINE_SECTORS, Line, SECTOR_BYTES};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::beside::beside;
use crate::engine::Engine;
use crate::fingerprint::Fingerprint;
use crate::pacing::Priority;
use crate::piece::{Loaded, Piece};
use crate::stats::Destaging;
use crate::trouble::Streak;

/// Home writes under way at once.
const DEPTH: usize = 64;
/// The longest home write, and the longest read of the log, in sectors.
pub(crate) const RUN_SECTORS_MAX: u64 = 2048;
/// Reads of the log are not cut shorter than this, in sectors: then positioning would be most of it.
const RUN_SECTORS_MIN: u64 = 256;
/// The most that lies unread between two pieces read in one request, in sectors.
const GAP_SECTORS: u64 = 64;
/// After so many reads or writes that failed one after the other, a device is taken to be gone for the
/// moment: the rest is not tried one by one.
const HOPELESS_AFTER: u32 = 16;
/// Then one read in so many is tried all the same, to see whether that goes for the whole device.
const SAMPLE: usize = 16;
/// Log reads under way at once.
const READS: usize = 8;

/// Pieces as read from the log.
#[derive(Default)]
pub(crate) struct LoadedPieces {
    /// With their data, which matches its checksum.
    pub(crate) sound: Vec<Loaded>,
    /// What the device gave back is not what was written: that is lost.
    pub(crate) damaged: Vec<Piece>,
    /// The device gave an error, which says nothing of the data.
    pub(crate) unreadable: Vec<Piece>,
    /// The last such error.
    pub(crate) error: Option<DeviceError>,
    /// It was called off, and some were not tried: these are in none of the lists.
    pub(crate) stopped: bool,
}

/// What became of pieces that were to go home.
#[derive(Default)]
pub(crate) struct Homeward {
    /// Bytes written.
    pub(crate) written: u64,
    /// Some write succeeded, so the device as such works.
    pub(crate) succeeded: bool,
    /// Pieces that were written, or of which nothing was left to write: only these are home.
    pub(crate) taken: Vec<(Line, Addr)>,
    /// What home did not take.
    pub(crate) refused: Vec<Loaded>,
    /// Pieces that were not tried, after so many others had failed.
    pub(crate) untried: usize,
    /// The last error.
    pub(crate) error: Option<DeviceError>,
    /// The volume is closing, and not everything was tried.
    pub(crate) stopped: bool,
}

/// How reads of the log went so far.
struct Tried<'a> {
    /// Those that failed one after the other.
    failures: Cell<u32>,
    streak: Streak<'a>,
}

/// Pieces that lie near each other in the log.
struct Run {
    pieces: Vec<Piece>,
    sectors: u64,
}

fn runs(log: &Log, mut pieces: Vec<Piece>, sectors_max: u64) -> Vec<Run> {
    pieces.sort_unstable_by_key(|piece| piece.addr);
    let ring = log.ring();
    let mut runs: Vec<Run> = Vec::new();
    for piece in pieces {
        let end = piece.addr.0 + u64::from(piece.sectors);
        if let Some(run) = runs.last_mut() {
            let start = run.pieces[0].addr;
            let near = piece.addr.0 <= start.0 + run.sectors + GAP_SECTORS
                && ring.slot_of(start) == ring.slot_of(piece.addr)
                && end - start.0 <= sectors_max;
            if near {
                run.sectors = end - start.0;
                run.pieces.push(piece);
                continue;
            }
        }
        runs.push(Run {
            pieces: vec![piece],
            sectors: piece.sectors.into(),
        });
    }
    runs
}

impl Engine {
    /// Reads pieces from the log, in large requests, and checks each. Each attempt may take a failing
    /// device long, so that it is looked before each whether anybody still wants it.
    pub(crate) async fn load(&self, pieces: Vec<Piece>, priority: Priority) -> LoadedPieces {
        let mut out = LoadedPieces::default();
        let patience = self.patience(priority);
        let most = self.speed.borrow().log_bytes(patience) / SECTOR_BYTES;
        let sectors_max = (most / 2).clamp(RUN_SECTORS_MIN, RUN_SECTORS_MAX);
        let depth = (most / sectors_max).clamp(1, READS as u64) as usize;
        let tried = &Tried {
            failures: Cell::new(0),
            streak: Streak::of_log(self, priority),
        };
        let runs = runs(&self.log, pieces, sectors_max).into_iter().enumerate();
        let reads = runs.map(|(n, run)| async move {
            let called_off = self.give_way(priority).await.is_err();
            if called_off || self.is_hopeless(tried) && !n.is_multiple_of(SAMPLE) {
                return (run, None);
            }
            let began = self.rt.now();
            let bytes = self.read_log(run.pieces[0].addr, run.sectors, tried).await;
            if run.sectors >= RUN_SECTORS_MIN / 2 {
                let span = self.rt.now().since(began);
                let bytes = run.sectors * SECTOR_BYTES;
                self.speed.borrow_mut().note_log_read(bytes, depth, span);
            }
            (run, Some(bytes))
        });
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(depth);
        while let Some((run, bytes)) = reads.next().await {
            let start = run.pieces[0].addr;
            for piece in run.pieces {
                if self.is_called_off(priority) {
                    out.stopped = true;
                    continue;
                }
                let from = ((piece.addr.0 - start.0) * SECTOR_BYTES) as usize;
                // A run that cannot be read may be unreadable in one place only.
                let data = match &bytes {
                    Some(Ok(bytes)) => Ok(bytes.slice(from..from + piece.bytes())),
                    Some(Err(error)) if self.is_hopeless(tried) => Err(Some(error.clone())),
                    Some(Err(_)) => {
                        let read = self.read_log(piece.addr, piece.sectors.into(), tried);
                        read.await.map_err(Some)
                    }
                    None => Err(None),
                };
                match data {
                    Ok(bytes) if piece.is_sound(&bytes) => {
                        out.sound.push(Loaded { piece, bytes });
                    }
                    Ok(_) => out.damaged.push(piece),
                    Err(error) => {
                        out.error = error.or(out.error);
                        out.unreadable.push(piece);
                    }
                }
            }
        }
        out
    }

    /// Reads from the log, and counts the reads that failed one after the other.
    async fn read_log(&self, addr: Addr, sectors: u64, tried: &Tried<'_>) -> Result<Buf> {
        let read = self.log.read(addr, sectors).await;
        match &read {
            Ok(_) => {
                tried.failures.set(0);
                tried.streak.worked();
            }
            Err(error) => {
                tried.failures.set(tried.failures.get() + 1);
                tried.streak.failed(error);
            }
        }
        read
    }

    /// True if what was tried last failed so often that the rest need not be tried one by one; not if
    /// what cannot be read is to be given up.
    fn is_hopeless(&self, tried: &Tried<'_>) -> bool {
        tried.failures.get() >= HOPELESS_AFTER && !self.faults.borrow().gives_up()
    }

    /// Writes the live parts of pieces home, in the order of their addresses, neighbours together.
    /// Destaging gives way to users before each. Does not flush. When it returns, no write is under
    /// way. What fails is tried again piece by piece, so that one bad place is told from its neighbours
    /// and from a device that is gone; where nothing at all succeeds, the rest is left untried, unless
    /// `thorough`.
    pub(crate) async fn write_pieces_home(
        &self,
        mut loaded: Vec<Loaded>,
        priority: Priority,
        thorough: bool,
    ) -> Homeward {
        loaded.sort_unstable_by_key(|loaded| loaded.piece.sector());
        let (mut out, mut failed) = (Homeward::default(), Vec::new());
        let mut under_way = FuturesUnordered::new();
        if !loaded.is_empty() {
            self.doing.borrow_mut().now(Destaging::Writing);
        }
        let mut next = 0;
        let streak = Streak::of_home(self, priority);
        let mut note = |out: &mut Homeward, run: Range<usize>, done: Result<u64>| match done {
            Ok(written) => {
                if written > 0 {
                    out.succeeded = true;
                    streak.worked();
                }
                out.written += written;
                let pieces = loaded[run.clone()].iter();
                out.taken
                    .extend(pieces.map(|l| (l.piece.line, l.piece.addr)));
                self.is_home(run.len(), written);
            }
            Err(error) => {
                streak.failed(&error);
                out.error = Some(error);
                failed.push(run);
            }
        };
        while next < loaded.len() && (thorough || !out.looks_gone(next)) {
            // What is under way holds turns that users may wait for, so it is driven meanwhile.
            let give_way = pin!(self.give_way(priority));
            let way = beside(give_way, &mut under_way, |(run, done)| {
                note(&mut out, run, done)
            });
            if way.await.is_err() {
                out.stopped = true;
                break;
            }
            let run = next..next + neighbours(&loaded[next..]);
            next = run.end;
            let (pieces, depth) = (&loaded[run.clone()], under_way.len() + 1);
            under_way.push(async move {
                let began = self.rt.now();
                let written = self.write_run_home(pieces).await;
                let span = self.rt.now().since(began);
                self.speed.borrow_mut().note_home_write(depth, span);
                (run, written)
            });
            let patience = self.patience(priority);
            let most = self.speed.borrow().home_writes(patience).min(DEPTH);
            while under_way.len() >= most
                && let Some((run, done)) = under_way.next().await
            {
                note(&mut out, run, done);
            }
        }
        while let Some((run, done)) = under_way.next().await {
            note(&mut out, run, done);
        }
        drop(under_way);
        out.untried = loaded.len() - next;
        self.try_one_by_one(&loaded, failed, (thorough, &streak), &mut out)
            .await;
        out
    }

    /// Counts for the writers' pace: so many pieces are home, for which so many bytes were written at once.
    fn is_home(&self, pieces: usize, written: u64) {
        let mut pace = self.pace.borrow_mut();
        match written {
            0 => pace.went_home(pieces),
            _ => pace.wrote_home(pieces, self.rt.now()),
        }
    }

    /// Tries the pieces of runs that failed again, each for itself.
    async fn try_one_by_one(
        &self,
        loaded: &[Loaded],
        mut failed: Vec<Range<usize>>,
        (thorough, streak): (bool, &Streak<'_>),
        out: &mut Homeward,
    ) {
        failed.sort_unstable_by_key(|run| run.start);
        let (mut tried, mut left) = (0, failed.into_iter().flatten());
        for n in left.by_ref() {
            let one = std::slice::from_ref(&loaded[n]);
            match self.write_run_home(one).await {
                Ok(written) => {
                    if written > 0 {
                        out.succeeded = true;
                        streak.worked();
                    }
                    out.written += written;
                    let piece = &loaded[n].piece;
                    out.taken.push((piece.line, piece.addr));
                }
                Err(error) => {
                    streak.failed(&error);
                    out.error = Some(error);
                    out.refused.extend_from_slice(one);
                }
            }
            tried += 1;
            let closing = self.is_closing();
            if closing || !thorough && out.looks_gone(tried) {
                break;
            }
        }
        out.untried += left.count();
    }

    /// Writes what is still live of neighbouring pieces, under the lock of their range (I6).
    async fn write_run_home(&self, run: &[Loaded]) -> Result<u64> {
        let start = run[0].piece.line.first_sector().0;
        let end = run[run.len() - 1].piece.line_sectors().end;
        let _turn = self.home.lock(start..end).await;
        // What was overwritten meanwhile needs no writing; the map tells, and nothing is awaited
        // between asking and issuing.
        let mut parts: Vec<(Range<u64>, Buf)> = Vec::new();
        for Loaded { piece, bytes } in run {
            let Some(now) = self.map.borrow().piece_at(piece.line, piece.addr) else {
                continue;
            };
            let first = piece.sector().0;
            for live in now.live_runs() {
                let at = |sector: u64| ((sector - first) * SECTOR_BYTES) as usize;
                parts.push((live.clone(), bytes.slice(at(live.start)..at(live.end))));
            }
        }
        parts.sort_unstable_by_key(|(sectors, _)| sectors.start);
        let mut written = 0;
        let mut rest = parts.as_slice();
        while let Some((first, _)) = rest.first() {
            let mut end = first.end;
            let more = rest[1..].iter().take_while(|(sectors, _)| {
                let follows = sectors.start == end;
                end = sectors.end.max(end);
                follows
            });
            let count = 1 + more.count();
            let (joined, after) = rest.split_at(count);
            rest = after;
            let buf = join(joined);
            written += buf.len() as u64;
            self.data
                .write(first.start * SECTOR_BYTES, buf, Durability::Flush)
                .await?;
        }
        Ok(written)
    }

    /// Lets the map forget copies that are home, durably.
    pub(crate) fn forget_home(&self, pieces: &[(Line, Addr)]) {
        let (mut map, mut refused) = (self.map.borrow_mut(), self.refused.borrow_mut());
        for (line, addr) in pieces {
            map.forget(*line, *addr);
            refused.went_home(*line, *addr);
        }
    }

    /// Says durably that these ranges (sectors) of home are about to change, if any of it is
    /// fingerprinted; gives the blocks to fingerprint anew afterwards.
    pub(crate) async fn about_to_change(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<u64, forebay_log::LogError> {
        let len = self.geometry().len;
        let bytes = ranges.map(|s| s.start * SECTOR_BYTES..s.end * SECTOR_BYTES);
        let touched = bytes.fold(0, |all, range| all | Fingerprint::touched(&range, len));
        let known = touched & !self.payload.borrow().fingerprint.unknown;
        if known != 0 {
            self.payload.borrow_mut().fingerprint.unknown |= touched;
            let layer = self.payload.borrow().encode();
            self.log
                .update_superblock(|superblock| superblock.layer = layer)
                .await?;
        }
        Ok(touched)
    }
}

impl Homeward {
    /// True if writes keep failing and none succeeded, of those tried: no use in trying all the rest.
    fn looks_gone(&self, tried: usize) -> bool {
        !self.succeeded && self.error.is_some() && tried >= HOPELESS_AFTER as usize
    }
}

/// How many of these, sorted by address, are written home together.
fn neighbours(loaded: &[Loaded]) -> usize {
    let first = loaded[0].piece.line.0;
    let mut last = first;
    let together = loaded.iter().take_while(|next| {
        let line = next.piece.line.0;
        let follows = line <= last + 1 && (line - first + 1) * LINE_SECTORS <= RUN_SECTORS_MAX;
        last = line;
        follows
    });
    together.count().max(1)
}

fn join(parts: &[(Range<u64>, Buf)]) -> Buf {
    if let [(_, one)] = parts
        && one.is_aligned(SECTOR_BYTES as usize)
    {
        return one.clone();
    }
    let len = parts.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut joined = BufMut::zeroed(len);
    let mut at = 0;
    for (_, bytes) in parts {
        joined[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    joined.freeze()
}
