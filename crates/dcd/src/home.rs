//! Bringing pieces home: what destaging and the rescue from a failed log share.

use std::ops::Range;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Op, Result, Room};
use forebay_log::{Log, RangeKind};
use forebay_units::SECTOR_BYTES;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::engine::Engine;
use crate::fingerprint::Fingerprint;
use crate::map::Piece;
use crate::policy;
use crate::ranges::Mark;

/// Home writes under way at once.
const DEPTH: usize = 64;
/// The longest home write, and the longest read of the log, in sectors.
const RUN_SECTORS_MAX: u64 = 2048;
/// Reads of the log are not cut shorter than this, in sectors: then positioning would be most of it.
const RUN_SECTORS_MIN: u64 = 256;
/// The most that lies unread between two pieces read in one request, in sectors.
const GAP_SECTORS: u64 = 64;
/// How long to wait before what could not be read from the log is read again, and again.
const READ_AGAIN: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
];
/// The longest range that is zeroed or discarded at home in one request, in sectors: 64 MiB.
const CHANGE_SECTORS_MAX: u64 = 128 << 10;
/// Log reads under way at once.
const READS: usize = 8;

/// A piece with its data, which has been checked.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) piece: Piece,
    pub(crate) bytes: Buf,
}

/// Pieces as read from the log: the sound ones with their data, and the damaged.
#[derive(Default)]
pub(crate) struct LoadedPieces {
    pub(crate) sound: Vec<Loaded>,
    pub(crate) damaged: Vec<Piece>,
}

/// Pieces that lie near each other in the log.
struct Run {
    pieces: Vec<Piece>,
    sectors: u64,
}

/// Who brings pieces home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    /// Destaging, which lets users go first, unless it is urgent.
    Destage {
        /// The log is filling up.
        urgent: bool,
    },
    /// The rescue from a failed log.
    Rescue,
}

/// A range in parts that are changed at home one after the other, so that nobody waits for the lock of
/// more than one.
pub(crate) fn home_parts(sectors: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = sectors;
    let starts = (start..end).step_by(CHANGE_SECTORS_MAX as usize);
    starts.map(move |start| start..end.min(start + CHANGE_SECTORS_MAX))
}

fn runs(log: &Log, mut pieces: Vec<Piece>, sectors_max: u64) -> Vec<Run> {
    pieces.sort_unstable_by_key(|piece| piece.addr);
    let layout = log.layout();
    let mut runs: Vec<Run> = Vec::new();
    for piece in pieces {
        let end = piece.addr.0 + u64::from(piece.sectors);
        if let Some(run) = runs.last_mut() {
            let start = run.pieces[0].addr;
            let near = piece.addr.0 <= start.0 + run.sectors + GAP_SECTORS
                && layout.slot_of(start) == layout.slot_of(piece.addr)
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
    /// Reads pieces from the log, in large requests, and checks each. A piece that cannot be read,
    /// though tried again after a while, counts as damaged: a path that comes back, or a disk that is
    /// reset, is no loss.
    pub(crate) async fn load(&self, pieces: Vec<Piece>, haste: Haste) -> LoadedPieces {
        let (mut out, mut unreadable) = self.load_once(pieces, haste).await;
        for pause in READ_AGAIN {
            if unreadable.is_empty() {
                return out;
            }
            tracing::warn!(
                pieces = unreadable.len(),
                "the log cannot be read; will retry"
            );
            self.rt.sleep(pause).await;
            let (more, rest) = self.load_once(unreadable, haste).await;
            out.sound.extend(more.sound);
            out.damaged.extend(more.damaged);
            unreadable = rest;
        }
        out.damaged.extend(unreadable);
        out
    }

    /// One try; gives the pieces apart for which the device gave an error.
    async fn load_once(&self, pieces: Vec<Piece>, haste: Haste) -> (LoadedPieces, Vec<Piece>) {
        let (mut out, mut unreadable) = (LoadedPieces::default(), Vec::new());
        let most = self.speed.log_bytes(self.patience(haste)) / SECTOR_BYTES;
        let sectors_max = (most / 2).clamp(RUN_SECTORS_MIN, RUN_SECTORS_MAX);
        let depth = (most / sectors_max).clamp(1, READS as u64) as usize;
        let runs = runs(&self.log, pieces, sectors_max);
        let reads = runs.into_iter().map(|run| async move {
            // Closing is no reason not to read, and never one to count anything as damaged.
            let _ = self.give_way(haste).await;
            let (start, began) = (run.pieces[0].addr, self.rt.now());
            let bytes = self.log.read(start, run.sectors).await.ok();
            if run.sectors >= RUN_SECTORS_MIN / 2 {
                let span = self.rt.now().since(began);
                let bytes = run.sectors * SECTOR_BYTES;
                self.speed.note_log_read(bytes, depth, span);
            }
            (run, bytes)
        });
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(depth);
        while let Some((run, bytes)) = reads.next().await {
            let start = run.pieces[0].addr;
            for piece in run.pieces {
                let from = ((piece.addr.0 - start.0) * SECTOR_BYTES) as usize;
                // A run that cannot be read may be unreadable in one place only.
                let data = match &bytes {
                    Some(bytes) => Some(bytes.slice(from..from + piece.bytes())),
                    None => self.log.read(piece.addr, piece.sectors.into()).await.ok(),
                };
                match data {
                    Some(bytes) if piece.is_sound(&bytes) => {
                        out.sound.push(Loaded { piece, bytes })
                    }
                    Some(_) => out.damaged.push(piece),
                    None => unreadable.push(piece),
                }
            }
        }
        (out, unreadable)
    }

    /// Writes the live parts of pieces home, in the order of their addresses, neighbours together.
    /// Destaging gives way to users before each. Does not flush. When it returns, no write is under
    /// way.
    ///
    /// # Errors
    /// The data device's first, or that the volume is closing.
    pub(crate) async fn write_pieces_home(
        &self,
        mut loaded: Vec<Loaded>,
        haste: Haste,
    ) -> Result<u64> {
        loaded.sort_unstable_by_key(|loaded| loaded.piece.sector());
        let mut under_way = FuturesUnordered::new();
        let (mut next, mut written, mut failed) = (0, 0, Ok(()));
        while next < loaded.len() && failed.is_ok() {
            failed = self.give_way(haste).await;
            if failed.is_err() {
                break;
            }
            let end = next + neighbours(&loaded[next..]);
            let (run, depth) = (&loaded[next..end], under_way.len() + 1);
            under_way.push(async move {
                let began = self.rt.now();
                let written = self.write_run_home(run).await;
                let span = self.rt.now().since(began);
                self.speed.note_home_write(depth, span);
                written
            });
            next = end;
            let most = self.speed.home_writes(self.patience(haste)).min(DEPTH);
            while under_way.len() >= most
                && let Some(done) = under_way.next().await
            {
                failed = failed.and(done.map(|n| written += n));
            }
        }
        while let Some(done) = under_way.next().await {
            let done = done.map(|n| written += n);
            failed = failed.and(done);
        }
        failed.map(|()| written)
    }

    async fn give_way(&self, haste: Haste) -> Result<()> {
        match haste {
            Haste::Destage { urgent } => self.yield_to_users(urgent).await,
            Haste::Rescue => Ok(()),
        }
    }

    /// How long what is under way may keep users waiting.
    fn patience(&self, haste: Haste) -> Option<Duration> {
        match haste {
            Haste::Destage { urgent } => policy::patience(urgent, self.observe().pressed),
            Haste::Rescue => None,
        }
    }

    /// Writes what is still live of neighbouring pieces, under the lock of their range (I6).
    async fn write_run_home(&self, run: &[Loaded]) -> Result<u64> {
        let start = run[0].piece.line.first_sector().0;
        let end = run[run.len() - 1].piece.line.0 * 8 + 8;
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

    /// Notes that a change went past the log and needs a flush of the data device.
    pub(crate) fn note_bypassed(&self) {
        self.bypassed.set(self.bypassed.get() + 1);
    }

    /// Flushes the data device, whoever needs it. If that fails, what went past the log since the
    /// last flush may be gone, and there is no copy of it.
    ///
    /// # Errors
    /// The device's.
    pub(crate) async fn flush_data(&self) -> Result<()> {
        let covered = self.bypassed.get();
        match self.data.flush().await {
            Ok(()) => {
                let durable = self.bypassed_durable.get().max(covered);
                self.bypassed_durable.set(durable);
                Ok(())
            }
            Err(error) => {
                if self.bypassed_durable.get() < self.bypassed.get() {
                    tracing::error!(%error, "data that went past the log may be lost");
                    let cause = format!("a flush of the data device failed: {error}");
                    self.bypassed_lost.replace(Some(cause.into()));
                }
                Err(error)
            }
        }
    }

    /// Makes what went past the log durable.
    ///
    /// # Errors
    /// The device's; and for ever, once a flush failed that it needed.
    pub(crate) async fn make_bypassed_durable(&self, op: Op) -> Result<()> {
        if self.bypassed_durable.get() < self.bypassed.get() {
            self.flush_data().await?;
        }
        match self.bypassed_lost.borrow().clone() {
            Some(cause) => Err(DeviceError::Failed { op, cause }),
            None => Ok(()),
        }
    }

    /// The parts of a range for which this mark still counts: not marked anew, no data on top.
    pub(crate) fn still_marked(&self, mark: Mark, range: Range<u64>) -> Vec<Range<u64>> {
        let map = self.map.borrow();
        let parts = map.ranges().overlapping(range);
        parts
            .filter(|(_, now)| *now == mark)
            .flat_map(|(part, _)| map.bare(part))
            .collect()
    }

    /// Makes home what a mark says of a range, one of [`home_parts`], as far as it still counts when
    /// its turn has come (I6). Not where data lies on top: that may be home already, and if the tail
    /// has passed it in one copy of the superblock, it is nowhere else for sure.
    pub(crate) async fn mark_at_home(&self, mark: Mark, sectors: Range<u64>) -> Result<()> {
        let turn = self.home.lock(sectors.clone()).await;
        for part in self.still_marked(mark, sectors) {
            self.change_home(mark.kind, part).await?;
        }
        drop(turn);
        // To ask the map takes a while, even if it says that nothing is to be done.
        self.rt.yield_now().await;
        Ok(())
    }

    /// Zeroes or discards a range at home. The caller has the turn.
    pub(crate) async fn change_home(&self, kind: RangeKind, sectors: Range<u64>) -> Result<()> {
        let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
        match kind {
            RangeKind::Zero => self.data.write_zeroes(bytes, Room::Keep).await,
            RangeKind::Unmap => self.data.write_zeroes(bytes, Room::Release).await,
            RangeKind::Discard if self.data.geometry().discard_granularity > 0 => {
                self.data.discard(bytes).await
            }
            RangeKind::Discard | RangeKind::Lost => Ok(()),
        }
    }

    /// Says durably that these ranges (sectors) of home are about to change, if any of it is
    /// fingerprinted; gives the blocks to fingerprint anew afterwards.
    pub(crate) async fn about_to_change(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<u64, forebay_log::LogError> {
        let len = self.geometry.len;
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

/// How many of these, sorted by address, are written home together.
fn neighbours(loaded: &[Loaded]) -> usize {
    let first = loaded[0].piece.line.0;
    let mut last = first;
    let together = loaded.iter().take_while(|next| {
        let line = next.piece.line.0;
        let follows = line <= last + 1 && (line - first + 1) * 8 <= RUN_SECTORS_MAX;
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
