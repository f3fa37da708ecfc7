use std::cell::RefCell;
use std::rc::Rc;

use forebay_device::{Device, RamDevice, Tap, TapHooks, TapRequest};
use forebay_rt::{Executor, VirtualTime};
use forebay_segment_log::{
    HeaderFields, InFlightSegments, SegmentBuilder, SegmentShape, SummaryFields,
};
use forebay_units::{ByteLen, Sector};

use super::*;
use crate::checks::read_contents;
use crate::format::{SpaceEntry, SpaceRecordLayout};
use crate::geometry::SegmentLayout;
use crate::store::DeviceStore;

const VOLUME: VolumeId = VolumeId([6; 16]);
const SEGMENT: u64 = 1 << 20;
const HEADER: u64 = HEADER_BYTES as u64;
/// The slot of the segment, and the segment's first byte on the device.
const SLOT: SegmentSlot = SegmentSlot(1);
const AT: u64 = (1 << 20) + SEGMENT;

/// Lengths of reads.
#[derive(Clone, Default)]
struct ReadLengths(Rc<RefCell<Vec<u64>>>);

impl TapHooks for ReadLengths {
    async fn before(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        if let TapRequest::Read(range) = asked {
            self.0.borrow_mut().push(range.end - range.start);
        }
        Ok(())
    }
}

/// Returns the device's bytes of a segment of records. `records` contains the blocks of data of each record.
fn segment(number: u64, block: u32, bare: usize, records: &[u32]) -> Vec<u8> {
    let shape = SegmentShape {
        segment_bytes: SEGMENT as u32,
        block,
    };
    let (seq, mut bytes) = (SegmentSeq(number), vec![0xee; SEGMENT as usize]);
    let mut flight = InFlightSegments::new(shape, RecordSeq(0), 0);
    flight.begin_segment(seq);
    let mut builder: SegmentBuilder<SpaceRecordLayout> = SegmentBuilder::new(seq, shape, bare);
    for (n, blocks) in (1..).zip(records) {
        builder.open_record();
        for k in 0..*blocks {
            let data = [n as u8; 4096];
            let entry = SpaceEntry::Data {
                sector: Sector((1000 * n + u64::from(k)) * 8),
                sectors: 8,
                crc: crc32c::crc32c(&data),
            };
            assert!(builder.fits_record(5, 4096));
            let place = builder.push(entry, 4096);
            let ram = flight.segment_mut(seq);
            ram.unfrozen(place..place + 4096).copy_from_slice(&data);
        }
        let closing = HeaderFields {
            volume: VOLUME,
            epoch: Epoch(2),
            seq: RecordSeq(n),
            stable: RecordSeq(n - 1),
            continues: false,
        };
        builder.close_record(flight.segment_mut(seq), &closing);
    }
    let sealing = SummaryFields {
        volume: VOLUME,
        epoch: Epoch(2),
        stable: RecordSeq(0),
        fill: 64 << 10,
    };
    builder.seal(flight.segment_mut(seq), &sealing);
    while let Some((_, job)) = flight.take_job() {
        let at = job.offset as usize;
        bytes[at..at + job.buf.len()].copy_from_slice(&job.buf);
    }
    bytes
}

/// The result of reading segment number 7.
#[derive(Debug)]
struct FoundHeaders {
    records: Vec<u64>,
    has_gap: bool,
    reads: Vec<u64>,
    entries: usize,
}

fn found_in(block: u32, bytes: &[u8]) -> FoundHeaders {
    let below = RamDevice::new(AT + 40 * SEGMENT, block);
    below.poke(AT, bytes);
    let reads = ReadLengths::default();
    let device: Rc<dyn Device> = Rc::new(Tap::new(below, reads.clone()));
    let layout =
        SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT))).expect("fits");
    let store = DeviceStore::new(device, layout);
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(async move {
        let mut headers = HeaderReader::new(&store, VOLUME, SLOT, SegmentSeq(7), None);
        let mut records = Vec::new();
        while let Some(record) = headers.next().await.expect("read") {
            records.push(record.seq.0);
        }
        let (has_gap, reads) = (headers.has_gap, reads.0.take());
        assert_eq!(headers.bytes_read, reads.iter().sum::<u64>());
        let contents = read_contents(&store, VOLUME, SLOT, SegmentSeq(7)).await;
        FoundHeaders {
            records,
            has_gap,
            reads,
            entries: contents.expect("read").entries.len(),
        }
    })
}

#[test]
fn only_the_headers_of_long_records_are_read() {
    // Records up to the last block, and records with a rest behind them.
    for (records, rest) in [([100, 100, 53], 0), ([100, 100, 50], 3)] {
        let found = found_in(4096, &segment(7, 4096, 16, &records));
        assert_eq!(found.records, [1, 2, 3]);
        let mut reads = vec![HEADER; 3];
        reads.extend((rest > 0).then_some(rest * 4096));
        assert_eq!(found.reads, reads);
        assert_eq!(found.entries, records.iter().sum::<u32>() as usize);
        assert!(!found.has_gap);
    }
}

#[test]
fn many_short_records_are_read_with_each_request() {
    let found = found_in(4096, &segment(7, 4096, 200, &[1; 128]));
    assert_eq!((found.records.len(), found.has_gap), (128, false));
    assert!(found.reads.len() < 10, "{:?}", found.reads);
    assert!(found.reads.iter().sum::<u64>() < SEGMENT + (64 << 10));
}

/// A segment that was not full at a crash can have any number of records.
#[test]
fn a_segment_is_read_only_about_once_for_any_length_of_its_records() {
    for blocks in [1, 3, 7, 14, 15, 16, 20, 31, 62, 126] {
        let records = vec![blocks; (SEGMENT / 4096) as usize / (1 + blocks as usize)];
        for garbled in 0..=records.len() {
            let mut bytes = segment(7, 4096, 200, &records);
            if garbled > 0 {
                bytes[(garbled - 1) * (1 + blocks as usize) * 4096 + 9] ^= 1;
            }
            let found = found_in(4096, &bytes);
            assert_eq!(
                found.records.len(),
                records.len() - usize::from(garbled > 0)
            );
            let read: u64 = found.reads.iter().sum();
            assert!(read <= 2 * SEGMENT, "{blocks} {garbled}: {read}");
            assert!(
                found.reads.len() <= 30,
                "{blocks} {garbled}: {:?}",
                found.reads
            );
        }
    }
}

#[test]
fn records_after_a_damaged_header_are_found() {
    for block in [512, 4096] {
        let whole = segment(7, block, 16, &[60, 70, 80]);
        for (n, header) in [0, 61, 132].into_iter().enumerate() {
            for byte in [0, 13, 40, 70, 100] {
                let mut bytes = whole.clone();
                bytes[header * 4096 + byte] ^= 4;
                let found = found_in(block, &bytes);
                let mut left = vec![1, 2, 3];
                left.remove(n);
                assert_eq!(found.records, left, "{n} {byte}");
                // A missing last record cannot be detected.
                assert_eq!(found.has_gap, n < 2, "{n} {byte}");
            }
        }
    }
}

/// The old segment of the slot had its headers at the same positions, and a summary at its end.
#[test]
fn a_partly_written_segment_is_recovered_without_remains_of_the_segment_before() {
    for (before, block) in [(vec![20; 12], 4096), (vec![83; 3], 512)] {
        let old = segment(6, block, 0, &before[..before.len() - 1]);
        for records in [vec![83, 83, 84], vec![20; 12], vec![1; 20]] {
            let new = segment(7, block, 16, &records);
            let mut ends = vec![0];
            ends.extend(records.iter().scan(0, |at, blocks| {
                let begins = *at;
                *at += 1 + *blocks as usize;
                Some(begins + 1)
            }));
            for written in 0..=new.len() / 4096 {
                let at = written * 4096;
                let bytes = [&new[..at], &old[at..]].concat();
                let found = found_in(block, &bytes);
                let headers = ends.iter().filter(|end| **end > 0 && **end <= written);
                assert_eq!(found.records.len(), headers.count(), "{written}");
                assert!(!found.has_gap);
                let whole: u32 = records[..found.records.len()].iter().sum();
                assert_eq!(found.entries, whole as usize, "{written}");
            }
        }
    }
}

#[test]
fn a_record_of_another_epoch_ends_the_records() {
    let mut bytes = segment(7, 4096, 16, &[60, 70, 80]);
    let at = 61 * 4096;
    let header = &bytes[at..at + HEADER_BYTES];
    let mut record: SpaceRecord =
        header_in(header, at as u64, VOLUME, SegmentSeq(7)).expect("there");
    record.epoch = Epoch(1);
    bytes[at..at + HEADER_BYTES].copy_from_slice(&record.encode());
    let found = found_in(4096, &bytes);
    assert_eq!((found.records, found.has_gap), (vec![1, 3], true));
}
