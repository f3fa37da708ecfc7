//! Recognises the present content of a device. Creating a volume erases the device, so the content is checked first.
//!
//! A table of signatures (as in `blkid` and `file`) covers formats that are recognised near the start of the device. A
//! few other formats need more than one place to be read. An empty result only means that no known format was found.

use std::fmt;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError};

use crate::kind::FoundVolume;
use crate::registry::kinds;

/// Bytes read from the start, up to the furthest signature.
const HEAD_BYTES: u64 = 1 << 20;
/// Bytes read from the end.
const TAIL_BYTES: u64 = 128 << 10;

/// Recognised content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceContent {
    /// A format of another system.
    Foreign(&'static str),
    /// A Forebay volume.
    Volume(FoundVolume),
}

impl fmt::Display for DeviceContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceContent::Foreign(what) => f.write_str(what),
            DeviceContent::Volume(found) => f.write_str(&found.text),
        }
    }
}

/// A byte pattern at a place, and the name of its format.
struct FormatSignature {
    at: usize,
    bytes: &'static [u8],
    what: &'static str,
}

const fn signature(at: usize, bytes: &'static [u8], what: &'static str) -> FormatSignature {
    FormatSignature { at, bytes, what }
}

/// Signatures in the order of trust. A boot sector has the same ending as a partition table, so the partition table is
/// last.
const SIGNATURES: &[FormatSignature] = &[
    signature(0, b"XFSB", "an XFS filesystem"),
    signature(0x10040, b"_BHRfS_M", "a Btrfs filesystem"),
    signature(0x438, b"\x53\xef", "an ext2, ext3 or ext4 filesystem"),
    signature(0x400, b"\x10\x20\xf5\xf2", "an F2FS filesystem"),
    signature(0x406, b"\x34\x34", "a NILFS2 filesystem"),
    signature(0x400, b"\xe2\xe1\xf5\xe0", "an EROFS filesystem"),
    signature(0x8000, b"JFS1", "a JFS filesystem"),
    signature(0x10034, b"ReIsEr", "a ReiserFS filesystem"),
    signature(0, b"hsqs", "a SquashFS filesystem"),
    signature(0x8001, b"CD001", "an ISO 9660 filesystem"),
    signature(0, b"LUKS\xba\xbe", "a LUKS encrypted volume"),
    signature(0, b"SKUL\xba\xbe", "a LUKS encrypted volume"),
    signature(0, b"LABELONE", "an LVM physical volume"),
    signature(512, b"LABELONE", "an LVM physical volume"),
    signature(1024, b"LABELONE", "an LVM physical volume"),
    signature(1536, b"LABELONE", "an LVM physical volume"),
    signature(0, b"\xfc\x4e\x2b\xa9", "a member of an MD RAID"),
    signature(4096, b"\xfc\x4e\x2b\xa9", "a member of an MD RAID"),
    signature(4086, b"SWAPSPACE2", "swap space"),
    signature(4086, b"SWAP-SPACE", "swap space"),
    signature(8182, b"SWAPSPACE2", "swap space"),
    signature(16374, b"SWAPSPACE2", "swap space"),
    signature(65526, b"SWAPSPACE2", "swap space"),
    signature(
        0x1018,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device",
    ),
    signature(
        0x1018,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        "a bcachefs filesystem",
    ),
    signature(0, b"QFI\xfb", "a QCOW disk image"),
    signature(0, b"KDMV", "a VMDK disk image"),
    signature(3, b"NTFS    ", "an NTFS filesystem"),
    signature(3, b"EXFAT   ", "an exFAT filesystem"),
    signature(54, b"FAT1", "a FAT filesystem"),
    signature(82, b"FAT32", "a FAT filesystem"),
    signature(512, b"EFI PART", "a GPT partition table"),
    signature(4096, b"EFI PART", "a GPT partition table"),
    signature(510, b"\x55\xaa", "an MBR partition table or boot sector"),
];

const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Recognises the content of `device`.
///
/// # Errors
/// If the device cannot be read.
pub async fn probe(device: &Rc<dyn Device>) -> Result<Option<DeviceContent>, DeviceError> {
    for kind in kinds() {
        if let Some(found) = kind.find(device).await {
            return Ok(Some(DeviceContent::Volume(found)));
        }
    }
    let len = device.geometry().len;
    let head = read(device, 0..len.min(HEAD_BYTES)).await?;
    let tail_from = len.saturating_sub(TAIL_BYTES);
    let tail = read(device, tail_from..len).await?;
    Ok(foreign(&head, &tail, len).map(DeviceContent::Foreign))
}

async fn read(device: &Rc<dyn Device>, range: std::ops::Range<u64>) -> Result<BufMut, DeviceError> {
    let block = u64::from(device.geometry().block_size);
    let start = range.start / block * block;
    device
        .read(start, BufMut::zeroed((range.end - start) as usize))
        .await
}

/// Recognises formats of other systems. `head` holds the first bytes of the device, `tail` the last; the device is
/// `len` bytes long.
fn foreign(head: &[u8], tail: &[u8], len: u64) -> Option<&'static str> {
    let found = SIGNATURES.iter().find(|signature| {
        head.get(signature.at..)
            .is_some_and(|rest| rest.starts_with(signature.bytes))
    });
    if let Some(signature) = found {
        return Some(signature.what);
    }
    if is_zfs(head) {
        return Some("a member of a ZFS pool");
    }
    let at_end = |at: u64| {
        let tail_from = len - tail.len() as u64;
        tail.get(usize::try_from(at.checked_sub(tail_from)?).ok()?..)
    };
    // Versions 1.0 and 0.90 of the MD superblock (drivers/md/md.c).
    let md_ends = [
        (len / 512)
            .checked_sub(16)
            .map(|sector| (sector & !7) * 512),
        (len & !0xffff).checked_sub(0x10000),
    ];
    let is_md = |at: u64| at_end(at).is_some_and(|rest| rest.starts_with(MD_MAGIC));
    if md_ends.into_iter().flatten().any(is_md) {
        return Some("a member of an MD RAID");
    }
    let gpt = |block: u64| {
        let at = len.checked_sub(block)?;
        at_end(at)?.starts_with(b"EFI PART").then_some(())
    };
    (gpt(512).is_some() || gpt(4096).is_some()).then_some("a GPT partition table (its backup)")
}

/// Returns true if the ring of either label at the start contains an uberblock.
fn is_zfs(head: &[u8]) -> bool {
    let uberblock = |at: usize| {
        let magic = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        magic.is_some_and(|bytes: [u8; 8]| {
            u64::from_le_bytes(bytes) == ZFS_MAGIC || u64::from_be_bytes(bytes) == ZFS_MAGIC
        })
    };
    let ring = |label: usize| (0..128).map(move |slot| label + (128 << 10) + slot * 1024);
    ring(0).chain(ring(256 << 10)).any(uberblock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> (Vec<u8>, Vec<u8>, u64) {
        (
            vec![0; HEAD_BYTES as usize],
            vec![0; TAIL_BYTES as usize],
            64 << 20,
        )
    }

    #[test]
    fn every_signature_in_the_table_is_found_at_its_offset() {
        for signature in SIGNATURES {
            let (mut head, tail, len) = image();
            head[signature.at..signature.at + signature.bytes.len()]
                .copy_from_slice(signature.bytes);
            assert_eq!(foreign(&head, &tail, len), Some(signature.what));
        }
    }

    #[test]
    fn formats_with_several_signature_offsets_are_recognized() {
        let (mut head, tail, len) = image();
        head[(128 << 10) + 5 * 1024..][..8].copy_from_slice(&ZFS_MAGIC.to_le_bytes());
        assert_eq!(foreign(&head, &tail, len), Some("a member of a ZFS pool"));
        let (head, mut tail, len) = image();
        let end = tail.len();
        tail[end - 512..][..8].copy_from_slice(b"EFI PART");
        assert!(foreign(&head, &tail, len).unwrap().contains("GPT"));
        let (head, mut tail, len) = image();
        tail[end - 0x10000..][..4].copy_from_slice(MD_MAGIC);
        assert!(foreign(&head, &tail, len).unwrap().contains("MD RAID"));
    }

    #[test]
    fn zeroes_and_short_images_have_no_known_content() {
        let (head, tail, len) = image();
        assert_eq!(foreign(&head, &tail, len), None);
        assert_eq!(foreign(&[], &[], 0), None);
        assert_eq!(foreign(&[0; 512], &[0; 512], 512), None);
    }
}
