use std::collections::BTreeSet;

use forebay_segment_log::{RECORD_ENTRY_BYTES_MAX, WalkTarget, walk};
use proptest::prelude::*;

use super::*;
use crate::format::{DATA_ENTRY_BYTES, HEADER_BYTES, RingRecord, RingSummary, SEGMENTS_AT};

const VOLUME: VolumeId = VolumeId([9; 16]);

fn state(segment_kib: u32, segment_count: u64, block: u32) -> RingState {
    let segment_bytes = segment_kib << 10;
    let ring = RingGeometry {
        segment_bytes,
        segment_count,
        block,
        len: SEGMENTS_AT + segment_count * u64::from(segment_bytes),
    };
    let resume = LogResumption {
        epoch: Epoch(1),
        tail: SegmentSeq(5),
        next_segment: SegmentSeq(5),
        next_record: RecordSeq(100),
        firsts: VecDeque::new(),
    };
    RingState::new(ring, VOLUME, resume)
}

/// An entry as it was appended, and its write.
#[derive(Clone, Debug)]
struct AppendedEntry {
    group: u64,
    entry: RingEntry,
    addr: Option<LogAddr>,
    bytes: Vec<u8>,
}

/// A state, its device, and the expected content of the device.
struct RingStateRig {
    state: RingState,
    ring: Vec<u8>,
    /// Appended entries that are not compared yet, in order.
    expected: VecDeque<AppendedEntry>,
    next_group: u64,
    /// Records that were the last known durable record at some time.
    stables: BTreeSet<RecordSeq>,
    seen: RecordSeq,
}

impl RingStateRig {
    fn new(segment_kib: u32, segment_count: u64, block: u32) -> RingStateRig {
        let state = state(segment_kib, segment_count, block);
        RingStateRig {
            ring: vec![0xaa; (state.ring.len - SEGMENTS_AT) as usize],
            seen: state.next_record.prev(),
            state,
            expected: VecDeque::new(),
            next_group: 0,
            stables: BTreeSet::new(),
        }
    }

    /// Appends a write of these entries: block, first sector, sectors. Zero sectors mean a range.
    fn write(&mut self, pieces: &[(u64, u8, u8)]) {
        let group = self.next_group;
        self.next_group += 1;
        for (n, (line, first, sectors)) in pieces.iter().enumerate() {
            let sector = Sector(line * 8 + u64::from(*first));
            if *sectors == 0 {
                let (kind, sectors) = (RangeKind::Zero, 17);
                self.state.append_range(kind, sector, sectors);
                let entry = RingEntry::Range {
                    kind,
                    sector,
                    sectors,
                };
                self.expected.push_back(AppendedEntry {
                    group,
                    entry,
                    addr: None,
                    bytes: Vec::new(),
                });
                continue;
            }
            let bytes = vec![(group * 31 + n as u64) as u8; usize::from(*sectors) * 512];
            let crc = crc32c::crc32c(&bytes);
            let addr = Some(self.state.append_data(sector, &bytes, crc));
            let entry = RingEntry::Data {
                sector,
                sectors: *sectors,
                crc,
            };
            self.expected.push_back(AppendedEntry {
                group,
                entry,
                addr,
                bytes,
            });
        }
        self.state.end_group();
    }

    /// Plans an offset before the next record, if allowed; returns the start of the record.
    fn leave_gap(&mut self, gap: u32) -> Option<u64> {
        let may = self.state.may_leave_gap();
        may.then(|| self.state.plan_gap(gap.min(self.state.gap_max())))
    }

    /// Completes all writes of the device.
    fn drain(&mut self) {
        while let Some((id, job)) = self.state.flight_mut().take_job() {
            let at = self.state.ring.segment_at(job.segment) - SEGMENTS_AT;
            let at = at as usize + job.offset as usize;
            self.ring[at..at + job.buf.len()].copy_from_slice(&job.buf);
            self.state.flight_mut().job_done(id, job.segment);
        }
    }

    /// Makes all written data durable.
    fn set_stable(&mut self) {
        let written = self.state.flight().written();
        self.state.set_stable(written);
    }

    fn flush(&mut self) {
        self.state.close_record();
        self.drain();
        let before = self.state.stable();
        self.set_stable();
        assert!(self.state.stable() >= before);
        self.stables.insert(self.state.stable());
    }

    /// Compares all segments that may be freed, and frees them.
    fn move_tail(&mut self) {
        let limit = self.state.destage_limit();
        let mut segment = self.state.tail;
        while segment < limit {
            self.compare(segment);
            segment = segment.next();
        }
        self.state.set_tail(limit);
    }

    /// Compares a segment on the device with the appended entries.
    fn compare(&mut self, segment: SegmentSeq) {
        let ring = self.state.ring;
        let at = (ring.segment_at(segment) - SEGMENTS_AT) as usize;
        let bytes = &self.ring[at..at + ring.segment_bytes as usize];
        let last = &bytes[bytes.len() - HEADER_BYTES..];
        let total = RingSummary::total_len(last, ring.segment_bytes).expect("a summary");
        let summary = RingSummary::decode(&bytes[bytes.len() - total..]).expect("a summary");
        let first = self.state.first_record(segment);
        assert_eq!(
            (summary.segment, summary.first, first),
            (segment, first, self.seen.next())
        );
        let records: Vec<RingRecord> =
            walk(bytes, ring.block, VOLUME, segment, WalkTarget::Is(first))
                .take(summary.records.len())
                .collect();
        assert_eq!(records.len(), summary.records.len());
        let mut end = 0;
        for (record, listed) in records.iter().zip(&summary.records) {
            assert_eq!(
                (record.offset, record.payload_bytes, record.continues),
                (listed.offset, listed.payload_bytes, listed.continues)
            );
            assert_eq!(record.entries, listed.entries);
            assert!(record.offset.is_multiple_of(ring.block) && record.stable < record.seq);
            assert!(record.offset >= end, "none lies in another");
            end = record.offset + HEADER_BYTES as u32 + record.payload_bytes;
            assert!(
                end as usize + total <= bytes.len(),
                "it leaves room for the summary"
            );
            let group = compare_record(&mut self.expected, record, ring.addr(segment, 0), bytes);
            let goes_on = self
                .expected
                .front()
                .is_some_and(|next| next.group == group);
            assert_eq!(record.continues, goes_on, "{}", record.seq);
            assert!(!(record.continues && self.stables.contains(&record.seq)));
            self.seen = record.seq;
        }
        assert!(end > 0, "a segment holds something");
    }

    /// Closes all records and compares the remaining segments.
    fn finish(mut self) {
        self.state.seal();
        self.flush();
        self.move_tail();
        assert!(self.expected.is_empty());
        assert_eq!(self.state.tail, self.state.next_segment);
        assert_eq!(self.state.stable(), self.state.next_record.prev());
    }
}

/// Compares a record's entries; returns the write of the last entry.
fn compare_record(
    expected: &mut VecDeque<AppendedEntry>,
    record: &RingRecord,
    start: LogAddr,
    bytes: &[u8],
) -> u64 {
    let mut at = record.offset as usize + HEADER_BYTES;
    let mut group = 0;
    for entry in &record.entries {
        let piece = expected
            .pop_front()
            .expect("no more than what was appended");
        assert_eq!(piece.entry, *entry);
        if let Some(addr) = piece.addr {
            assert_eq!(addr.bytes() - start.bytes(), at as u64);
            assert!(bytes[at..at + piece.bytes.len()] == piece.bytes);
        }
        at += piece.bytes.len();
        group = piece.group;
    }
    assert!(
        bytes[at..(at.next_multiple_of(512))]
            .iter()
            .all(|b| *b == 0)
    );
    group
}

#[derive(Clone, Debug)]
enum RingStep {
    Write(Vec<(u64, u8, u8)>),
    /// Writes after an offset of this many bytes, if allowed.
    WriteFurtherOn(u32, Vec<(u64, u8, u8)>),
    Close,
    Seal,
    Drain,
    Flush,
    MoveTail,
}

/// Generates data within a 4 KiB block, or a range in one of ten cases.
fn piece() -> impl Strategy<Value = (u64, u8, u8)> {
    let data = (0..1u64 << 40, 0..8u8, 1..=8u8);
    let data = data.prop_map(|(line, first, sectors)| (line, first, sectors.min(8 - first)));
    prop_oneof![9 => data, 1 => (0..1u64 << 40).prop_map(|line| (line, 0, 0))]
}

fn write() -> impl Strategy<Value = RingStep> {
    let whole = (0..1u64 << 39, 1..=256u64);
    let whole = whole.prop_map(|(at, n)| (at..at + n).map(|line| (line, 0, 8)).collect());
    let sectors = (0..1u64 << 39, 1..=600u64);
    let sectors = sectors.prop_map(|(at, n)| (at..at + n).map(|line| (line, 3, 1)).collect());
    let ranges = (0..1u64 << 39, 1..=700u64);
    let ranges = ranges.prop_map(|(at, n)| (at..at + n).map(|line| (line, 0, 0)).collect());
    let mixed = proptest::collection::vec(piece(), 1..40);
    prop_oneof![3 => whole, 2 => sectors, 1 => ranges, 6 => mixed].prop_map(RingStep::Write)
}

fn further_on() -> impl Strategy<Value = RingStep> {
    let gap = prop_oneof![0..20_000u32, 0..1u32 << 18];
    (gap, write()).prop_map(|(gap, write)| match write {
        RingStep::Write(pieces) => RingStep::WriteFurtherOn(gap, pieces),
        other => other,
    })
}

fn step() -> impl Strategy<Value = RingStep> {
    prop_oneof![
        12 => write(),
        6 => further_on(),
        1 => Just(RingStep::Close),
        2 => Just(RingStep::Seal),
        1 => Just(RingStep::Drain),
        2 => Just(RingStep::Flush),
        2 => Just(RingStep::MoveTail),
    ]
}

/// Returns bytes and entries, as the check of free space needs them.
fn size(pieces: &[(u64, u8, u8)]) -> (u64, u64) {
    let sectors = pieces.iter().map(|(_, _, sectors)| u64::from(*sectors));
    (sectors.sum::<u64>() * 512, pieces.len() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Appending panics without free space: if no segment is free, if the next segment is being read, or if the summary
    /// does not fit. Afterwards the device contains the appended entries in order, record by record and group by group.
    #[test]
    fn appends_that_fit_never_panic_and_are_read_back_in_order(
        kib in prop_oneof![Just(128u32), Just(256), Just(1024)],
        // Rings shorter than the minimum, so that they fill up more often.
        segments in prop_oneof![1..5u64, 5..24u64],
        block in prop_oneof![Just(512u32), Just(4096)],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut rig = RingStateRig::new(kib, segments, block);
        for step in steps {
            match step {
                // Without free space the log stays full until a step frees some.
                RingStep::Write(pieces) => {
                    let (bytes, entries) = size(&pieces);
                    if rig.state.has_room(bytes, entries, 0) {
                        rig.write(&pieces);
                    }
                }
                RingStep::WriteFurtherOn(gap, pieces) => {
                    let (bytes, entries) = size(&pieces);
                    if rig.state.has_room(bytes, entries, 0) {
                        rig.leave_gap(gap);
                        rig.write(&pieces);
                    }
                }
                RingStep::Close => rig.state.close_record(),
                RingStep::Seal => rig.state.seal(),
                RingStep::Drain => rig.drain(),
                RingStep::Flush => rig.flush(),
                RingStep::MoveTail => rig.move_tail(),
            }
            let state = &rig.state;
            prop_assert!(state.tail <= state.stable_segment);
            prop_assert!(state.stable_segment <= state.next_segment);
            prop_assert!(state.unstable_segments() <= UNSTABLE_SEGMENTS_MAX);
            prop_assert!(state.next_segment.since(state.tail) <= state.ring.segment_count);
        }
        rig.finish();
    }
}

#[test]
fn an_empty_log_of_the_minimum_size_has_space_for_the_longest_write() {
    for block in [512, 4096] {
        let mut rig = RingStateRig::new(128, crate::format::SEGMENTS_MIN, block);
        // One MiB that begins and ends within a 4 KiB block.
        let mut pieces: Vec<_> = (0..257).map(|line| (line, 0, 8)).collect();
        pieces[0] = (0, 7, 1);
        pieces[256] = (256, 0, 7);
        let (bytes, entries) = size(&pieces);
        assert_eq!(bytes, 1 << 20);
        assert!(rig.state.has_room(bytes, entries + 1, SEGMENTS_RESERVED));
        rig.write(&pieces);
        rig.finish();
    }
}

#[test]
fn a_write_that_begins_a_new_record_is_not_grouped_with_the_record_before() {
    let mut rig = RingStateRig::new(128, 8, 512);
    // Writes of one 4 KiB block each, until the record is closed because the next write does not fit.
    let first = rig.state.next_record;
    while rig.state.open_record_seq().is_none_or(|seq| seq == first) {
        rig.write(&[(1, 0, 8)]);
    }
    rig.drain();
    rig.set_stable();
    assert_eq!(rig.state.stable(), first, "no write is in both records");
    rig.finish();
}

#[test]
fn the_stable_number_stops_before_a_partly_written_group_of_records() {
    let mut rig = RingStateRig::new(128, 20, 512);
    rig.write(&[(0, 0, 8)]);
    rig.flush();
    let before = rig.state.stable();
    // Four segments of one write.
    let lines: Vec<_> = (0..100).map(|line| (line, 0, 8)).collect();
    rig.write(&lines);
    rig.drain();
    assert!(rig.state.flight().written() > before);
    rig.set_stable();
    assert_eq!(rig.state.stable(), before);
    assert_eq!(
        rig.state.flight().group_end(rig.state.flight().written()),
        before
    );
    assert!(rig.state.destage_limit() <= SegmentSeq(5));
    rig.state.close_record();
    rig.drain();
    rig.set_stable();
    assert_eq!(rig.state.stable(), rig.state.next_record.prev());
    rig.finish();
}

#[test]
fn a_fragment_is_overwritten_only_in_the_open_record_and_with_an_equal_extent() {
    let mut rig = RingStateRig::new(128, 8, 512);
    rig.write(&[(1, 0, 8), (2, 2, 3)]);
    let AppendedEntry { addr, .. } = rig.expected[1].clone();
    let (addr, sector) = (addr.expect("data"), Sector(18));
    let new = vec![0x77; 3 * 512];
    let crc = crc32c::crc32c(&new);
    let state = &mut rig.state;
    assert!(
        !state.overwrite(addr, Sector(17), &new, crc),
        "another sector"
    );
    assert!(
        !state.overwrite(addr, sector, &new[..1024], crc),
        "another length"
    );
    assert!(
        !state.overwrite(addr.plus(1), sector, &new, crc),
        "another place"
    );
    assert!(state.overwrite(addr, sector, &new, crc));
    state.end_group();
    // The record has the new data once, under the new checksum.
    rig.expected[1].bytes = new.clone();
    rig.expected[1].entry = RingEntry::Data {
        sector,
        sectors: 3,
        crc,
    };
    rig.state.close_record();
    assert!(!rig.state.overwrite(addr, sector, &new, crc), "closed");
    rig.write(&[(3, 0, 8)]);
    assert!(
        !rig.state.overwrite(addr, sector, &new, crc),
        "in the record before"
    );
    rig.finish();
}

#[test]
fn an_overwritten_fragment_belongs_to_the_group_of_its_write() {
    let mut rig = RingStateRig::new(128, 8, 512);
    rig.write(&[(1, 0, 8)]);
    let first = rig.state.open_record_seq();
    let addr = rig.expected[0].addr.expect("data");
    // One write replaces the data, and then continues in the next segment.
    let bytes = vec![1; 4096];
    assert!(
        rig.state
            .overwrite(addr, Sector(8), &bytes, crc32c::crc32c(&bytes))
    );
    while rig.state.open_record_seq() == first {
        rig.state
            .append_data(Sector(800), &bytes, crc32c::crc32c(&bytes));
    }
    rig.drain();
    rig.set_stable();
    assert!(
        rig.state.stable() < first.expect("a record"),
        "half of the write is missing"
    );
}

#[test]
fn a_segment_is_not_reused_while_it_is_being_read() {
    let mut rig = RingStateRig::new(128, 4, 512);
    rig.write(&[(1, 0, 8)]);
    let slot = rig.state.ring.slot_of(rig.expected[0].addr.expect("data"));
    rig.state.pin(slot..slot + 1);
    rig.state.pin(slot..slot + 1);
    // Around the ring, up to the slot.
    for _ in 0..3 {
        rig.state.seal();
        rig.flush();
        rig.move_tail();
        rig.write(&[(2, 0, 8)]);
    }
    rig.state.seal();
    rig.flush();
    rig.move_tail();
    assert_eq!(rig.state.free_segments(), 4);
    assert!(!rig.state.has_room(4096, 1, 0), "it is being read");
    assert!(
        !rig.state.lacks_segments(4096, 1, 0),
        "the tail cannot help"
    );
    rig.state.unpin(slot..slot + 1);
    assert!(!rig.state.has_room(4096, 1, 0), "by two");
    rig.state.unpin(slot..slot + 1);
    assert!(rig.state.has_room(4096, 1, 0));
    rig.finish();
}

/// 400 reads of 100 KiB that were written sector by sector, backwards, are 80,000 readers of a segment.
#[test]
fn a_segment_is_kept_for_any_number_of_concurrent_readers() {
    let mut rig = RingStateRig::new(128, 4, 512);
    for _ in 0..80_000 {
        rig.state.pin(0..1);
    }
    for left in (0..80_000).rev() {
        assert_eq!(rig.state.unpin(0..1), left == 0);
    }
    rig.finish();
}

#[test]
fn a_full_ring_has_no_space_until_the_tail_moves() {
    let mut rig = RingStateRig::new(128, 4, 512);
    while rig.state.has_room(4096, 1, 1) {
        rig.write(&[(1, 0, 8)]);
    }
    assert_eq!(rig.state.free_segments(), 1, "the reserve");
    assert!(rig.state.lacks_segments(4096, 1, 1));
    assert!(rig.state.has_room(4096, 1, 0), "which is there for who may");
    rig.state.seal();
    rig.flush();
    rig.move_tail();
    assert!(rig.state.has_room(4096, 1, 1));
}

#[test]
fn a_header_takes_the_maximum_of_entries_and_no_more() {
    let mut rig = RingStateRig::new(1024, 4, 512);
    let most = RECORD_ENTRY_BYTES_MAX / DATA_ENTRY_BYTES;
    for _ in 0..most {
        rig.write(&[(7, 1, 1)]);
    }
    let first = rig.state.open_record_seq();
    assert_eq!(first, Some(RecordSeq(100)));
    rig.write(&[(7, 1, 1)]);
    assert_eq!(rig.state.open_record_seq(), Some(RecordSeq(101)));
    rig.finish();
}

#[test]
fn data_in_memory_can_be_read_until_its_segment_is_durable() {
    let mut rig = RingStateRig::new(128, 8, 4096);
    rig.write(&[(1, 0, 8), (2, 1, 2)]);
    let pieces: Vec<AppendedEntry> = rig.expected.iter().cloned().collect();
    let in_ram = |state: &RingState| {
        let same = |piece: &AppendedEntry| {
            let sectors = piece.bytes.len() as u64 / 512;
            let found = state.in_ram(piece.addr.expect("data"), sectors);
            found.map(|bytes| bytes == piece.bytes)
        };
        pieces.iter().map(same).collect::<Vec<_>>()
    };
    assert_eq!(in_ram(&rig.state), [Some(true); 2], "being filled");
    rig.state.close_record();
    let (id, job) = rig.state.flight_mut().take_job().expect("a record");
    assert_eq!(in_ram(&rig.state), [Some(true); 2], "under way");
    rig.state.flight_mut().job_done(id, job.segment);
    rig.write(&[(3, 0, 8)]);
    assert_eq!(in_ram(&rig.state), [Some(true); 2], "beside the next");
    rig.state.seal();
    rig.drain();
    assert_eq!(
        in_ram(&rig.state),
        [Some(true); 2],
        "on the device, perhaps"
    );
    let written = rig.state.flight().written();
    rig.state.set_stable(written);
    assert_eq!(in_ram(&rig.state), [None; 2], "durable");
}

#[test]
fn a_record_begins_after_its_planned_rotational_offset_and_the_next_does_not() {
    let mut rig = RingStateRig::new(128, 8, 512);
    assert_eq!(rig.leave_gap(4096), None, "nothing is before it");
    rig.write(&[(1, 0, 8)]);
    assert_eq!(rig.leave_gap(4096), None, "a record is open");
    rig.flush();
    let at = rig.state.next_at().expect("a segment is open");
    assert_eq!(rig.leave_gap(5000), Some(at + 5120), "in whole blocks");
    rig.write(&[(2, 0, 8)]);
    rig.flush();
    let second = rig.expected[1].addr.expect("data");
    assert_eq!(second.bytes(), at + 5120 + HEADER_BYTES as u64);
    rig.write(&[(3, 0, 8)]);
    rig.flush();
    let third = rig.expected[2].addr.expect("data");
    assert_eq!(third.bytes(), second.bytes() + 8192, "right behind");
    assert!(rig.leave_gap(4096).is_some());
    rig.state.drop_plan();
    rig.write(&[(4, 0, 8)]);
    let fourth = rig.expected[3].addr.expect("data");
    assert_eq!(fourth.bytes(), third.bytes() + 8192, "it was dropped");
    rig.finish();
}

#[test]
fn near_its_end_a_segment_is_closed_and_its_summary_joins_the_next_record_in_a_single_write() {
    let mut rig = RingStateRig::new(128, 8, 512);
    let mut begins = 0;
    let first = rig.state.next_segment;
    while rig.state.next_segment <= first.next() {
        begins = rig.leave_gap(20 << 10).unwrap_or(0);
        rig.write(&[(1, 0, 8)]);
        rig.state.close_record();
        if rig.state.next_segment <= first.next() {
            rig.drain();
        }
    }
    let (id, summary) = rig.state.flight_mut().take_job().expect("the summary");
    let end = rig.state.ring.segment_at(first) + u64::from(rig.state.ring.segment_bytes);
    let at = rig.state.ring.segment_at(summary.segment) + u64::from(summary.offset);
    assert_eq!((at, at + summary.buf.len() as u64), (begins, end));
    assert_eq!(
        summary.buf.len(),
        HEADER_BYTES,
        "what was left over is not filled"
    );
    assert!(rig.state.take_joining(&summary, 8192).is_none(), "too long");
    let (other, record) = rig
        .state
        .take_joining(&summary, 64 << 10)
        .expect("it is there");
    assert_eq!((record.segment, record.offset), (first.next(), 0));
    for (id, job) in [(id, summary), (other, record)] {
        let at = (rig.state.ring.segment_at(job.segment) - SEGMENTS_AT) as usize;
        let at = at + job.offset as usize;
        rig.ring[at..at + job.buf.len()].copy_from_slice(&job.buf);
        rig.state.flight_mut().job_done(id, job.segment);
    }
    rig.finish();
}

#[test]
fn no_rotational_offset_is_left_in_a_half_full_ring_or_before_a_segment_being_read() {
    let mut rig = RingStateRig::new(128, 8, 512);
    let next = rig.state.ring.slot(rig.state.next_segment.next());
    rig.write(&[(1, 0, 8)]);
    rig.flush();
    rig.state.pin(next..next + 1);
    assert_eq!(rig.leave_gap(4096), None);
    rig.state.unpin(next..next + 1);
    while rig.leave_gap(4096).is_some() {
        rig.write(&[(1, 0, 8)]);
        rig.state.seal();
        rig.write(&[(1, 0, 8)]);
        rig.flush();
    }
    assert_eq!(rig.state.free_segments(), 3);
    rig.finish();
}
