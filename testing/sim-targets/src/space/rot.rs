//! Rot after the last incarnation of an idle volume: in the newest records, or anywhere.
//!
//! Recovery takes a broken record for a torn end unless later data proves that the record was durable. For the newest
//! record, only the superblock proves this.

use std::ops::Range;

use forebay_rng::Rng;
use forebay_sim::disk::DiskImage;

use super::numbers::SEGMENTS_AT;

/// Bytes of a record's header.
const HEADER: u64 = 4096;
/// Number of header bytes to read, and the offsets of fields.
const FIELDS: usize = 76;
const EPOCH_AT: usize = 32;
const RECORD_AT: usize = 48;
const PAYLOAD_AT: usize = 68;
/// Number of records that are the newest.
const NEWEST: u64 = 6;

/// A record on the disk, in the order of epochs and numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct StoredRecord {
    epoch: u64,
    number: u64,
    /// Byte offset of the header on the disk.
    at: u64,
    payload_bytes: u32,
}

impl StoredRecord {
    /// Returns the record whose header begins at a byte of the disk, or `None` if no header begins there.
    fn at(disk: &DiskImage, at: u64) -> Option<StoredRecord> {
        let mut header = [0; FIELDS];
        disk.read(at, &mut header);
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        header.starts_with(b"FOREVRC").then(|| StoredRecord {
            epoch: number(EPOCH_AT),
            number: number(RECORD_AT),
            at,
            payload_bytes: number(PAYLOAD_AT) as u32,
        })
    }

    /// Returns the bytes of the payload, or of the header if the record has no payload.
    fn payload(&self) -> Range<u64> {
        let from = self.at + HEADER;
        match self.payload_bytes {
            0 => self.header(),
            bytes => from..from + u64::from(bytes),
        }
    }

    /// Returns the bytes of the header's fields. The rest of the header may be zeroes.
    fn header(&self) -> Range<u64> {
        self.at..self.at + FIELDS as u64
    }
}

/// Returns the records on a disk, newest first. Some records may be from earlier uses of their segments.
fn records(disk: &DiskImage, block: u32) -> Vec<StoredRecord> {
    let pages = disk.written().filter(|page| *page >= SEGMENTS_AT);
    let places = pages.flat_map(|page| (page..page + HEADER).step_by(block as usize));
    let places = places.filter(|at| at + HEADER <= disk.len());
    let mut records: Vec<StoredRecord> =
        places.filter_map(|at| StoredRecord::at(disk, at)).collect();
    records.sort_by(|one, other| other.cmp(one));
    records
}

/// Returns a disk on which one byte has changed, mostly in one of the newest records.
pub(super) fn rotten(disk: &DiskImage, block: u32, rng: &Rng) -> Option<DiskImage> {
    let records = records(disk, block);
    let newest = NEWEST.min(records.len() as u64);
    let record = match (newest, rng.coin()) {
        (0, _) => return None,
        (_, true) => &records[0],
        (_, false) => &records[rng.below(newest) as usize],
    };
    let place = match rng.below(8) {
        0..=2 => record.header(),
        3..=6 => record.payload(),
        _ => {
            let pages: Vec<u64> = disk.written().collect();
            let page = rng.pick(&pages);
            page..page + HEADER
        }
    };
    let at = (place.start + rng.below(place.end - place.start)).min(disk.len() - 1);
    let mut byte = [0];
    disk.read(at, &mut byte);
    let mut rotten = disk.clone();
    rotten.write(at, &[byte[0] ^ 1 << rng.below(8)]);
    Some(rotten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(disk: &mut DiskImage, at: u64, epoch: u64, number: u64) {
        let mut header = vec![0; HEADER as usize];
        header[..8].copy_from_slice(b"FOREVRC\x02");
        header[EPOCH_AT..EPOCH_AT + 8].copy_from_slice(&epoch.to_le_bytes());
        header[RECORD_AT..RECORD_AT + 8].copy_from_slice(&number.to_le_bytes());
        header[PAYLOAD_AT..PAYLOAD_AT + 4].copy_from_slice(&512u32.to_le_bytes());
        disk.write(at, &header);
    }

    #[test]
    fn the_newest_record_is_damaged_most_often() {
        let mut disk = DiskImage::new(SEGMENTS_AT + (1 << 20));
        let at = [0, 8192, 131_584, 262_144].map(|at| SEGMENTS_AT + at);
        for (at, (epoch, number)) in at.iter().zip([(1, 90), (2, 7), (2, 9), (2, 8)]) {
            write(&mut disk, *at, epoch, number);
        }
        let found = records(&disk, 512);
        let order: Vec<u64> = found.iter().map(|record| record.number).collect();
        assert_eq!(order, [9, 8, 7, 90]);
        let rng = Rng::new(3);
        let newest = found[0].at..found[0].payload().end;
        let hits = (0..200).filter(|_| {
            let rotten = rotten(&disk, 512, &rng).expect("something rots");
            newest.clone().any(|at| {
                let (mut before, mut after) = ([0], [0]);
                disk.read(at, &mut before);
                rotten.read(at, &mut after);
                before != after
            })
        });
        assert!(hits.count() > 80);
    }
}
