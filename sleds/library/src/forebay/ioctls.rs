//! The ioctls of Forebay's filesystem, as the page `docs/places.md` describes them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use super::ReportedDevice;
use crate::extents::{BackingExtent, BackingTier};
use crate::sys;

/// `_IOWR(0xFB, 0x40, char[16352])`
const PLACES: u32 = 0xffe0_fb40;
/// `_IOR(0xFB, 0x41, char[4128])`
const MEDIUM: u32 = 0x9020_fb41;

const HEADER: usize = 32;
const PART: usize = 32;
pub(super) const ARGUMENT: usize = HEADER + 510 * PART;
pub(super) const MEDIUM_BYTES: usize = HEADER + 4096;

const NOWHERE: u32 = 1;
const MEMORY: u32 = 2;
const ON_MEDIUM: u32 = 3;
const BLOCK_DEVICE: u32 = 1;
const FILE: u32 = 2;

/// Returns the data device of the filesystem that contains `file`. `None` if the filesystem does not support the ioctl.
/// A filesystem that does not know its data device returns an empty `ReportedDevice`.
pub(super) fn medium(file: &File) -> Option<ReportedDevice> {
    let mut bytes = vec![0; MEDIUM_BYTES];
    sys::ioctl(file.as_fd(), MEDIUM, &mut bytes).ok()?;
    Some(decode_medium(&bytes))
}

pub(super) fn decode_medium(bytes: &[u8]) -> ReportedDevice {
    let path = &bytes[HEADER..];
    let end = path.iter().position(|byte| *byte == 0);
    let kind = u32_at(bytes, 0);
    let known = matches!(kind, BLOCK_DEVICE | FILE);
    let path = if known {
        &path[..end.unwrap_or(path.len())]
    } else {
        &[]
    };
    ReportedDevice {
        path: OsStr::from_bytes(path).into(),
        device: (u32_at(bytes, 4), u32_at(bytes, 8)),
        inode: (kind == FILE).then(|| u64_at(bytes, 16)),
        start: known.then(|| u64_at(bytes, 24)),
    }
}

/// Returns the extents of bytes `from` to `to`, in order and without gaps. Bytes that the filesystem does not report
/// are unknown.
pub(super) fn extents(file: &File, from: u64, to: u64) -> Vec<BackingExtent> {
    let mut found: Vec<BackingExtent> = Vec::new();
    let (mut at, mut argument) = (from, vec![0; ARGUMENT]);
    while at < to {
        argument[..HEADER].fill(0);
        argument[..8].copy_from_slice(&at.to_ne_bytes());
        argument[8..16].copy_from_slice(&to.to_ne_bytes());
        if sys::ioctl(file.as_fd(), PLACES, &mut argument).is_err() {
            break;
        }
        let told = believe(&argument, (at, to), &mut found);
        if told == at {
            break;
        }
        at = told;
    }
    if at < to {
        found.push(BackingExtent {
            offset: at,
            end: to,
            under: BackingTier::Unknown,
        });
    }
    found
}

/// Adds the extents that an answer reports for bytes `from` to `to`, and returns their end. Parts that do not match the
/// question are ignored.
pub(super) fn believe(
    argument: &[u8],
    (from, to): (u64, u64),
    found: &mut Vec<BackingExtent>,
) -> u64 {
    let mut at = from;
    for part in decode_places(argument) {
        if part.offset != at || part.end <= at || part.end > to {
            break;
        }
        at = part.end;
        push(found, part);
    }
    at
}

/// Joins adjacent extents, but not those of data: places on the data device are not contiguous where bytes of a file
/// are.
fn push(found: &mut Vec<BackingExtent>, part: BackingExtent) {
    match found.last_mut() {
        Some(last) if last.under == part.under && !matches!(part.under, BackingTier::Data(_)) => {
            last.end = part.end;
        }
        _ => found.push(part),
    }
}

fn decode_places(argument: &[u8]) -> impl Iterator<Item = BackingExtent> {
    let count = u32_at(argument, 16) as usize;
    let parts = argument[HEADER..].chunks_exact(PART).take(count);
    parts.map(|part| BackingExtent {
        offset: u64_at(part, 0),
        end: u64_at(part, 8),
        under: match u32_at(part, 24) {
            NOWHERE => BackingTier::Nothing,
            MEMORY => BackingTier::Memory,
            ON_MEDIUM => BackingTier::Data(Some(u64_at(part, 16))),
            _ => BackingTier::Unknown,
        },
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/places.md");

    /// Returns the bytes of a structure of the documentation page, with these values in its fields.
    fn as_on_the_page(structure: &str, values: &[(&str, u64)]) -> Vec<u8> {
        let fields = forebay_doc_tables::layout(PAGE, structure);
        let names: Vec<&str> = fields.iter().map(|(_, _, name)| name.as_str()).collect();
        let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, known, "{structure}");
        let mut bytes = Vec::new();
        for ((_, size, _), (_, value)) in fields.iter().zip(values) {
            let mut field = match size {
                4 => (*value as u32).to_ne_bytes().to_vec(),
                _ => value.to_ne_bytes().to_vec(),
            };
            field.resize(*size as usize, 0);
            bytes.extend(field);
        }
        bytes
    }

    #[test]
    fn ioctl_numbers_and_bytes_are_as_documented() {
        for number in [PLACES, MEDIUM] {
            assert!(PAGE.contains(&format!("`{number:#x}`: `_IO")), "{number:x}");
        }
        let header = [("start", 7), ("end", 900), ("count", 2), ("reserved", 0)];
        let mut bytes = as_on_the_page("Places", &header);
        assert_eq!(bytes.len(), HEADER);
        for (start, end, at, place) in [(7, 300, 0, 2), (300, 900, 12345, 3), (900, 901, 0, 1)] {
            let part = [
                ("start", start),
                ("end", end),
                ("at", at),
                ("where", place),
                ("reserved", 0),
            ];
            bytes.extend(as_on_the_page("Part", &part));
        }
        let extent = |offset, end, under| BackingExtent { offset, end, under };
        let expected = [
            extent(7, 300, BackingTier::Memory),
            extent(300, 900, BackingTier::Data(Some(12345))),
        ];
        assert!(decode_places(&bytes).eq(expected));
        let medium = [
            ("kind", 2),
            ("major", 8),
            ("minor", 17),
            ("reserved", 0),
            ("inode", 99),
            ("start", 4096),
            ("path", u64::from_ne_bytes(*b"/dev/x\0\0")),
        ];
        let bytes = as_on_the_page("Medium", &medium);
        assert_eq!(bytes.len(), MEDIUM_BYTES);
        let expected = ReportedDevice {
            path: "/dev/x".into(),
            device: (8, 17),
            inode: Some(99),
            start: Some(4096),
        };
        assert_eq!(decode_medium(&bytes), expected);
        assert_eq!(decode_medium(&[0; MEDIUM_BYTES]).start, None);
    }
}
