//! Reads: the newest data of every sector, from memory, the log or the data device.

use std::ops::Range;

use forebay_device::{Buf, BufMut, Device, DeviceError, DeviceOp, Result};
use forebay_ring_log::{LogAddr, RangeKind, SegmentPin};
use forebay_units::SECTOR_BYTES;
use futures_util::future::try_join_all;

use crate::engine::{DcdEngine, sectors};
use crate::map::{LogFragment, SectorSource, SourceExtent};

/// Longest read of the log, in sectors.
const RUN_SECTORS: u64 = 2048;

/// An extent of the log to read: fragments that lie one after the other.
struct LogReadExtent {
    addr: LogAddr,
    sectors: u64,
    /// Each fragment, the first wanted sector within it, and the wanted range of the volume.
    pieces: Vec<(LogFragment, u8, Range<u64>)>,
    _pin: SegmentPin,
}

impl LogReadExtent {
    /// Returns true if the run contains exactly the range, from end to end.
    fn is_all_of(&self, range: &Range<u64>) -> bool {
        let wanted = self
            .pieces
            .iter()
            .map(|(_, _, wanted)| wanted.end - wanted.start);
        wanted.sum::<u64>() == self.sectors && self.sectors == range.end - range.start
    }
}

impl DcdEngine {
    pub(crate) async fn read(&self, at: u64, buf: BufMut) -> Result<BufMut> {
        let request = self.request(DeviceOp::Read)?;
        let len = buf.len() as u64;
        let range = sectors(&(at..at + len));
        let hit = self.map.borrow().overlaps(range.clone());
        let (buf, hit_sectors) = if hit {
            // Boxed, so that the many reads that miss do not carry its size.
            Box::pin(self.assemble(range, buf)).await?
        } else {
            (self.data.read(at, buf).await?, 0)
        };
        let mut counters = self.counters.borrow_mut();
        counters.reads += 1;
        counters.read_bytes += len;
        counters.read_hit_bytes += hit_sectors * SECTOR_BYTES;
        counters.read_latency.record(request.done());
        Ok(buf)
    }

    /// Assembles a read from its sources. Also returns the number of sectors that did not come from the data device.
    async fn assemble(&self, range: Range<u64>, mut buf: BufMut) -> Result<(BufMut, u64)> {
        let first = range.start;
        let extents = self.map.borrow().lookup(range.clone());
        let (mut runs, mut homes, mut hit) = (Vec::new(), Vec::new(), 0);
        for SourceExtent { sectors, source } in extents {
            if source != SectorSource::Home {
                hit += sectors.end - sectors.start;
            }
            match source {
                SectorSource::Home => homes.push(sectors),
                SectorSource::Marked(RangeKind::Lost) => return Err(damaged(&sectors)),
                SectorSource::Marked(_) => part(&mut buf, first, &sectors).fill(0),
                SectorSource::Piece(piece, skip) => {
                    let wanted = part(&mut buf, first, &sectors);
                    let in_ram = self
                        .log
                        .with_ram(piece.addr, piece.sectors.into(), |bytes| {
                            let from = usize::from(skip) * SECTOR_BYTES as usize;
                            wanted.copy_from_slice(&bytes[from..from + wanted.len()]);
                        });
                    if in_ram.is_none() {
                        self.add_to_runs(&mut runs, piece, skip, sectors);
                    }
                }
            }
        }
        if let [run] = &runs[..]
            && run.is_all_of(&range)
            && self.log.is_in_blocks(run.addr, run.sectors)
        {
            return Ok((self.read_whole_run(run, buf).await?, hit));
        }
        let from_log = try_join_all(runs.into_iter().map(|run| self.read_run(run)));
        let from_home = try_join_all(homes.into_iter().map(|sectors| self.read_home(sectors)));
        let (from_log, from_home) = futures_util::future::try_join(from_log, from_home).await?;
        for (sectors, bytes) in from_log.into_iter().flatten().chain(from_home) {
            part(&mut buf, first, &sectors).copy_from_slice(&bytes);
        }
        Ok((buf, hit))
    }

    /// Adds a fragment to the last run if it follows directly in the log, else to a new run. Takes the pin now, before
    /// any await.
    fn add_to_runs(
        &self,
        runs: &mut Vec<LogReadExtent>,
        piece: LogFragment,
        skip: u8,
        wanted: Range<u64>,
    ) {
        let sectors = u64::from(piece.sectors);
        let ring = self.log.ring();
        if let Some(run) = runs.last_mut()
            && run.addr.plus(run.sectors) == piece.addr
            && ring.slot_of(run.addr) == ring.slot_of(piece.addr)
            && run.sectors + sectors <= RUN_SECTORS
        {
            run.sectors += sectors;
            run.pieces.push((piece, skip, wanted));
            return;
        }
        let pin = self.log.pin(piece.addr);
        runs.push(LogReadExtent {
            addr: piece.addr,
            sectors,
            pieces: vec![(piece, skip, wanted)],
            _pin: pin,
        });
    }

    async fn read_run(&self, run: LogReadExtent) -> Result<Vec<(Range<u64>, Buf)>> {
        let bytes = self.log.read(run.addr, run.sectors).await?;
        let mut parts = Vec::with_capacity(run.pieces.len());
        for (piece, skip, wanted) in &run.pieces {
            let from = ((piece.addr.0 - run.addr.0) * SECTOR_BYTES) as usize;
            let data = bytes.slice(from..from + piece.bytes());
            if !piece.is_sound(&data) {
                return Err(damaged(wanted));
            }
            let from = usize::from(*skip) * SECTOR_BYTES as usize;
            let len = ((wanted.end - wanted.start) * SECTOR_BYTES) as usize;
            parts.push((wanted.clone(), data.slice(from..from + len)));
        }
        Ok(parts)
    }

    /// Reads a single run directly into the caller's buffer.
    async fn read_whole_run(&self, run: &LogReadExtent, buf: BufMut) -> Result<BufMut> {
        let buf = self.log.read_into(run.addr, buf).await?;
        for (piece, _, wanted) in &run.pieces {
            let from = ((piece.addr.0 - run.addr.0) * SECTOR_BYTES) as usize;
            if !piece.is_sound(&buf[from..from + piece.bytes()]) {
                return Err(damaged(wanted));
            }
        }
        Ok(buf)
    }

    async fn read_home(&self, sectors: Range<u64>) -> Result<(Range<u64>, Buf)> {
        let len = (sectors.end - sectors.start) * SECTOR_BYTES;
        let buf = self
            .data
            .read(sectors.start * SECTOR_BYTES, BufMut::to_fill(len as usize))
            .await?;
        Ok((sectors, buf.freeze()))
    }
}

fn part<'a>(buf: &'a mut BufMut, first: u64, sectors: &Range<u64>) -> &'a mut [u8] {
    let at = |sector: u64| ((sector - first) * SECTOR_BYTES) as usize;
    &mut buf[at(sectors.start)..at(sectors.end)]
}

fn damaged(sectors: &Range<u64>) -> DeviceError {
    DeviceError::Damaged {
        range: sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES,
        detail: "their newest data in the log does not match its checksum",
    }
}
