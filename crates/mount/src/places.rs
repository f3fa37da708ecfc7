//! Places of a file's bytes on the device: the two ioctls that `docs/places.md` describes.

use forebay_device::is_zero;
use std::os::unix::ffi::OsStrExt as _;

use forebay_dfs::PlacedBytes;
use forebay_fuse::codec::FuseIoctl;
use forebay_fuse::codec::ioctl_out;
use forebay_vsl::SectorLocation;

use crate::handler::{FuseReply, MountedFiles, ReplyBytes};
use crate::medium::FilesystemBacking;

/// `_IOWR(0xFB, 0x40, char[16352])`: the size field of an ioctl number allows at most 16383 bytes.
const PLACES: u32 = 0xffe0_fb40;
/// `_IOR(0xFB, 0x41, char[4128])`
const MEDIUM: u32 = 0x9020_fb41;

const HEADER: usize = 32;
const PART: usize = 32;
const PARTS_MAX: usize = 510;
const ARGUMENT: usize = HEADER + PARTS_MAX * PART;
const PATH_MAX: usize = 4096;

const NOWHERE: u32 = 1;
const MEMORY: u32 = 2;
const ON_MEDIUM: u32 = 3;

const BLOCK_DEVICE: u32 = 1;
const FILE: u32 = 2;

impl MountedFiles {
    /// Answers an ioctl about places; `None` for any other ioctl.
    pub(crate) async fn told_places(&self, file: u64, asked: &FuseIoctl) -> Option<FuseReply> {
        let told = match asked.command {
            PLACES => match decode(&asked.data) {
                Some((start, end)) => self.places(file, start, end).await,
                None => return Some(FuseReply::Errno(libc::EINVAL)),
            },
            MEDIUM => Ok(encode_medium(self.medium())),
            _ => return None,
        };
        Some(FuseReply::Looked(told.map(|data| ioctl_out(0, &data))))
    }

    async fn places(&self, file: u64, start: u64, end: u64) -> ReplyBytes {
        let parts = self.fs.places(file, start..end, PARTS_MAX).await?;
        Ok(encode(start, &parts))
    }
}

/// Decodes the requested range: the first byte, and the byte after the last.
fn decode(argument: &[u8]) -> Option<(u64, u64)> {
    let header = argument.get(..HEADER)?;
    let number = |at: usize| Some(u64::from_ne_bytes(header[at..at + 8].try_into().ok()?));
    let (start, end) = (number(0)?, number(8)?);
    let is_clean = is_zero(&header[16..]);
    (is_clean && start <= end && argument.len() == ARGUMENT).then_some((start, end))
}

fn encode(start: u64, parts: &[PlacedBytes]) -> Vec<u8> {
    let end = parts.last().map_or(start, |part| part.bytes.end);
    let mut out = Vec::with_capacity(HEADER + parts.len() * PART);
    out.extend_from_slice(&start.to_ne_bytes());
    out.extend_from_slice(&end.to_ne_bytes());
    out.extend_from_slice(&(parts.len() as u32).to_ne_bytes());
    out.resize(HEADER, 0);
    for part in parts {
        let (place, at) = match part.at {
            SectorLocation::Nowhere => (NOWHERE, 0),
            SectorLocation::Memory => (MEMORY, 0),
            SectorLocation::Medium(at) => (ON_MEDIUM, at),
        };
        for number in [part.bytes.start, part.bytes.end, at] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        out.extend_from_slice(&place.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    out
}

fn encode_medium(medium: Option<&FilesystemBacking>) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + PATH_MAX);
    let fits = |medium: &&FilesystemBacking| medium.path.as_os_str().len() < PATH_MAX;
    if let Some(medium) = medium.filter(fits) {
        let kind = match medium.inode {
            None => BLOCK_DEVICE,
            Some(_) => FILE,
        };
        for number in [kind, medium.device.0, medium.device.1, 0] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        for number in [medium.inode.unwrap_or_default(), medium.start] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        out.extend_from_slice(medium.path.as_os_str().as_bytes());
    }
    out.resize(HEADER + PATH_MAX, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/places.md");

    #[test]
    fn ioctl_numbers_and_bytes_are_as_documented() {
        for number in [PLACES, MEDIUM] {
            assert!(PAGE.contains(&format!("`{number:#x}`: `_IO")), "{number:x}");
        }
        assert_eq!(PLACES, 3 << 30 | (ARGUMENT as u32) << 16 | 0xfb40);
        assert_eq!(
            MEDIUM,
            2 << 30 | ((HEADER + PATH_MAX) as u32) << 16 | 0xfb41
        );
        let parts = [
            PlacedBytes {
                bytes: 0x11..0x1213,
                at: SectorLocation::Nowhere,
            },
            PlacedBytes {
                bytes: 0x1213..0x1415,
                at: SectorLocation::Medium(0x1617),
            },
        ];
        let bytes = encode(0x11, &parts);
        let header = [
            ("start", 0x11),
            ("end", 0x1415),
            ("count", 2),
            ("reserved", 0),
        ];
        forebay_doc_tables::fields_stand(PAGE, "Places", &bytes, &header);
        let part = [
            ("start", 0x1213),
            ("end", 0x1415),
            ("at", 0x1617),
            ("where", 3),
            ("reserved", 0),
        ];
        forebay_doc_tables::fields_stand(PAGE, "Part", &bytes[HEADER + PART..], &part);
        let medium = FilesystemBacking {
            path: "/dev/x".into(),
            device: (8, 17),
            inode: Some(0x2122),
            start: 0x2324,
        };
        let bytes = encode_medium(Some(&medium));
        let fields = [
            ("kind", 2),
            ("major", 8),
            ("minor", 17),
            ("reserved", 0),
            ("inode", 0x2122),
            ("start", 0x2324),
            ("path", u64::from_le_bytes(*b"/dev/x\0\0")),
        ];
        forebay_doc_tables::fields_stand(PAGE, "Medium", &bytes, &fields);
        assert_eq!(encode_medium(None), [0; HEADER + PATH_MAX]);
    }

    #[test]
    fn a_malformed_places_argument_is_refused() {
        let ask = |start: u64, end: u64| {
            let mut bytes = vec![0; ARGUMENT];
            bytes[..8].copy_from_slice(&start.to_ne_bytes());
            bytes[8..16].copy_from_slice(&end.to_ne_bytes());
            bytes
        };
        assert_eq!(decode(&ask(3, u64::MAX)), Some((3, u64::MAX)));
        assert_eq!(decode(&ask(4, 3)), None);
        assert_eq!(decode(&ask(3, 4)[1..]), None);
        let mut reserved = ask(3, 4);
        reserved[HEADER - 1] = 1;
        assert_eq!(decode(&reserved), None);
        assert_eq!(decode(&[]), None);
    }
}
