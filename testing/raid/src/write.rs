//! Writing of data and its parity. Writes to the same column are serialized.

use std::ops::Range;

use forebay_device::{Buf, BufMut, DeviceError, DeviceOp, Durability, Result, ZeroedSpace};
use futures_util::future::{LocalBoxFuture, join_all};

use crate::array::ParityState;
use crate::common::{MemberShare, shares};
use crate::cuts;
use crate::error::located;
use crate::plan::{MemberRange, ParityMethod, RowLayout, choose};
use crate::settle::{MemberSet, settle};
use crate::xor;

/// The data that is written to one member in a row.
#[derive(Clone)]
struct MemberWrite {
    piece: MemberRange,
    data: Buf,
}

impl MemberWrite {
    /// Returns the part within `columns`, if they overlap.
    fn within(&self, columns: &Range<u64>) -> Option<MemberWrite> {
        let MemberRange { member, range } = &self.piece;
        let cut = columns.start.max(range.start)..columns.end.min(range.end);
        (cut.start < cut.end).then(|| {
            let from = (cut.start - range.start) as usize;
            let len = (cut.end - cut.start) as usize;
            MemberWrite {
                piece: MemberRange {
                    member: *member,
                    range: cut,
                },
                data: self.data.slice(from..from + len),
            }
        })
    }
}

/// The new content of whole rows.
pub(crate) enum RowContent {
    Data(Buf, Durability),
    Zeroes(ZeroedSpace),
}

/// The write to one member, with its result.
struct MemberWriteResult {
    member: usize,
    range: Range<u64>,
    result: Result<()>,
}

impl ParityState {
    pub(crate) async fn write(&self, at: u64, data: Buf, durability: Durability) -> Result<()> {
        let range = at..at + data.len() as u64;
        let (head, rows, tail) = self.rows_of(&range);
        let part = |part: &Range<u64>| {
            let within = (part.start - at) as usize..(part.end - at) as usize;
            data.slice(within)
        };
        let content = RowContent::Data(part(&rows), durability);
        let edges = [&head, &tail].map(|edge| (edge.start, part(edge)));
        let written = self.write_all(edges, durability, rows, content).await;
        written.map_err(|error| located(error, DeviceOp::Write, &range))
    }

    pub(crate) async fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> Result<()> {
        let (head, rows, tail) = self.rows_of(&range);
        let zeroes = |edge: &Range<u64>| BufMut::zeroed((edge.end - edge.start) as usize).freeze();
        let edges = [&head, &tail].map(|edge| (edge.start, zeroes(edge)));
        let content = RowContent::Zeroes(room);
        let written = self
            .write_all(edges, Durability::Flush, rows, content)
            .await;
        written.map_err(|error| located(error, DeviceOp::WriteZeroes, &range))
    }

    /// Writes parts of rows and whole rows concurrently. Each of them may be empty.
    async fn write_all(
        &self,
        edges: [(u64, Buf); 2],
        durability: Durability,
        rows: Range<u64>,
        content: RowContent,
    ) -> Result<()> {
        let mut jobs: Vec<LocalBoxFuture<'_, Result<()>>> = Vec::new();
        for (at, data) in edges {
            if !data.is_empty() {
                jobs.push(Box::pin(self.write_in_row(at, data, durability)));
            }
        }
        if rows.start < rows.end {
            jobs.push(Box::pin(self.write_rows(rows, content)));
        }
        join_all(jobs).await.into_iter().collect()
    }

    /// Splits a range of the array into whole rows, and the parts of rows before and behind them.
    pub(crate) fn rows_of(&self, range: &Range<u64>) -> (Range<u64>, Range<u64>, Range<u64>) {
        let row = self.rotation.row_bytes();
        let first = range.start.next_multiple_of(row);
        let last = range.end - range.end % row;
        if first <= last {
            (range.start..first, first..last, last..range.end)
        } else {
            (range.clone(), range.end..range.end, range.end..range.end)
        }
    }

    /// Writes a part of one row.
    async fn write_in_row(&self, at: u64, data: Buf, durability: Durability) -> Result<()> {
        let row = at / self.rotation.row_bytes();
        let place = |unit| self.rotation.place(unit);
        let shares = shares(self.rotation.unit, at, data.len(), place);
        let part = |share: &MemberShare| MemberWrite {
            data: share.gather(&data),
            piece: MemberRange {
                member: share.member,
                range: share.range.clone(),
            },
        };
        let parts: Vec<MemberWrite> = shares.iter().map(part).collect();
        // The end of one unit and the beginning of the next may have no column in common.
        if let [a, b] = &parts[..]
            && b.piece.range.end < a.piece.range.start
        {
            let (a, b) = ([a.clone()], [b.clone()]);
            let a = self.write_parts(row, &a, durability);
            let b = self.write_parts(row, &b, durability);
            let (a, b) = futures_util::future::join(a, b).await;
            return a.and(b);
        }
        self.write_parts(row, &parts, durability).await
    }

    async fn write_parts(
        &self,
        row: u64,
        parts: &[MemberWrite],
        durability: Durability,
    ) -> Result<()> {
        let each = || parts.iter().map(|part| &part.piece.range);
        let start = each().map(|range| range.start).min().unwrap_or(0);
        let end = each().map(|range| range.end).max().unwrap_or(0);
        let columns = start..end;
        let _turn = self.lock.lock(columns.clone()).await;
        let parity = self.rotation.parity(row);
        if self.stale_in(&columns) == 0 {
            let sum = self.new_parity(parity, &columns, parts).await;
            match sum {
                Ok(sum) => return self.change(parity, columns, parts, sum, durability).await,
                Err(error) if parts.len() == 1 => return Err(error),
                Err(_) => {}
            }
        }
        // Within each of these columns, the stale members and the written members are constant. So a method may be
        // possible in each part that is not possible for all columns together.
        let ends = each().flat_map(|range| [range.start, range.end]);
        let apart = self.cut_by_stale(columns).into_iter();
        let apart = apart.flat_map(|part| cuts::cut(part, ends.clone().collect()));
        let changes = apart.map(async |columns| {
            let within = parts.iter().filter_map(|part| part.within(&columns));
            let parts: Vec<MemberWrite> = within.collect();
            let sum = self.new_parity(parity, &columns, &parts).await?;
            self.change(parity, columns, &parts, sum, durability).await
        });
        join_all(changes).await.into_iter().collect()
    }

    /// Writes parts of a row, and the new parity in `columns` to the member with the parity. The caller must hold the
    /// lock.
    async fn change(
        &self,
        parity: usize,
        columns: Range<u64>,
        parts: &[MemberWrite],
        sum: Option<BufMut>,
        durability: Durability,
    ) -> Result<()> {
        let mut writes: Vec<(usize, u64, Buf)> = Vec::new();
        for part in parts {
            let MemberRange { member, range } = &part.piece;
            writes.push((*member, range.start, part.data.clone()));
        }
        if let Some(sum) = sum {
            writes.push((parity, columns.start, sum.freeze()));
        }
        let writes = writes
            .into_iter()
            .map(async |(member, at, data)| MemberWriteResult {
                range: at..at + data.len() as u64,
                result: self.write_member(member, at, data, durability).await,
                member,
            });
        self.settle_written(parity, columns, join_all(writes).await)
    }

    /// Updates the stale ranges after a write within one row.
    fn settle_written(
        &self,
        parity: usize,
        columns: Range<u64>,
        written: Vec<MemberWriteResult>,
    ) -> Result<()> {
        let (mut wrote, mut failed): (MemberSet, MemberSet) = (0, 0);
        for MemberWriteResult { member, result, .. } in &written {
            wrote |= 1 << member;
            failed |= MemberSet::from(result.is_err() || self.is_missing(*member)) << member;
        }
        let stale = self.stale_in(&columns);
        let settled = settle(stale, wrote, failed, 1 << parity);
        for written in &written {
            let is_stale = settled.stale & 1 << written.member != 0;
            self.set_stale(written.member, written.range.clone(), is_stale);
        }
        if settled.stale & 1 << parity != 0 {
            self.set_stale(parity, columns, true);
        }
        if settled.done {
            Ok(())
        } else {
            Err(first_error(
                written.into_iter().map(|written| written.result),
            ))
        }
    }

    /// Returns the parity in `columns` after `parts` are written, or `None` if it cannot be computed or stored.
    async fn new_parity(
        &self,
        parity: usize,
        columns: &Range<u64>,
        parts: &[MemberWrite],
    ) -> Result<Option<BufMut>> {
        let writes: Vec<MemberRange> = parts.iter().map(|part| part.piece.clone()).collect();
        let mut unreadable = 0;
        let mut error = None;
        loop {
            let method = self.method(parity, columns, &writes, unreadable);
            let (reads, modify) = match method {
                Some(ParityMethod::Bare) => return Ok(None),
                Some(ParityMethod::ReadModify(reads)) => (reads, true),
                Some(ParityMethod::Reconstruct(reads)) => (reads, false),
                None => return Err(error.unwrap_or_else(two_failed)),
            };
            let read = reads
                .iter()
                .map(|read| self.read_member(read.member, read.range.clone()));
            let mut sum = BufMut::zeroed((columns.end - columns.start) as usize);
            let mut add = |range: &Range<u64>, data: &[u8]| {
                let at = (range.start - columns.start) as usize;
                xor::add(&mut sum[at..at + data.len()], data);
            };
            for part in parts {
                add(&part.piece.range, &part.data);
            }
            let tried = unreadable;
            for (read, found) in reads.iter().zip(join_all(read).await) {
                match found {
                    Ok(data) => add(&read.range, &data),
                    Err(why) => {
                        unreadable |= 1 << read.member;
                        error = Some(why);
                    }
                }
            }
            if unreadable == tried {
                let bytes: u64 = parts.iter().map(|part| part.data.len() as u64).sum();
                self.count(|stats| match (modify, reads.is_empty()) {
                    (true, _) => {
                        stats.read_modify_writes += 1;
                        stats.part_bytes += bytes;
                    }
                    (false, false) => {
                        stats.reconstruct_writes += 1;
                        stats.part_bytes += bytes;
                    }
                    (false, true) => {
                        stats.row_writes += 1;
                        stats.row_bytes += bytes;
                    }
                });
                return Ok(Some(sum));
            }
        }
    }

    /// Selects the method of computing the new parity. `None` if it cannot be computed only since members are
    /// unreadable now.
    fn method(
        &self,
        parity: usize,
        columns: &Range<u64>,
        writes: &[MemberRange],
        unreadable: MemberSet,
    ) -> Option<ParityMethod> {
        let stale = self.stale_in(columns);
        let written = writes
            .iter()
            .fold(0, |set: MemberSet, w| set | 1 << w.member);
        let lost = stale.count_ones() > 1 && stale & !written & !(1 << parity) != 0;
        if lost || self.is_missing(parity) {
            return Some(ParityMethod::Bare);
        }
        let row = RowLayout {
            members: self.rotation.members,
            parity,
        };
        choose(row, columns, writes, stale | unreadable)
    }

    /// Writes whole rows without reading.
    async fn write_rows(&self, range: Range<u64>, content: RowContent) -> Result<()> {
        let row_bytes = self.rotation.row_bytes();
        let rows = range.start / row_bytes..range.end / row_bytes;
        let unit = self.rotation.unit;
        let columns = rows.start * unit..rows.end * unit;
        let _turn = self.lock.lock(columns.clone()).await;
        self.count(|stats| stats.row_writes += 1);
        let written = match content {
            RowContent::Data(data, durability) => {
                self.count(|stats| stats.row_bytes += data.len() as u64);
                let images = self.images(rows.clone(), &data).into_iter().enumerate();
                let writes =
                    images.map(|(n, image)| self.write_member(n, columns.start, image, durability));
                join_all(writes).await
            }
            RowContent::Zeroes(room) => {
                let members = 0..self.rotation.members;
                let writes = members.map(|n| self.zero_member(n, columns.clone(), room));
                join_all(writes).await
            }
        };
        self.settle_rows(rows, columns, written)
    }

    /// Returns the content of each member if `rows` contain `data`.
    fn images(&self, rows: Range<u64>, data: &Buf) -> Vec<Buf> {
        let unit = self.rotation.unit as usize;
        let len = (rows.end - rows.start) as usize * unit;
        let images = (0..self.rotation.members).map(|_| BufMut::zeroed(len));
        let mut images: Vec<BufMut> = images.collect();
        let mut units = data.chunks_exact(unit);
        for (n, row) in rows.enumerate() {
            let at = n * unit..(n + 1) * unit;
            let parity = self.rotation.parity(row);
            for number in 0..self.rotation.members - 1 {
                let unit = units.next().expect("rows are whole");
                let member = self.rotation.data(row, number);
                images[member][at.clone()].copy_from_slice(unit);
                xor::add(&mut images[parity][at.clone()], unit);
            }
        }
        images.into_iter().map(BufMut::freeze).collect()
    }

    /// Updates the stale ranges after a write of whole rows with the results `written`, by member.
    fn settle_rows(
        &self,
        rows: Range<u64>,
        columns: Range<u64>,
        written: Vec<Result<()>>,
    ) -> Result<()> {
        let failed = written.iter().enumerate();
        let failed = failed.map(|(member, result)| result.is_err() || self.is_missing(member));
        let failed: Vec<bool> = failed.collect();
        // As in `settle`, for all columns of all rows together.
        let done = failed.iter().filter(|failed| **failed).count() <= 1;
        for (member, failed) in failed.into_iter().enumerate() {
            if !failed || done {
                self.set_stale(member, columns.clone(), failed);
            }
        }
        if done {
            return Ok(());
        }
        for row in rows {
            let parity = self.rotation.parity(row);
            self.set_stale(parity, self.rotation.columns(row), true);
        }
        Err(first_error(written.into_iter()))
    }

    /// Discards the whole rows in `range` by zeroing that releases their space.
    pub(crate) async fn discard(&self, range: Range<u64>) -> Result<()> {
        let (_, rows, _) = self.rows_of(&range);
        if rows.start == rows.end {
            return Ok(());
        }
        let zeroed = self.write_rows(rows, RowContent::Zeroes(ZeroedSpace::Release));
        zeroed
            .await
            .map_err(|error| located(error, DeviceOp::Discard, &range))
    }
}

/// Returns the first error of a failed write. Without an error, the members of the write were lost meanwhile.
fn first_error(mut results: impl Iterator<Item = Result<()>>) -> DeviceError {
    results.find_map(Result::err).unwrap_or_else(two_failed)
}

fn two_failed() -> DeviceError {
    let cause = "two members of the array failed".into();
    let op = DeviceOp::Write;
    DeviceError::Failed { op, cause }
}
