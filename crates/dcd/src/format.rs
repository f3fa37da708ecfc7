//! The payload that DCD keeps in its log's superblock. `docs/format/dcd.md` has the same as a table.
//!
//! The log adds magic, version, volume id and checksum around this payload.

use forebay_ring_log::LAYER_BYTES_MAX;
use forebay_units::{LINE_BYTES, SECTOR_BYTES};

use crate::fingerprint::{BLOCKS, Fingerprint};

/// Maximum length of a name or path, in bytes; longer texts are cut.
const TEXT_BYTES_MAX: usize = 512;
/// Size of an encoded range of lost sectors, in bytes.
const LOST_BYTES: usize = 16;
/// Supported block sizes of a data device, in bytes.
const BLOCK_SIZES: [u32; 2] = [SECTOR_BYTES as u32, LINE_BYTES as u32];
/// Maximum number of stable names.
const NAMES_MAX: usize = 4;

/// Properties by which a data device is recognised.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct DataIdentity {
    /// Length in bytes.
    pub len: u64,
    /// Path at which the device was found.
    pub path: String,
    /// Names that stay with the device wherever it is attached (serial numbers, WWNs, partition UUIDs).
    pub names: Vec<String>,
}

impl DataIdentity {
    /// Returns true if a name of `other` is also a name of this device.
    pub fn shares_name(&self, other: &DataIdentity) -> bool {
        self.names.iter().any(|name| other.names.contains(name))
    }
}

/// The payload of the superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuperblockPayload {
    /// The volume's name.
    pub name: String,
    /// The data device.
    pub data: DataIdentity,
    /// The data device's logical block size in bytes.
    pub block_size: u32,
    /// Fingerprint of both ends of the data device.
    pub fingerprint: Fingerprint,
    /// Sectors whose data was lost with the log when it was abandoned.
    pub lost_sectors: u64,
    /// Ranges of these sectors: first sector and number of sectors. As many ranges as the payload has space for.
    pub lost: Vec<(u64, u64)>,
}

impl SuperblockPayload {
    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.data.len.to_le_bytes());
        out.extend_from_slice(&self.block_size.to_le_bytes());
        out.extend_from_slice(&self.lost_sectors.to_le_bytes());
        out.extend_from_slice(&self.fingerprint.unknown.to_le_bytes());
        for crc in self.fingerprint.crcs {
            out.extend_from_slice(&crc.to_le_bytes());
        }
        put_text(&mut out, &self.name);
        put_text(&mut out, &self.data.path);
        let names = &self.data.names[..self.data.names.len().min(NAMES_MAX)];
        out.push(names.len() as u8);
        for name in names {
            put_text(&mut out, name);
        }
        let room = (LAYER_BYTES_MAX - out.len() - 2) / LOST_BYTES;
        let lost = &self.lost[..self.lost.len().min(room)];
        if !lost.is_empty() {
            out.extend_from_slice(&(lost.len() as u16).to_le_bytes());
        }
        for (sector, sectors) in lost {
            out.extend_from_slice(&sector.to_le_bytes());
            out.extend_from_slice(&sectors.to_le_bytes());
        }
        out
    }

    /// Decodes a payload. `None` if `bytes` is malformed.
    pub fn decode(bytes: &[u8]) -> Option<SuperblockPayload> {
        let mut rest = bytes;
        let mut take = |n: usize| {
            let (taken, after) = rest.split_at_checked(n)?;
            rest = after;
            Some(taken)
        };
        let len = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let block_size = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let lost_sectors = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let unknown = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let mut crcs = [0; BLOCKS];
        for crc in &mut crcs {
            *crc = u32::from_le_bytes(take(4)?.try_into().ok()?);
        }
        let (name, path) = (text(&mut take)?, text(&mut take)?);
        let count = usize::from(take(1)?[0]);
        if count > NAMES_MAX {
            return None;
        }
        let names: Option<Vec<String>> = (0..count).map(|_| text(&mut take)).collect();
        let names = names?;
        let lost = lost_ranges(rest, len)?;
        let sane = BLOCK_SIZES.contains(&block_size) && len.is_multiple_of(block_size.into());
        sane.then_some(SuperblockPayload {
            name,
            data: DataIdentity { len, path, names },
            block_size,
            fingerprint: Fingerprint { crcs, unknown },
            lost_sectors,
            lost,
        })
    }
}

/// Decodes the lost ranges at the payload's end. They are missing if no data was lost.
fn lost_ranges(bytes: &[u8], len: u64) -> Option<Vec<(u64, u64)>> {
    let Some((count, ranges)) = bytes.split_first_chunk() else {
        return bytes.is_empty().then(Vec::new);
    };
    let count = usize::from(u16::from_le_bytes(*count));
    if count == 0 || ranges.len() != count * LOST_BYTES {
        return None;
    }
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let range = |bytes: &[u8]| {
        let (sector, sectors) = (number(&bytes[..8])?, number(&bytes[8..])?);
        let end = sector.checked_add(sectors)?;
        (sectors > 0 && end <= len / SECTOR_BYTES).then_some((sector, sectors))
    };
    ranges.chunks_exact(LOST_BYTES).map(range).collect()
}

/// Decodes a text. `None` if the text is longer than the encoder writes.
fn text<'a>(take: &mut impl FnMut(usize) -> Option<&'a [u8]>) -> Option<String> {
    let len = usize::from(u16::from_le_bytes(take(2)?.try_into().ok()?));
    if len > TEXT_BYTES_MAX {
        return None;
    }
    String::from_utf8(take(len)?.to_vec()).ok()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_encoded_payload_decodes_to_equal_fields(
            name in "[a-z]{0,20}", path in "\\PC{0,600}", names in proptest::collection::vec("[a-z]{0,9}", 0..4),
            blocks in 1000..1u64 << 50, lost in any::<u64>(), ranges in proptest::collection::vec((0..900u64, 1..99u64), 0..300), unknown in any::<u64>(), crc in any::<u32>(),
        ) {
            let data = DataIdentity { len: blocks * 512, path, names };
            let fingerprint = Fingerprint { crcs: [crc; BLOCKS], unknown };
            let payload = SuperblockPayload { name, data, block_size: 512, fingerprint, lost_sectors: lost, lost: ranges };
            let bytes = payload.encode();
            prop_assert!(bytes.len() <= forebay_ring_log::LAYER_BYTES_MAX);
            let back = SuperblockPayload::decode(&bytes).unwrap();
            prop_assert!(payload.data.path.starts_with(&back.data.path));
            prop_assert!(payload.lost.starts_with(&back.lost) && (back.lost.len() == payload.lost.len() || back.lost.len() > 100));
            let payload = SuperblockPayload { lost: back.lost.clone(), ..payload };
            prop_assert_eq!(SuperblockPayload { data: DataIdentity { path: payload.data.path.clone(), ..back.data.clone() }, ..back }, payload);
        }

        #[test]
        fn a_text_longer_than_the_encoder_writes_is_rejected(len in 513..3000u16) {
            let data = DataIdentity { len: 512, path: String::new(), names: Vec::new() };
            let fingerprint = Fingerprint::default();
            let payload = SuperblockPayload { name: String::new(), data, block_size: 512, fingerprint, lost_sectors: 0, lost: Vec::new() };
            let mut bytes = payload.encode();
            let name_at = 220;
            bytes[name_at..name_at + 2].copy_from_slice(&len.to_le_bytes());
            let text = vec![b'a'; len.into()];
            bytes.splice(name_at + 2..name_at + 2, text);
            prop_assert_eq!(SuperblockPayload::decode(&bytes), None);
        }

        #[test]
        fn decoding_arbitrary_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = SuperblockPayload::decode(&bytes);
        }
    }
}
