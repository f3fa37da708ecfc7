//! An i-node: all that is known of a file but its names, and its data if that is little.

use forebay_device::is_zero;
use forebay_segments::FormatError;
use forebay_segments::format::envelope::Reader;
use forebay_units::SECTOR_BYTES;

use super::{Block, FileFlags, Kind, finish, open};

const MAGIC: &[u8; 4] = b"FBIN";
const WHAT: &str = "i-node";
/// Where data lies in the i-node.
const INLINE_AT: usize = 128;
/// The most bytes of data that lie in the i-node.
pub const INLINE_MAX: usize = SECTOR_BYTES as usize - INLINE_AT;
/// The longest that a symbolic link leads to, in bytes: what Linux's paths may have.
pub const SYMLINK_MAX: usize = 4095;
/// The most names that a file may have.
pub(crate) const LINKS_MAX: u32 = i32::MAX as u32;
const NANOS: u32 = 1_000_000_000;

/// A point in time, as files have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Time {
    /// Seconds since the beginning of 1970, UTC.
    pub seconds: i64,
    /// And nanoseconds, fewer than a thousand million.
    pub nanos: u32,
}

/// All that is known of a file but its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Its i-number.
    pub file: u64,
    /// Different from that of any other file that ever had this i-number.
    pub generation: u64,
    /// What kind of file.
    pub kind: Kind,
    /// What its users have set for it.
    pub flags: FileFlags,
    /// Permissions, and what else is in the lowest 12 bits of a mode.
    pub permissions: u16,
    /// Names that it has; of a directory two, and one more for each directory in it.
    pub links: u32,
    /// Whose it is.
    pub user: u32,
    /// Whose group it is.
    pub group: u32,
    /// Which device, of a device.
    pub device: u32,
    /// Bytes of data; of a directory, how many names it has.
    pub size: u64,
    /// The sector where the data begins; 0 if it lies in the i-node, or if there is none.
    pub base: u64,
    /// When data was last read.
    pub accessed: Time,
    /// When data was last changed.
    pub modified: Time,
    /// When anything was last changed.
    pub changed: Time,
    /// When it was made.
    pub born: Time,
    /// Of a directory, the i-number of the one it is in.
    pub parent: u64,
    /// Bytes of extended attributes.
    pub attributes: u32,
    /// Of a directory, how many windows for a name's entry are in use beside the first.
    pub further: u8,
    /// Data, of a file whose data lies here: as many bytes as its size says.
    pub inline: Vec<u8>,
}

impl Inode {
    /// That of a new file which has no name, no data and no owner yet.
    pub fn new(file: u64, kind: Kind, permissions: u16, now: Time) -> Inode {
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

    /// Whether its data lies in the i-node.
    pub fn is_inline(&self) -> bool {
        self.base == 0
    }

    /// Its bytes.
    pub fn encode(&self) -> Block {
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
            Kind::Directory => out.push(self.further),
            _ => out.extend_from_slice(&self.inline),
        }
        finish(out)
    }

    /// The i-node in a sector; nothing in one that is not mapped, and so reads as zeroes.
    ///
    /// # Errors
    /// If it is neither.
    pub fn decode(bytes: &[u8]) -> Result<Option<Inode>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = inode(&mut from, &bytes[INLINE_AT..]);
        decoded.map(Some).ok_or(FormatError::Content(WHAT))
    }
}

fn inode(from: &mut Reader<'_>, behind: &[u8]) -> Option<Inode> {
    let mut inode = Inode {
        file: from.uint(8)?,
        generation: from.uint(8)?,
        kind: Kind::of_code(from.uint(1)? as u8)?,
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
        accessed: Time::default(),
        modified: Time::default(),
        changed: Time::default(),
        born: Time::default(),
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
        *time = Time { seconds, nanos };
        if nanos >= NANOS {
            return None;
        }
    }
    let has_data = matches!(inode.kind, Kind::Regular | Kind::Symlink);
    if has_data && inode.is_inline() {
        let len = usize::try_from(inode.size).ok()?;
        inode.inline = behind.get(..len)?.to_vec();
    }
    let mut known = inode.inline.len();
    if inode.kind == Kind::Directory {
        inode.further = *behind.first()?;
        known = 1;
    }
    let rest_is_empty = from.uint(8)? == 0 && behind.get(known..).is_none_or(is_zero);
    let has_its_flags = inode.flags.of_kind(inode.kind) == inode.flags;
    let possible = inode.file > 0 && inode.permissions < 0o10000 && has_its_flags && rest_is_empty;
    possible.then_some(inode)
}
