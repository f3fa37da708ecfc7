//! The ioctls of files on a mounted Forebay filesystem: their numbers, and the layout of their arguments.
//!
//! `include/forebay_atomic.h` and `python/forebay_atomic.py` define the same interface. The kernel passes on only the
//! length and direction of the argument that are encoded in a number: at most [`ARGUMENT_MAX`] bytes.
//!
//! Integers are in the machine's byte order.

use std::ops::Range;

/// Maximum bytes of an argument.
pub const ARGUMENT_MAX: usize = (1 << 14) - 1;
/// Bytes of an argument of [`AtomicCommand::Change`] before its parts.
pub const CHANGE_HEADER: usize = 16;
/// Bytes of each part in that argument, without its data.
pub const PART: usize = 24;
/// Bytes of [`AtomicLimits`].
pub const FEATURES: usize = 16;

/// Type of Forebay's own ioctls.
const TYPE: u32 = 0xFB;
const WRITE: u32 = 1;
const READ: u32 = 2;

/// Returns the number of an ioctl, as `linux/ioctl.h` composes it.
const fn number(direction: u32, of: u32, nr: u32, len: usize) -> u32 {
    direction << 30 | (len as u32) << 16 | of << 8 | nr
}

/// FusionIO's ioctl: writes of this file must be atomic. Used by MariaDB and MySQL.
pub const DFS_ATOMIC_WRITE_SET: u32 = number(WRITE, 0x95, 2, 4);
/// F2FS's ioctl (`linux/f2fs.h`) that returns the features of the filesystem.
pub const F2FS_GET_FEATURES: u32 = number(READ, 0xf5, 12, 4);
/// F2FS feature: writes can be collected and then committed atomically. SQLite checks for it.
pub const F2FS_FEATURE_ATOMIC_WRITE: u32 = 0x0004;
/// F2FS's ioctl that begins to collect writes to the open file.
pub const F2FS_START_ATOMIC_WRITE: u32 = number(0, 0xf5, 1, 0);
/// F2FS's ioctl that commits the collected writes.
pub const F2FS_COMMIT_ATOMIC_WRITE: u32 = number(0, 0xf5, 2, 0);
/// F2FS's ioctl that aborts the collected writes.
pub const F2FS_ABORT_ATOMIC_WRITE: u32 = number(0, 0xf5, 5, 0);

/// Commands for an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicCommand {
    /// Returns [`AtomicLimits`].
    Features,
    /// Begins a transaction, and returns its id. The transaction ends at the latest when this open file is closed.
    Begin,
    /// Adds this open file to the transaction with an id: later writes to it become part of the transaction.
    Join,
    /// Changes [parts](FileChange) of this file: in the transaction with an id, or immediately and atomically if the id is 0.
    Change,
    /// Commits the transaction that this open file began.
    Commit,
    /// Aborts the transaction that this open file began.
    Abort,
    /// Exchanges the data of this file and of the file whose open file began the transaction with an id. The
    /// transaction ends.
    Exchange,
}

impl AtomicCommand {
    /// Returns the command with a number.
    pub fn of(number: u32) -> Option<AtomicCommand> {
        let all = [
            AtomicCommand::Features,
            AtomicCommand::Begin,
            AtomicCommand::Join,
            AtomicCommand::Commit,
            AtomicCommand::Abort,
            AtomicCommand::Exchange,
        ];
        let len = (number >> 16) as usize & ARGUMENT_MAX;
        let mut all = all.into_iter();
        match all.find(|command| command.number(0) == number) {
            None if AtomicCommand::Change.number(len) == number => Some(AtomicCommand::Change),
            found => found,
        }
    }

    /// Returns the command's number; for [`AtomicCommand::Change`], with an argument of `len` bytes.
    pub const fn number(self, len: usize) -> u32 {
        match self {
            AtomicCommand::Features => number(READ, TYPE, 0, FEATURES),
            AtomicCommand::Begin => number(READ, TYPE, 1, 8),
            AtomicCommand::Join => number(WRITE, TYPE, 2, 8),
            AtomicCommand::Change => number(WRITE, TYPE, 3, len),
            AtomicCommand::Commit => number(0, TYPE, 4, 0),
            AtomicCommand::Abort => number(0, TYPE, 5, 0),
            AtomicCommand::Exchange => number(WRITE, TYPE, 6, 8),
        }
    }
}

/// Limits of an atomic change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicLimits {
    /// Version of this interface: 1.
    pub version: u32,
    /// Maximum number of non-adjacent extents in all files together, including metadata that changes with them.
    pub pieces_max: u32,
    /// Maximum number of bytes in all files together, including metadata that changes with them.
    pub bytes_max: u64,
}

impl AtomicLimits {
    /// Encodes the features.
    pub fn encode(&self) -> [u8; FEATURES] {
        let mut bytes = [0; FEATURES];
        bytes[..4].copy_from_slice(&self.version.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.pieces_max.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.bytes_max.to_ne_bytes());
        bytes
    }

    /// Decodes the features.
    pub fn decode(bytes: &[u8; FEATURES]) -> AtomicLimits {
        AtomicLimits {
            version: u32_at(bytes, 0),
            pieces_max: u32_at(bytes, 4),
            bytes_max: u64_at(bytes, 8),
        }
    }
}

/// A change of a range of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileChange<'a> {
    /// Writes this data at an offset. The file is extended if it ends before the end of the data.
    Write(u64, &'a [u8]),
    /// Makes this range a hole, which reads as zeroes and takes no space. The file's size does not change.
    Punch(Range<u64>),
}

const KIND_WRITE: u32 = 0;
const KIND_PUNCH: u32 = 1;

impl FileChange<'_> {
    /// Returns the bytes that the part takes in an argument.
    pub fn encoded(&self) -> usize {
        match self {
            FileChange::Write(_, data) => PART + data.len(),
            FileChange::Punch(_) => PART,
        }
    }
}

/// Encodes the argument of [`AtomicCommand::Change`] for the transaction with an id: the number of parts, each part, and then
/// the data of all writes.
pub fn encode_parts(id: u64, parts: &[FileChange<'_>]) -> Vec<u8> {
    let mut out = id.to_ne_bytes().to_vec();
    out.extend_from_slice(&(parts.len() as u32).to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    for part in parts {
        let (offset, len, kind) = match part {
            FileChange::Write(offset, data) => (*offset, data.len() as u64, KIND_WRITE),
            FileChange::Punch(range) => (range.start, range.end - range.start, KIND_PUNCH),
        };
        out.extend_from_slice(&offset.to_ne_bytes());
        out.extend_from_slice(&len.to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    for part in parts {
        if let FileChange::Write(_, data) = part {
            out.extend_from_slice(data);
        }
    }
    out
}

/// Decodes the argument. `None` if it is malformed. The end of each part fits into 63 bits.
pub fn decode_parts(bytes: &[u8]) -> Option<(u64, Vec<FileChange<'_>>)> {
    let (header, rest) = bytes.split_first_chunk::<CHANGE_HEADER>()?;
    let count = u32_at(header, 8) as usize;
    let (heads, mut data) = rest.split_at_checked(count.checked_mul(PART)?)?;
    let mut parts = Vec::with_capacity(count);
    for head in heads.as_chunks::<PART>().0 {
        let (offset, len) = (u64_at(head, 0), u64_at(head, 8));
        let end = offset.checked_add(len)?;
        if i64::try_from(end).is_err() || u32_at(head, 20) != 0 {
            return None;
        }
        parts.push(match u32_at(head, 16) {
            KIND_WRITE => {
                let (own, others) = data.split_at_checked(usize::try_from(len).ok()?)?;
                data = others;
                FileChange::Write(offset, own)
            }
            KIND_PUNCH => FileChange::Punch(offset..end),
            _ => return None,
        });
    }
    (data.is_empty() && u32_at(header, 12) == 0).then(|| (u64_at(header, 0), parts))
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

    #[test]
    fn request_codes_of_foreign_interfaces_equal_their_published_values() {
        assert_eq!(DFS_ATOMIC_WRITE_SET, 0x4004_9502);
        assert_eq!(F2FS_GET_FEATURES, 0x8004_f50c);
        let rest = [
            F2FS_START_ATOMIC_WRITE,
            F2FS_COMMIT_ATOMIC_WRITE,
            F2FS_ABORT_ATOMIC_WRITE,
        ];
        assert_eq!(rest, [0xf501, 0xf502, 0xf505]);
    }

    #[test]
    fn commands_are_decoded_from_their_request_codes() {
        for command in [
            AtomicCommand::Features,
            AtomicCommand::Begin,
            AtomicCommand::Join,
            AtomicCommand::Change,
            AtomicCommand::Commit,
            AtomicCommand::Abort,
            AtomicCommand::Exchange,
        ] {
            assert_eq!(AtomicCommand::of(command.number(40)), Some(command));
        }
        for other in [0, 0xfb07, DFS_ATOMIC_WRITE_SET, 0x8004_fb03] {
            assert_eq!(AtomicCommand::of(other), None, "{other:x}");
        }
    }

    #[test]
    fn encoded_changes_decode_unchanged_and_invalid_bytes_are_rejected() {
        let parts = [
            FileChange::Write(7, b"data"),
            FileChange::Punch(100..5000),
            FileChange::Write(1 << 40, b"more"),
        ];
        let bytes = encode_parts(9, &parts);
        assert_eq!(decode_parts(&bytes), Some((9, parts.to_vec())));
        let sizes: usize = parts.iter().map(FileChange::encoded).sum();
        assert_eq!(bytes.len(), CHANGE_HEADER + sizes);
        for cut in 0..bytes.len() {
            assert_eq!(decode_parts(&bytes[..cut]), None, "{cut}");
        }
        let (mut longer, mut many, mut kind) = (bytes.clone(), bytes.clone(), bytes.clone());
        longer.push(0);
        many[11] = 0xff;
        kind[CHANGE_HEADER + 16] = 2;
        let mut far = encode_parts(9, &[FileChange::Punch(0..1)]);
        far[CHANGE_HEADER + 7] = 0x80;
        for wrong in [longer, many, kind, far] {
            assert_eq!(decode_parts(&wrong), None);
        }
    }

    #[test]
    fn encoded_limits_decode_unchanged() {
        let features = AtomicLimits {
            version: 1,
            pieces_max: 8192,
            bytes_max: 64 << 20,
        };
        assert_eq!(AtomicLimits::decode(&features.encode()), features);
    }
}
