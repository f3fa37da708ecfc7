//! Replies.

use super::FuseFileKind;
use crate::codec::init_flag::INIT_EXT;
use crate::codec::{MAJOR, MINOR, OUT_HEADER};

/// Returns a reply's header, for a payload of `len` bytes; `errno` is 0 or the positive error number.
pub fn out_header(unique: u64, errno: i32, len: usize) -> [u8; OUT_HEADER] {
    let mut out = ReplyWriter::<OUT_HEADER>::new();
    out.u32((OUT_HEADER + len) as u32);
    out.u32((-errno).cast_unsigned());
    out.u64(unique);
    out.bytes
}

/// Returns an unsolicited message that invalidates the kernel's cached attributes of an inode and, with `bytes` (offset
/// and length), its cached data. A length of 0 extends to the end. (`FUSE_NOTIFY_INVAL_INODE`)
pub fn invalidation(node: u64, bytes: Option<(u64, u64)>) -> [u8; OUT_HEADER + 24] {
    const INVAL_INODE: u32 = 2;
    let mut out = ReplyWriter::<{ OUT_HEADER + 24 }>::new();
    out.u32((OUT_HEADER + 24) as u32);
    out.u32(INVAL_INODE);
    out.u64(0);
    out.u64(node);
    let (offset, len) = bytes.unwrap_or((u64::MAX, 0));
    out.u64(offset);
    out.u64(len);
    out.bytes
}

/// The server's options in INIT's reply.
#[derive(Clone, Copy, Debug)]
pub struct InitReply {
    /// The requested flags; see [`init_flag`](crate::codec::init_flag).
    pub flags: u64,
    /// Limit on a write or read, in bytes.
    pub io_bytes_max: u32,
    /// Limit on the kernel's read-ahead, in bytes.
    pub read_ahead: u32,
    /// Asynchronous requests the kernel may have outstanding.
    pub background_max: u16,
}

/// Returns the reply to INIT with the flags `offered` by the kernel.
pub fn init_out(offered: u64, limits: InitReply) -> [u8; 64] {
    let mut flags = limits.flags & offered;
    if flags >> 32 != 0 {
        flags |= INIT_EXT;
    }
    let mut out = ReplyWriter::<64>::new();
    out.u32(MAJOR);
    out.u32(MINOR);
    out.u32(limits.read_ahead);
    out.u32(flags as u32);
    out.u16(limits.background_max);
    out.u16(limits.background_max); // never "congested": what is above has its own bound
    out.u32(limits.io_bytes_max);
    out.u32(1); // time granularity in ns
    out.u16((limits.io_bytes_max / 4096) as u16);
    out.u16(0);
    out.u32((flags >> 32) as u32);
    out.bytes
}

/// Attributes of a file.
#[derive(Clone, Copy, Default, Debug)]
pub struct FuseAttributes {
    /// The inode.
    pub node: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Device number of a device file, in the kernel's encoding.
    pub device: u32,
    /// Length in bytes.
    pub len: u64,
    /// Occupied space, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub preferred_io: u32,
    /// Time of the last read: seconds since 1970, nanoseconds.
    pub accessed: (i64, u32),
    /// Time of the last change of the data.
    pub modified: (i64, u32),
    /// Time of the last change of data or attributes.
    pub changed: (i64, u32),
}

impl FuseAttributes {
    fn put<const N: usize>(&self, out: &mut ReplyWriter<N>) {
        let times = [self.accessed, self.modified, self.changed];
        out.u64(self.node);
        out.u64(self.len);
        out.u64(self.blocks);
        for (seconds, _) in times {
            out.u64(seconds.cast_unsigned());
        }
        for (_, nanos) in times {
            out.u32(nanos);
        }
        out.u32(self.mode);
        out.u32(self.links);
        out.u32(self.user);
        out.u32(self.group);
        out.u32(self.device);
        out.u32(self.preferred_io);
        out.u32(0);
    }

    fn put_entry<const N: usize>(&self, out: &mut ReplyWriter<N>, generation: u64, valid_s: u64) {
        out.u64(self.node);
        out.u64(generation);
        out.u64(valid_s);
        out.u64(valid_s);
        out.skip(8);
        self.put(out);
    }
}

/// Returns the reply to LOOKUP and to requests that create a file: the file of the name. The kernel may cache the entry
/// and the attributes for `valid_s` seconds.
pub fn entry_out(stat: &FuseAttributes, generation: u64, valid_s: u64) -> [u8; 128] {
    let mut out = ReplyWriter::<128>::new();
    stat.put_entry(&mut out, generation, valid_s);
    out.bytes
}

/// Returns the reply to LOOKUP for a missing name. The kernel may cache this reply for `valid_s` seconds.
pub fn no_entry_out(valid_s: u64) -> [u8; 128] {
    entry_out(&FuseAttributes::default(), 0, valid_s)
}

/// Returns the reply to GETATTR and SETATTR.
pub fn attr_out(stat: &FuseAttributes, valid_s: u64) -> [u8; 104] {
    let mut out = ReplyWriter::<104>::new();
    out.u64(valid_s);
    out.skip(8);
    stat.put(&mut out);
    out.bytes
}

/// Returns the reply to STATX: the attributes, and the creation time (seconds since 1970, nanoseconds).
pub fn statx_out(stat: &FuseAttributes, born: (i64, u32), valid_s: u64) -> [u8; 288] {
    // STATX_BASIC_STATS and STATX_BTIME (`linux/stat.h`).
    const KNOWN: u32 = 0x7ff | 0x800;
    let mut out = ReplyWriter::<288>::new();
    out.u64(valid_s);
    out.skip(4 + 4 + 16);
    out.u32(KNOWN);
    out.u32(stat.preferred_io);
    out.skip(8);
    out.u32(stat.links);
    out.u32(stat.user);
    out.u32(stat.group);
    out.u16(stat.mode as u16);
    out.skip(2);
    out.u64(stat.node);
    out.u64(stat.len);
    out.u64(stat.blocks);
    out.skip(8);
    for (seconds, nanos) in [stat.accessed, born, stat.changed, stat.modified] {
        out.u64(seconds.cast_unsigned());
        out.u32(nanos);
        out.skip(4);
    }
    // The kernel's encoding of devices: `new_encode_dev` of `linux/kdev_t.h`, with `MAJOR` and `MINOR`.
    out.u32((stat.device & 0xfff00) >> 8);
    out.u32((stat.device & 0xff) | ((stat.device >> 12) & 0xfff00));
    out.bytes
}

/// Returns the reply to OPEN and OPENDIR. Requests on the open file will carry this handle. See
/// [`open_flag`](crate::codec::open_flag).
pub fn open_out(handle: u64, flags: u32) -> [u8; 16] {
    let mut out = ReplyWriter::<16>::new();
    out.u64(handle);
    out.u32(flags);
    out.bytes
}

/// The reply to CREATE: the new file, and its handle.
pub struct CreateReply;

impl CreateReply {
    /// Returns the encoded reply.
    pub fn out(
        stat: &FuseAttributes,
        generation: u64,
        valid_s: u64,
        handle: u64,
        flags: u32,
    ) -> [u8; 144] {
        let mut out = ReplyWriter::<144>::new();
        stat.put_entry(&mut out, generation, valid_s);
        out.put(&open_out(handle, flags));
        out.bytes
    }
}

/// Returns the reply to WRITE and `COPY_FILE_RANGE`, of `len` bytes.
pub fn write_out(len: u32) -> [u8; 8] {
    let mut out = ReplyWriter::<8>::new();
    out.u32(len);
    out.bytes
}

/// Returns the reply to a GETXATTR or LISTXATTR that asks only for the length.
pub fn size_out(len: u32) -> [u8; 8] {
    write_out(len)
}

/// Returns the reply to LSEEK.
pub fn seek_out(offset: u64) -> [u8; 8] {
    offset.to_ne_bytes()
}

/// Returns the reply to IOCTL: its result, and then its data.
pub fn ioctl_out(result: i32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + data.len());
    out.extend_from_slice(&result.to_ne_bytes());
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(data);
    out
}

/// Statistics of a filesystem, as shown by `df`.
#[derive(Clone, Copy, Debug)]
pub struct StatfsReply {
    /// Total size, in units.
    pub units: u64,
    /// Free units.
    pub free: u64,
    /// Maximum number of files.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Bytes of a unit.
    pub unit: u32,
}

/// Returns the reply to STATFS.
pub fn statfs_out(room: StatfsReply) -> [u8; 80] {
    let mut out = ReplyWriter::<80>::new();
    out.u64(room.units);
    out.u64(room.free);
    out.u64(room.free);
    out.u64(room.files);
    out.u64(room.files_free);
    out.u32(room.unit);
    out.u32(255);
    out.u32(room.unit);
    out.bytes
}

/// The reply to READDIR and READDIRPLUS, built entry by entry.
#[derive(Debug)]
pub struct ReaddirReply {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl ReaddirReply {
    /// Creates an empty reply of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> ReaddirReply {
        let bytes = Vec::new();
        ReaddirReply { bytes, bytes_max }
    }

    /// Adds the entry `name`; the next entry has the position `next`. Returns false, and adds nothing, if the entry
    /// does not fit.
    pub fn add(&mut self, node: u64, next: u64, kind: FuseFileKind, name: &[u8]) -> bool {
        self.put(&[], node, next, kind, name)
    }

    /// Adds an entry to the reply to READDIRPLUS, with the result of [`entry_out`], or of [`no_entry_out`] for `.` and
    /// `..`.
    pub fn add_plus(
        &mut self,
        entry: &[u8; 128],
        node: u64,
        next: u64,
        kind: FuseFileKind,
        name: &[u8],
    ) -> bool {
        self.put(entry, node, next, kind, name)
    }

    /// Returns true if an entry of this name fits, with attributes (`plus`) or without.
    pub fn has_room(&self, name: &[u8], plus: bool) -> bool {
        let before = if plus { 128 } else { 0 };
        self.bytes.len() + before + (24 + name.len()).next_multiple_of(8) <= self.bytes_max
    }

    /// Returns the maximum number of further entries that fit, with attributes (`plus`) or without; at least one.
    pub fn entries_max(&self, plus: bool) -> usize {
        let smallest = if plus { 128 + 32 } else { 32 };
        ((self.bytes_max - self.bytes.len()) / smallest).max(1)
    }

    fn put(
        &mut self,
        before: &[u8],
        node: u64,
        next: u64,
        kind: FuseFileKind,
        name: &[u8],
    ) -> bool {
        if !self.has_room(name, !before.is_empty()) {
            return false;
        }
        let mut out = ReplyWriter::<24>::new();
        out.u64(node);
        out.u64(next);
        out.u32(name.len() as u32);
        out.u32(kind.mode() >> 12);
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(&out.bytes);
        self.bytes.extend_from_slice(name);
        let end = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(end, 0);
        true
    }

    /// Returns the reply.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A fixed number of bytes, filled from the front, with zeroes behind.
struct ReplyWriter<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> ReplyWriter<N> {
    fn new() -> ReplyWriter<N> {
        ReplyWriter {
            bytes: [0; N],
            at: 0,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u16(&mut self, n: u16) {
        self.put(&n.to_ne_bytes());
    }

    fn u32(&mut self, n: u32) {
        self.put(&n.to_ne_bytes());
    }

    fn u64(&mut self, n: u64) {
        self.put(&n.to_ne_bytes());
    }

    fn skip(&mut self, n: usize) {
        self.at += n;
    }
}
