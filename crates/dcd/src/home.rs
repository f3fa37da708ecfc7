//! Writing fragments to the data device: shared by destaging and by the rescue from a failed log.

use std::cell::Cell;
use std::ops::Range;
use std::pin::pin;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Result};
use forebay_ring_log::{LogAddr, RingLog};
use forebay_units::{BlockNumber, LINE_SECTORS, SECTOR_BYTES};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::drive_while_waiting::drive_while_waiting;
use crate::engine::DcdEngine;
use crate::fingerprint::Fingerprint;
use crate::piece::{LoadedFragment, LogFragment};
use crate::stats::DestageActivity;
use crate::trouble::FaultTracker;
use crate::yielding::WritebackPriority;

/// Writes to the data device under way at the same time.
const DEPTH: usize = 64;
/// Longest write to the data device, and longest read of the log, in sectors.
pub(crate) const RUN_SECTORS_MAX: u64 = 2048;
/// Shortest limit of a read of the log, in sectors. In shorter reads, positioning would take most of the time.
const RUN_SECTORS_MIN: u64 = 256;
/// Maximum distance between two fragments that are read in one request, in sectors.
const GAP_SECTORS: u64 = 64;
/// After this many failed reads or writes in a row, a device is considered gone for the moment, and the remaining
/// fragments are not tried one by one.
const HOPELESS_AFTER: u32 = 16;
/// One of this many reads is still tried then, to check whether the whole device fails.
const SAMPLE: usize = 16;
/// Reads of the log under way at the same time.
const READS: usize = 8;

/// Result of reading fragments from the log.
#[derive(Default)]
pub(crate) struct LogReadOutcome {
    /// Fragments with data that matches their checksum.
    pub(crate) sound: Vec<LoadedFragment>,
    /// Fragments whose data does not match their checksum. They are lost.
    pub(crate) damaged: Vec<LogFragment>,
    /// Fragments for which the device returned an error. Their data may be intact.
    pub(crate) unreadable: Vec<LogFragment>,
    /// The last error.
    pub(crate) error: Option<DeviceError>,
    /// True if the read was called off. Fragments that were not tried are in none of the lists.
    pub(crate) stopped: bool,
}

/// Result of writing fragments to the data device.
#[derive(Default)]
pub(crate) struct WritebackOutcome {
    /// Bytes written.
    pub(crate) written: u64,
    /// True if some write succeeded, so the device as such works.
    pub(crate) succeeded: bool,
    /// Fragments that were written, or had no live sectors left. Only these are on the data device.
    pub(crate) taken: Vec<(BlockNumber, LogAddr)>,
    /// Fragments that the data device failed to write.
    pub(crate) refused: Vec<LoadedFragment>,
    /// Number of fragments that were not tried, because many others had failed.
    pub(crate) untried: usize,
    /// The last error.
    pub(crate) error: Option<DeviceError>,
    /// True if the volume is closing and some fragments were not tried.
    pub(crate) stopped: bool,
}

/// History of the log reads of one call.
struct LogReadHistory<'a> {
    /// Failed reads since the last success.
    failures: Cell<u32>,
    streak: FaultTracker<'a>,
}

/// Fragments that lie near each other in the log.
pub(crate) struct FragmentBatch {
    /// The fragments in the order of their addresses.
    pub(crate) pieces: Vec<LogFragment>,
    /// Sectors from the first fragment to the end of the last.
    pub(crate) sectors: u64,
}

/// Divides fragments into batches of at most `sectors_max` sectors.
pub(crate) fn runs(
    log: &RingLog,
    mut pieces: Vec<LogFragment>,
    sectors_max: u64,
) -> Vec<FragmentBatch> {
    pieces.sort_unstable_by_key(|piece| piece.addr);
    let ring = log.ring();
    let mut runs: Vec<FragmentBatch> = Vec::new();
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
        runs.push(FragmentBatch {
            pieces: vec![piece],
            sectors: piece.sectors.into(),
        });
    }
    runs
}

impl DcdEngine {
    /// Reads fragments from the log in large requests, and checks each. Each attempt may take long on a failing device,
    /// so it is checked before each whether the data is still needed.
    pub(crate) async fn load(
        &self,
        pieces: Vec<LogFragment>,
        priority: WritebackPriority,
    ) -> LogReadOutcome {
        let mut out = LogReadOutcome::default();
        let patience = self.patience(priority);
        let most = self.speed.borrow().log_bytes(patience) / SECTOR_BYTES;
        let sectors_max = (most / 2).clamp(RUN_SECTORS_MIN, RUN_SECTORS_MAX);
        let depth = (most / sectors_max).clamp(1, READS as u64) as usize;
        let tried = &LogReadHistory {
            failures: Cell::new(0),
            streak: FaultTracker::of_log(self, priority),
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
                        out.sound.push(LoadedFragment { piece, bytes });
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

    /// Reads from the log, and counts consecutive failures.
    async fn read_log(
        &self,
        addr: LogAddr,
        sectors: u64,
        tried: &LogReadHistory<'_>,
    ) -> Result<Buf> {
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

    /// Returns true if so many reads in a row failed that the remaining fragments need not be tried one by one. Returns
    /// false while an administrator's command to abandon unreadable data is in force, since then every fragment must be
    /// tried.
    fn is_hopeless(&self, tried: &LogReadHistory<'_>) -> bool {
        tried.failures.get() >= HOPELESS_AFTER && !self.faults.borrow().is_abandoning()
    }

    /// Writes the live sectors of fragments to the data device, in the order of their addresses, with neighbours in one
    /// write. Destaging yields to clients before each write. Does not flush. No write is under way when this function
    /// returns. Failed writes are repeated fragment by fragment, to separate one bad sector from its neighbours and
    /// from a device that is gone. If no write succeeds, the rest is left untried, unless `thorough`.
    pub(crate) async fn write_pieces_home(
        &self,
        mut loaded: Vec<LoadedFragment>,
        priority: WritebackPriority,
        thorough: bool,
    ) -> WritebackOutcome {
        loaded.sort_unstable_by_key(|loaded| loaded.piece.sector());
        let (mut out, mut failed) = (WritebackOutcome::default(), Vec::new());
        let mut under_way = FuturesUnordered::new();
        if !loaded.is_empty() {
            self.doing.borrow_mut().now(DestageActivity::Writing);
        }
        let mut next = 0;
        let streak = FaultTracker::of_home(self, priority);
        let mut note = |out: &mut WritebackOutcome, run: Range<usize>, done: Result<u64>| match done
        {
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
            // Writes under way hold range locks that clients may wait for, so they are driven meanwhile.
            let give_way = pin!(self.give_way(priority));
            let way = drive_while_waiting(give_way, &mut under_way, |(run, done)| {
                note(&mut out, run, done);
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
        self.try_one_by_one(&loaded, failed, thorough, &streak, &mut out)
            .await;
        out
    }

    /// Counts fragments for the pacing of writers: `pieces` fragments are on the data device, by a write of `written`
    /// bytes.
    fn is_home(&self, pieces: usize, written: u64) {
        let mut pace = self.admission.pace.borrow_mut();
        match written {
            0 => pace.went_home(pieces),
            _ => pace.wrote_home(pieces, self.rt.now()),
        }
    }

    /// Tries the fragments of failed runs again, one by one.
    async fn try_one_by_one(
        &self,
        loaded: &[LoadedFragment],
        mut failed: Vec<Range<usize>>,
        thorough: bool,
        streak: &FaultTracker<'_>,
        out: &mut WritebackOutcome,
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

    /// Writes the live sectors of neighbouring fragments, under the lock of their range (I6).
    async fn write_run_home(&self, run: &[LoadedFragment]) -> Result<u64> {
        let start = run[0].piece.line.first_sector().0;
        let end = run[run.len() - 1].piece.line_sectors().end;
        let _turn = self.home.lock(start..end).await;
        // Data that was overwritten meanwhile needs no write. The map shows this, and no await lies between the lookup
        // and the write.
        let mut parts: Vec<(Range<u64>, Buf)> = Vec::new();
        for LoadedFragment { piece, bytes } in run {
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

    /// Removes fragments from the map that are durable on the data device.
    pub(crate) fn forget_home(&self, pieces: &[(BlockNumber, LogAddr)]) {
        let (mut map, mut refused) = (self.map.borrow_mut(), self.refused.borrow_mut());
        for (line, addr) in pieces {
            map.forget(*line, *addr);
            refused.went_home(*line, *addr);
        }
    }

    /// Records durably that these ranges (sectors) of the data device are about to change, if they contain
    /// fingerprinted blocks. Returns the blocks to fingerprint again afterwards.
    pub(crate) async fn about_to_change(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<u64, forebay_ring_log::LogError> {
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

impl WritebackOutcome {
    /// Returns true if at least [`HOPELESS_AFTER`] writes were tried and none succeeded, so that trying the rest is
    /// useless.
    fn looks_gone(&self, tried: usize) -> bool {
        !self.succeeded && self.error.is_some() && tried >= HOPELESS_AFTER as usize
    }
}

/// Returns the number of fragments, from the start of this list sorted by address, that one write can cover.
fn neighbours(loaded: &[LoadedFragment]) -> usize {
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
