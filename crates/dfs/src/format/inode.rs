//! An i-node: all attributes of a file except for its names, and its data if the file is small.

use forebay_device::is_zero;
use forebay_segment_log::FormatError;
use forebay_segment_log::format::envelope::ByteReader;
use forebay_units::SECTOR_BYTES;

use super::{FileFlags, FileKind, SectorBytes, finish, open};

const MAGIC: &[u8; 4] = b"FBIN";
const WHAT: &str = "i-node";
/// The offset of data in the i-node.
const INLINE_AT: usize = 128;
/// The most bytes of data that lie in the i-node.
pub const INLINE_MAX: usize = SECTOR_BYTES as usize - INLINE_AT;
/// The longest target of a symbolic link, in bytes: the limit of paths in Linux.
pub const SYMLINK_MAX: usize = 4095;
/// The most names of a file.
pub(crate) const LINKS_MAX: u32 = i32::MAX as u32;
const NANOS: u32 = 1_000_000_000;

/// A timestamp of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct FileTime {
    /// Seconds since the beginning of 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds, less than 10⁹.
    pub nanos: u32,
}

/// All attributes of a file except for its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// The i-number.
    pub file: u64,
    /// A number that no other file with this i-number ever had.
    pub generation: u64,
    /// The kind of file.
    pub kind: FileKind,
    /// Flags set by users.
    pub flags: FileFlags,
    /// Permissions and the other bits of the lowest 12 bits of a mode.
    pub permissions: u16,
    /// The number of names; for a directory, two plus the number of its subdirectories.
    pub links: u32,
    /// The owner's user ID.
    pub user: u32,
    /// The group ID.
    pub group: u32,
    /// The device number, for a device.
    pub device: u32,
    /// Bytes of data; for a directory, the number of its entries.
    pub size: u64,
    /// The sector where the data begins; 0 if the data lies in the i-node or the file has no data.
    pub base: u64,
    /// The time of the last read of data.
    pub accessed: FileTime,
    /// The time of the last change of data.
    pub modified: FileTime,
    /// The time of the last change of data or attributes.
    pub changed: FileTime,
    /// The time of creation.
    pub born: FileTime,
    /// For a directory, the i-number of its parent.
    pub parent: u64,
    /// Bytes of extended attributes.
    pub attributes: u32,
    /// For a directory, the number of windows in use beside the first.
    pub further: u8,
    /// Data that lies in the i-node. Its length is `size`; empty if the data lies elsewhere.
    pub inline: Vec<u8>,
}

impl Inode {
    /// Returns the i-node of a new file, still without names, data and owner.
    pub fn new(file: u64, kind: FileKind, permissions: u16, now: FileTime) -> Inode {
        Inode {
            file,
            generation: 0,
            kind,
            flags: FileFlags::default(),
            permissions,
            links: 0,
            user: 0,
            group: 0,
            device: 0,
            size: 0,
            base: 0,
            accessed: now,
            modified: now,
            changed: now,
            born: now,
            parent: 0,
            attributes: 0,
            further: 0,
            inline: Vec::new(),
        }
    }

    /// Returns true if the data lies in the i-node.
    pub fn is_inline(&self) -> bool {
        self.base == 0
    }

    /// Encodes the i-node.
    pub fn encode(&self) -> SectorBytes {
        let mut out = Vec::with_capacity(SECTOR_BYTES as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&[self.kind.code(), self.flags.bits()]);
        out.extend_from_slice(&self.permissions.to_le_bytes());
        for n in [self.links, self.user, self.group, self.device] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&self.attributes.to_le_bytes());
        for n in [self.size, self.base, self.parent] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        let times = [self.accessed, self.modified, self.changed, self.born];
        for time in times {
            out.extend_from_slice(&time.seconds.to_le_bytes());
        }
        for time in times {
            out.extend_from_slice(&time.nanos.to_le_bytes());
        }
        debug_assert!(out.len() <= INLINE_AT && self.inline.len() <= INLINE_MAX);
        out.resize(INLINE_AT, 0);
        match self.kind {
            FileKind::Directory => out.push(self.further),
            _ => out.extend_from_slice(&self.inline),
        }
        finish(out)
    }

    /// Decodes the i-node in a sector. Returns `None` for an unmapped sector, which reads as zeroes.
    ///
    /// # Errors
    ///
    /// If the i-node is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Option<Inode>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = inode(&mut from, &bytes[INLINE_AT..]);
        decoded.map(Some).ok_or(FormatError::Content(WHAT))
    }
}

fn inode(from: &mut ByteReader<'_>, behind: &[u8]) -> Option<Inode> {
    let mut inode = Inode {
        file: from.uint(8)?,
        generation: from.uint(8)?,
        kind: FileKind::of_code(from.uint(1)? as u8)?,
        flags: FileFlags::of_bits(from.uint(1)? as u8)?,
        permissions: from.uint(2)? as u16,
        links: from.uint(4)? as u32,
        user: from.uint(4)? as u32,
        group: from.uint(4)? as u32,
        device: from.uint(4)? as u32,
        attributes: from.uint(4)? as u32,
        size: from.uint(8)?,
        base: from.uint(8)?,
        parent: from.uint(8)?,
        accessed: FileTime::default(),
        modified: FileTime::default(),
        changed: FileTime::default(),
        born: FileTime::default(),
        further: 0,
        inline: Vec::new(),
    };
    let times = [
        &mut inode.accessed,
        &mut inode.modified,
        &mut inode.changed,
        &mut inode.born,
    ];
    let mut seconds = [0; 4];
    for second in &mut seconds {
        *second = from.uint(8)? as i64;
    }
    for (time, seconds) in times.into_iter().zip(seconds) {
        let nanos = from.uint(4)? as u32;
        *time = FileTime { seconds, nanos };
        if nanos >= NANOS {
            return None;
        }
    }
    let has_data = matches!(inode.kind, FileKind::Regular | FileKind::Symlink);
    if has_data && inode.is_inline() {
        let len = usize::try_from(inode.size).ok()?;
        inode.inline = behind.get(..len)?.to_vec();
    }
    let mut known = inode.inline.len();
    if inode.kind == FileKind::Directory {
        inode.further = *behind.first()?;
        known = 1;
    }
    let rest_is_empty = from.uint(8)? == 0 && behind.get(known..).is_none_or(is_zero);
    let has_its_flags = inode.flags.of_kind(inode.kind) == inode.flags;
    let possible = inode.file > 0 && inode.permissions < 0o10000 && has_its_flags && rest_is_empty;
    possible.then_some(inode)
}
