use forebay_device::BufMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::flight::InFlightSegments;
use crate::format::entry::RecordEntry;
use crate::format::envelope::ByteReader;
use crate::peek::{WalkTarget, summary_in, walk};

const SEGMENT: u32 = 128 << 10;
const HEADER: u32 = HEADER_BYTES as u32;
const VOLUME: VolumeId = VolumeId([4; 16]);
const EPOCH: Epoch = Epoch(3);

/// A number with a length of data in sectors.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SizedEntry(u16, u8);

impl RecordEntry for SizedEntry {
    const BYTES_MIN: usize = 30;

    fn encoded_len(&self) -> usize {
        30
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
        out.push(self.1);
        out.extend_from_slice(&[0; 27]);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<SizedEntry> {
        let note = SizedEntry(from.uint(2)? as u16, from.uint(1)? as u8);
        from.take(27)?;
        Some(note)
    }

    fn payload_sectors(&self) -> u64 {
        self.1.into()
    }

    fn is_sound(&self, _: &[u8]) -> bool {
        true
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum SizedLayout {}

impl LogLayout for SizedLayout {
    type Entry = SizedEntry;
    const RECORD: &'static [u8; 8] = b"TESTREC\x01";
    const SUMMARY: &'static [u8; 8] = b"TESTSUM\x01";
    const NUMBERED: bool = true;
}

/// A segment that is being filled, and its bytes on a device that had other content before.
struct BuilderRig {
    builder: SegmentBuilder<SizedLayout>,
    ram: RamSegment,
    shape: SegmentShape,
    device: Vec<u8>,
    next: RecordSeq,
}

fn sealing() -> SummaryFields {
    SummaryFields {
        volume: VOLUME,
        epoch: EPOCH,
        stable: RecordSeq(0),
        fill: 64 << 10,
    }
}

impl BuilderRig {
    fn new(number: u64, block: u32, bare_records: usize, device: Vec<u8>) -> BuilderRig {
        let (segment_bytes, seq) = (SEGMENT, SegmentSeq(number));
        let shape = SegmentShape {
            segment_bytes,
            block,
        };
        BuilderRig {
            builder: SegmentBuilder::new(seq, shape, bare_records),
            ram: RamSegment::new(seq, BufMut::zeroed(SEGMENT as usize)),
            shape,
            device,
            next: RecordSeq(1),
        }
    }

    fn push(&mut self, note: SizedEntry) {
        let len = u32::from(note.1) * 512;
        let place = self.builder.push(note, len);
        self.ram.unfrozen(place..place + len).fill(0x77);
    }

    fn close(&mut self) {
        let closing = HeaderFields {
            volume: VOLUME,
            epoch: EPOCH,
            seq: self.next,
            stable: RecordSeq(0),
            continues: false,
        };
        if self.builder.close_record(&mut self.ram, &closing) {
            self.next = self.next.next();
        }
    }

    /// Completes all writes to the device.
    fn drain(&mut self) {
        while let Some(job) = self.ram.take_job() {
            assert!(!job.buf.is_empty());
            let at = job.offset as usize;
            self.device[at..at + job.buf.len()].copy_from_slice(&job.buf);
            self.ram.job_done();
        }
    }

    /// Appends a record with data of `sectors` sectors, if it fits.
    fn record(&mut self, sectors: u32) -> bool {
        let fits = self.builder.fits_new_record(30, sectors.min(255) * 512);
        if !fits {
            return false;
        }
        self.builder.open_record();
        let mut left = sectors;
        while left > 0 {
            let most = left.min(255);
            if !self.builder.fits_record(30, most * 512) {
                break;
            }
            self.push(SizedEntry(left as u16, most as u8));
            left -= most;
        }
        self.close();
        true
    }

    /// Seals the segment, and completes all writes.
    fn end(&mut self, sealing: &SummaryFields) {
        let none = SegmentBuilder::new(self.ram.seq(), self.shape, 0);
        let builder = std::mem::replace(&mut self.builder, none);
        builder.seal(&mut self.ram, sealing);
        self.drain();
    }

    /// Seals the segment. Returns the bytes of the device, and the entries in the segment's summary, if it has one.
    fn seal(mut self) -> (Vec<u8>, Option<Vec<SizedEntry>>) {
        let last = self.next.prev();
        self.end(&sealing());
        assert!(self.ram.is_durable(last) && !self.ram.is_durable(last.prev()));
        let summary = summary_of(&self.device, self.shape, self.ram.seq());
        let notes = |summary: SegmentSummary<SizedLayout>| {
            let records = summary.records.into_iter();
            records.flat_map(|record| record.entries).collect()
        };
        (self.device, summary.map(notes))
    }
}

fn summary_of(
    device: &[u8],
    shape: SegmentShape,
    segment: SegmentSeq,
) -> Option<SegmentSummary<SizedLayout>> {
    let last = &device[device.len() - HEADER_BYTES..];
    let len = SegmentSummary::<SizedLayout>::total_len(last, SEGMENT).ok()?;
    summary_in(&device[device.len() - len..], shape, VOLUME, segment)
}

fn by_headers(device: &[u8], block: u32, number: u64) -> Vec<RecordHeader<SizedLayout>> {
    let first = WalkTarget::From(RecordSeq(1));
    walk(device, block, VOLUME, SegmentSeq(number), first).collect()
}

fn notes(records: Vec<RecordHeader<SizedLayout>>) -> Vec<SizedEntry> {
    records.into_iter().flat_map(|one| one.entries).collect()
}

fn empty() -> Vec<u8> {
    vec![0xaa; SEGMENT as usize]
}

#[test]
fn a_segment_without_a_summary_is_filled_to_its_last_block() {
    let mut rig = BuilderRig::new(7, 4096, 2, empty());
    assert!(rig.record(120) && rig.record(120));
    assert_eq!(rig.builder.at(), SEGMENT);
    assert_eq!(rig.builder.summary_at(), SEGMENT);
    assert!(!rig.builder.fits_new_record(30, 0));
    rig.drain();
    // Nothing is left to write: the segment is complete when its last record is durable.
    assert!(!rig.ram.is_durable(RecordSeq(2)));
    rig.builder.seal(&mut rig.ram, &sealing());
    assert!(!rig.ram.has_closed() && rig.ram.first_waiting().is_none());
    assert!(!rig.ram.is_durable(RecordSeq(1)) && rig.ram.is_durable(RecordSeq(2)));
    assert!(summary_of(&rig.device, rig.shape, SegmentSeq(7)).is_none());
    assert_eq!(by_headers(&rig.device, 4096, 7).len(), 2);
}

#[test]
fn the_memory_of_a_segment_that_became_durable_before_its_end_is_released() {
    let mut rig = BuilderRig::new(7, 4096, 2, empty());
    let mut flight = InFlightSegments::new(rig.shape, RecordSeq(0), 0);
    flight.begin_segment(SegmentSeq(7));
    std::mem::swap(flight.segment_mut(SegmentSeq(7)), &mut rig.ram);
    assert!(rig.record(248));
    std::mem::swap(flight.segment_mut(SegmentSeq(7)), &mut rig.ram);
    flight.record_closed(RecordSeq(1), false);
    let (id, job) = flight.take_job().expect("the record");
    flight.job_done(id, job.segment);
    flight.set_stable(RecordSeq(1));
    let ram = flight.segment_mut(SegmentSeq(7));
    rig.builder.seal(ram, &sealing());
    assert!(!flight.has_jobs() && flight.oldest().is_some());
    flight.release_memory();
    assert!(flight.oldest().is_none());
}

#[test]
fn space_for_the_summary_is_kept_from_the_first_record_above_the_limit() {
    let mut rig = BuilderRig::new(7, 4096, 2, empty());
    assert!(rig.record(8) && rig.record(8));
    assert_eq!(rig.builder.summary_at(), SEGMENT);
    let left = SEGMENT - rig.builder.at() - HEADER;
    assert!(!rig.builder.fits_new_record(30, left));
    assert!(!rig.builder.fits_new_record(30, left - 4095));
    assert!(rig.builder.fits_new_record(30, left - 4096));
    rig.builder.open_record();
    assert!(!rig.builder.fits_record(30, left - 4095));
    assert!(rig.builder.fits_record(30, left - 4096));
    rig.push(SizedEntry(1, 0));
    rig.close();
    assert_eq!(rig.builder.summary_at(), SEGMENT - 4096);
    let (device, listed) = rig.seal();
    let listed = listed.expect("a summary");
    assert_eq!(listed, notes(by_headers(&device, 4096, 7)));
    assert_eq!(listed.len(), 3);
}

#[test]
fn a_record_above_the_limit_is_not_opened_without_space_for_the_summary() {
    for (sectors, fits) in [(224, true), (225, false), (232, false)] {
        let mut rig = BuilderRig::new(7, 512, 1, empty());
        assert!(rig.record(sectors));
        assert_eq!(rig.builder.fits_new_record(30, 8 * 512), fits, "{sectors}");
        if fits {
            assert!(rig.record(8));
        }
        assert_eq!(rig.seal().1.is_some(), fits);
    }
}

/// Behind the last record, the slot still holds a summary and headers of an earlier segment.
#[test]
fn earlier_content_of_the_slot_is_not_read_as_part_of_a_segment_without_a_summary() {
    let mut before = BuilderRig::new(6, 512, 0, empty());
    while before.record(16) {}
    let (device, listed) = before.seal();
    assert!(listed.is_some());
    for records in 1..10 {
        for fill in [0, 64 << 10] {
            let mut rig = BuilderRig::new(7, 512, 16, device.clone());
            assert!((0..records).all(|_| rig.record(16)));
            rig.end(&SummaryFields { fill, ..sealing() });
            let (shape, now) = (rig.shape, &rig.device);
            assert!(summary_of(now, shape, SegmentSeq(7)).is_none());
            assert_eq!(by_headers(now, 512, 7).len(), records);
            let stale = summary_of(now, shape, SegmentSeq(6)).is_some();
            assert_eq!(stale, fill == 0 || records < 6, "{records} {fill}");
        }
    }
}

proptest! {
    /// Every record that fits is found again, by the summary, if any, and by the headers.
    #[test]
    fn all_records_are_found_by_the_summary_and_by_the_headers(
        block in prop_oneof![Just(512u32), Just(4096)],
        bare in 0usize..20,
        sizes in vec((0u32..600, any::<bool>()), 1..60),
    ) {
        let mut rig = BuilderRig::new(7, block, bare, empty());
        let mut records = 0;
        for (sectors, sent) in sizes {
            let small = if records < 12 { sectors / 40 } else { sectors };
            records += usize::from(rig.record(small));
            if sent {
                rig.drain();
            }
        }
        prop_assume!(records > 0);
        let end = rig.builder.at();
        let (device, listed) = rig.seal();
        prop_assert_eq!(listed.is_some(), records > bare);
        let found = by_headers(&device, block, 7);
        prop_assert_eq!(found.len(), records);
        if let Some(listed) = listed {
            prop_assert_eq!(listed, notes(found));
        } else {
            let rest = &device[end as usize..];
            prop_assert!(rest.len() > 64 << 10 || rest.iter().all(|byte| *byte == 0));
        }
    }

    /// Data for which `surely_fits` returns true fits, however it is divided into records.
    #[test]
    fn data_that_surely_fits_does_fit(
        block in prop_oneof![Just(512u32), Just(4096)],
        bare in 0usize..8,
        before in vec(0u32..60, 0..6),
        wanted in vec((0u8..20, any::<bool>()), 1..4),
    ) {
        let mut rig = BuilderRig::new(7, block, bare, empty());
        for sectors in before {
            rig.record(sectors);
        }
        let bytes: u64 = wanted.iter().map(|(sectors, _)| u64::from(*sectors) * 512).sum();
        if !rig.builder.surely_fits(bytes, wanted.len() as u64, 30) {
            return Ok(());
        }
        let mut cuts = 0;
        for (sectors, cut) in wanted {
            let len = u32::from(sectors) * 512;
            // The estimate includes one record more than needed.
            if cut && cuts == 0 && rig.builder.has_open_record() {
                cuts += 1;
                rig.close();
            }
            if !rig.builder.has_open_record() {
                prop_assert!(rig.builder.fits_new_record(30, len));
                rig.builder.open_record();
            }
            prop_assert!(rig.builder.fits_record(30, len));
            rig.push(SizedEntry(1, sectors));
        }
        rig.close();
        rig.seal();
    }
}
