//! The bytes that pass through `/dev/fuse`: requests in, replies out (`linux/fuse.h`, protocol 7).
//!
//! Of a request only the first [`FIXED`] bytes are ever looked at: the header and the largest
//! fixed body we care about; nothing here follows a length found in the message. What lies behind is
//! a write's data, or the rest of a name, and for whoever has received it to look at.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine.
//!
//! Protocol: `linux/fuse.h` of the kernel's user API, version 7.31 and later.

/// Bytes of a request's header.
pub const HEADER: usize = 40;
/// Bytes of a request before a write's data: the header and `fuse_write_in`.
pub const FIXED: usize = HEADER + 40;
/// Bytes of a reply's header.
pub const OUT_HEADER: usize = 16;

/// The inode of the uppermost directory; the protocol fixes it.
pub const ROOT: u64 = 1;

/// The protocol's major version.
pub const MAJOR: u32 = 7;
/// The newest minor version whose structures are written down here. With it both sides speak it.
const MINOR: u32 = 38;

// Flags of INIT.
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const ABORT_ERROR: u32 = 1 << 21;
const MAX_PAGES: u32 = 1 << 22;

/// Flags of OPEN's reply.
pub mod open_flag {
    /// Reads and writes go past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Direct writes to the same file come side by side.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// In SETATTR: the size is to change.
const SETATTR_SIZE: u32 = 1 << 3;
/// In SETATTR: mode, user or group are to change.
const SETATTR_OWNERSHIP: u32 = 0b111;

/// A request, without the data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What the reply must repeat.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    /// What is asked.
    pub op: Op,
}

/// What is asked. Positions and lengths are bytes, as the kernel sent them: not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The first request: which version, and what the kernel can do.
    Init {
        /// Major version of the kernel's protocol.
        major: u32,
        /// What it offers.
        flags: u32,
    },
    /// Which inode has the name that follows in this directory.
    Lookup,
    /// What `stat` shows.
    GetAttr,
    /// Change attributes.
    SetAttr {
        /// The new size, if it is to change.
        size: Option<u64>,
        /// Whether mode, user or group are to change.
        ownership: bool,
    },
    /// Open a file.
    Open,
    /// The last user of an open file has closed it.
    Release,
    /// Read a file.
    Read {
        /// From here.
        at: u64,
        /// So much.
        len: u32,
    },
    /// Write to a file; the data follows.
    Write {
        /// To here.
        at: u64,
        /// So much.
        len: u32,
    },
    /// Make durable what was written to a file.
    Fsync,
    /// Make room, a hole or zeroes of a range.
    Fallocate {
        /// Where it begins.
        at: u64,
        /// Its length.
        len: u64,
        /// Which of these (`linux/falloc.h`).
        mode: u32,
    },
    /// What `df` shows.
    StatFs,
    /// Open a directory.
    OpenDir,
    /// The entries of a directory.
    ReadDir {
        /// From this position on.
        at: u64,
        /// In so many bytes at most.
        len: u32,
    },
    /// The last user of an open directory has closed it.
    ReleaseDir,
    /// The filesystem is unmounted.
    Destroy,
    /// The kernel no longer knows an inode. Wants no reply.
    Forget,
    /// One of those that change names.
    Namespace,
    /// Anything else, by its number.
    Other(u32),
}

/// A message that is not a request. The unique number is known if the header was whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// What a reply must repeat.
    pub unique: Option<u64>,
}

fn u32_at(bytes: &[u8; FIXED], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8; FIXED], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Understands a message of `total` bytes that begins with `fixed` (of which only the first
/// `total` are meaningful).
pub fn decode(fixed: &[u8; FIXED], total: usize) -> Result<Request, Malformed> {
    if total < HEADER {
        return Err(Malformed { unique: None });
    }
    let unique = u64_at(fixed, 8);
    let malformed = Err(Malformed {
        unique: Some(unique),
    });
    if u32_at(fixed, 0) as usize != total {
        return malformed;
    }
    let opcode = u32_at(fixed, 4);
    let body = total - HEADER;
    if body < body_min(opcode) {
        return malformed;
    }
    let op = operation(opcode, fixed);
    if let Op::Write { len, .. } = op
        && body - body_min(opcode) != len as usize
    {
        return malformed;
    }
    Ok(Request {
        unique,
        node: u64_at(fixed, 16),
        op,
    })
}

/// The least a body of this kind has, as far as it is read here.
fn body_min(opcode: u32) -> usize {
    match opcode {
        4 => 24,       // SETATTR, up to the size
        15 | 28 => 40, // READ, READDIR
        16 => 40,      // WRITE
        26 => 16,      // INIT
        43 => 32,      // FALLOCATE
        _ => 0,
    }
}

fn operation(opcode: u32, fixed: &[u8; FIXED]) -> Op {
    const B: usize = HEADER;
    match opcode {
        1 => Op::Lookup,
        2 | 42 => Op::Forget,
        3 => Op::GetAttr,
        4 => {
            let valid = u32_at(fixed, B);
            Op::SetAttr {
                size: (valid & SETATTR_SIZE != 0).then(|| u64_at(fixed, B + 16)),
                ownership: valid & SETATTR_OWNERSHIP != 0,
            }
        }
        // SYMLINK MKNOD MKDIR UNLINK RMDIR RENAME LINK, CREATE, RENAME2, TMPFILE
        6 | 8..=13 | 35 | 45 | 51 => Op::Namespace,
        14 => Op::Open,
        15 => Op::Read {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
        },
        16 => Op::Write {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
        },
        17 => Op::StatFs,
        18 => Op::Release,
        20 => Op::Fsync,
        26 => Op::Init {
            major: u32_at(fixed, B),
            flags: u32_at(fixed, B + 12),
        },
        27 => Op::OpenDir,
        28 => Op::ReadDir {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
        },
        29 => Op::ReleaseDir,
        38 => Op::Destroy,
        43 => Op::Fallocate {
            at: u64_at(fixed, B + 8),
            len: u64_at(fixed, B + 16),
            mode: u32_at(fixed, B + 24),
        },
        other => Op::Other(other),
    }
}

/// True if the body of a request, in the two pieces it was received in, is `name` and nothing else.
pub fn is_name(body: [&[u8]; 2], name: &[u8]) -> bool {
    let sent = body[0].iter().chain(body[1]);
    // The kernel ends a name with a zero byte.
    sent.eq(name.iter().chain(&[0]))
}

/// A reply's header, for a payload of `len` bytes; `errno` is 0 or the positive error number.
pub fn out_header(unique: u64, errno: i32, len: usize) -> [u8; OUT_HEADER] {
    let mut out = Out::<OUT_HEADER>::new();
    out.u32((OUT_HEADER + len) as u32);
    out.u32((-errno).cast_unsigned());
    out.u64(unique);
    out.bytes
}

/// What the kernel is told of our limits in INIT's reply.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest write, and largest read, in bytes.
    pub io_bytes_max: u32,
    /// Asynchronous requests the kernel may have outstanding.
    pub background_max: u16,
}

/// The reply to INIT with flags `offered` by the kernel.
pub fn init_out(offered: u32, limits: Limits) -> [u8; 64] {
    let wanted = ASYNC_READ | BIG_WRITES | ASYNC_DIO | ABORT_ERROR | MAX_PAGES;
    let mut out = Out::<64>::new();
    out.u32(MAJOR);
    out.u32(MINOR);
    out.u32(0); // read-ahead: there is no cache to read ahead into
    out.u32(wanted & offered);
    out.u16(limits.background_max);
    out.u16(limits.background_max); // never "congested": the loop device has its own bound
    out.u32(limits.io_bytes_max);
    out.u32(1); // time granularity in ns
    out.u16((limits.io_bytes_max / 4096) as u16);
    out.bytes
}

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File,
}

impl Kind {
    /// Its bits in a mode.
    fn mode(self) -> u32 {
        match self {
            Kind::Directory => 0o040_000,
            Kind::File => 0o100_000,
        }
    }
}

/// What `stat` shows, of what belongs to root.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The inode.
    pub node: u64,
    /// What it is.
    pub kind: Kind,
    /// What who may do with it.
    pub permissions: u32,
    /// Names it has.
    pub links: u32,
    /// Its length in bytes.
    pub len: u64,
    /// Preferred I/O size in bytes.
    pub preferred_io: u32,
    /// All three times, in seconds since 1970.
    pub time_s: u64,
    /// How long the kernel may believe all this, in seconds.
    pub valid_s: u64,
}

impl Attributes {
    fn put<const N: usize>(self, out: &mut Out<N>) {
        out.u64(self.node);
        out.u64(self.len);
        out.u64(self.len / 512);
        for _ in 0..3 {
            out.u64(self.time_s);
        }
        out.skip(12); // the times' nanoseconds
        out.u32(self.kind.mode() | self.permissions);
        out.u32(self.links);
        out.skip(12); // root, root, no device number
        out.u32(self.preferred_io);
        out.u32(0);
    }

    /// The reply to LOOKUP: this is what has the name, and that too may be believed so long.
    pub fn entry_out(self) -> [u8; 128] {
        let mut out = Out::<128>::new();
        out.u64(self.node);
        out.u64(0); // generation
        out.u64(self.valid_s);
        out.u64(self.valid_s);
        out.skip(8);
        self.put(&mut out);
        out.bytes
    }

    /// The reply to GETATTR and SETATTR.
    pub fn attr_out(self) -> [u8; 104] {
        let mut out = Out::<104>::new();
        out.u64(self.valid_s);
        out.skip(8);
        self.put(&mut out);
        out.bytes
    }
}

/// The reply to OPEN and OPENDIR; see [`open_flag`].
pub fn open_out(flags: u32) -> [u8; 16] {
    let mut out = Out::<16>::new();
    out.u64(0); // no handle
    out.u32(flags);
    out.bytes
}

/// The reply to WRITE of `len` bytes.
pub fn write_out(len: u32) -> [u8; 8] {
    let mut out = Out::<8>::new();
    out.u32(len);
    out.bytes
}

/// The reply to STATFS: a full filesystem of `len` bytes in units of `unit` bytes, and of `nodes`
/// inodes.
pub fn statfs_out(len: u64, unit: u32, nodes: u64) -> [u8; 80] {
    let mut out = Out::<80>::new();
    out.u64(len / u64::from(unit));
    out.skip(16); // none free, none available
    out.u64(nodes);
    out.skip(8);
    out.u32(unit);
    out.u32(255);
    out.u32(unit);
    out.bytes
}

/// The reply to READDIR, entry by entry.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Listing {
    /// Empty, and never more than `bytes_max`.
    pub fn new(bytes_max: usize) -> Listing {
        let bytes = Vec::new();
        Listing { bytes, bytes_max }
    }

    /// Adds the entry `name`; the next is asked for from position `next` on. False, and nothing is
    /// added, if there is no room.
    pub fn add(&mut self, node: u64, next: u64, kind: Kind, name: &[u8]) -> bool {
        let mut out = Out::<24>::new();
        out.u64(node);
        out.u64(next);
        out.u32(name.len() as u32);
        out.u32(kind.mode() >> 12);
        let size = (out.bytes.len() + name.len()).next_multiple_of(8);
        let end = self.bytes.len() + size;
        if end > self.bytes_max {
            return false;
        }
        self.bytes.extend_from_slice(&out.bytes);
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    /// The reply.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A fixed number of bytes, filled from the front, zero behind.
struct Out<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Out<N> {
    fn new() -> Out<N> {
        Out {
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

#[cfg(test)]
#[path = "format/tests.rs"]
mod tests;
