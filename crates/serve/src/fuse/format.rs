//! The bytes that pass through `/dev/fuse`: requests in, replies out (`linux/fuse.h`, protocol 7).
//!
//! Of a request only the first [`FIXED`] bytes are ever looked at: the header and the largest
//! fixed body we care about. What lies behind is a write's data, or the rest of a name that is
//! longer than the only name there is. So nothing here follows a length found in the message.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine.
//!
//! Protocol: `linux/fuse.h` of the kernel's user API, version 7.31 and later.

/// Bytes of a request's header.
pub(crate) const HEADER: usize = 40;
/// Bytes of a request before a write's data: the header and `fuse_write_in`.
pub(crate) const FIXED: usize = HEADER + 40;
/// Bytes of a reply's header.
pub(crate) const OUT_HEADER: usize = 16;

/// The inode of the one directory; the protocol fixes it.
pub(crate) const ROOT: u64 = 1;
/// The inode of the one file.
pub(crate) const VOLUME: u64 = 2;

pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose structures are written down here. With it both sides speak it.
const MINOR: u32 = 38;

// Flags of INIT.
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const ABORT_ERROR: u32 = 1 << 21;
const MAX_PAGES: u32 = 1 << 22;

// Flags of OPEN's reply.
const OPEN_DIRECT_IO: u32 = 1 << 0;
const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// In SETATTR: the size is to change.
const SETATTR_SIZE: u32 = 1 << 3;
/// In SETATTR: mode, user or group are to change.
const SETATTR_OWNERSHIP: u32 = 0b111;

/// How long the kernel may believe names and attributes, in seconds. They never change.
const VALID_S: u64 = 1 << 30;

/// A request, without the data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// What the reply must repeat.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    pub op: Op,
}

/// What is asked. Positions and lengths are bytes, as the kernel sent them: not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Init {
        major: u32,
        flags: u32,
    },
    /// True if the name is the volume's.
    Lookup {
        known: bool,
    },
    GetAttr,
    /// `size` if it is to change; `ownership` if mode, user or group are.
    SetAttr {
        size: Option<u64>,
        ownership: bool,
    },
    Open,
    Release,
    Read {
        at: u64,
        len: u32,
    },
    Write {
        at: u64,
        len: u32,
    },
    Fsync,
    Fallocate {
        at: u64,
        len: u64,
        mode: u32,
    },
    StatFs,
    OpenDir,
    ReadDir {
        at: u64,
        len: u32,
    },
    ReleaseDir,
    Destroy,
    /// Wants no reply.
    Forget,
    /// Changes names, of which there is nothing to change.
    Namespace,
    /// Anything else, by its number.
    Other(u32),
}

/// A message that is not a request. The unique number is known if the header was whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed {
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
pub(crate) fn decode(fixed: &[u8; FIXED], total: usize) -> Result<Request, Malformed> {
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
    let op = operation(opcode, fixed, total);
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

fn operation(opcode: u32, fixed: &[u8; FIXED], total: usize) -> Op {
    const B: usize = HEADER;
    match opcode {
        1 => Op::Lookup {
            known: fixed[B..total.min(FIXED)] == *VOLUME_NAME.to_bytes_with_nul(),
        },
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

/// The name of the one file.
pub(crate) const VOLUME_NAME: &std::ffi::CStr = c"volume";

/// A reply's header, for a payload of `len` bytes; `errno` is 0 or the positive error number.
pub(crate) fn out_header(unique: u64, errno: i32, len: usize) -> [u8; OUT_HEADER] {
    let mut out = Out::<OUT_HEADER>::new();
    out.u32((OUT_HEADER + len) as u32);
    out.u32((-errno).cast_unsigned());
    out.u64(unique);
    out.bytes
}

/// What the kernel is told of our limits in INIT's reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest write, and largest read, in bytes.
    pub io_bytes_max: u32,
    /// Asynchronous requests the kernel may have outstanding.
    pub background_max: u16,
}

/// The reply to INIT with flags `offered` by the kernel.
pub(crate) fn init_out(offered: u32, limits: Limits) -> [u8; 64] {
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

/// What `stat` shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// The volume's length in bytes.
    pub len: u64,
    /// Preferred I/O size in bytes.
    pub preferred_io: u32,
    /// All three times, in seconds since 1970.
    pub time_s: u64,
}

impl Attributes {
    fn put<const N: usize>(self, node: u64, out: &mut Out<N>) {
        let file = node == VOLUME;
        let len = if file { self.len } else { 0 };
        let (mode, links) = if file { (0o100_600, 1) } else { (0o040_700, 2) };
        out.u64(node);
        out.u64(len);
        out.u64(len / 512);
        for _ in 0..3 {
            out.u64(self.time_s);
        }
        out.skip(12); // the times' nanoseconds
        out.u32(mode);
        out.u32(links);
        out.skip(12); // root, root, no device number
        out.u32(self.preferred_io);
        out.u32(0);
    }

    /// The reply to LOOKUP of the volume.
    pub(crate) fn entry_out(self) -> [u8; 128] {
        let mut out = Out::<128>::new();
        out.u64(VOLUME);
        out.u64(0); // generation
        out.u64(VALID_S);
        out.u64(VALID_S);
        out.skip(8);
        self.put(VOLUME, &mut out);
        out.bytes
    }

    /// The reply to GETATTR and SETATTR.
    pub(crate) fn attr_out(self, node: u64) -> [u8; 104] {
        let mut out = Out::<104>::new();
        out.u64(VALID_S);
        out.skip(8);
        self.put(node, &mut out);
        out.bytes
    }
}

/// The reply to OPEN of the volume: past the page cache, writes side by side.
pub(crate) fn open_out() -> [u8; 16] {
    let mut out = Out::<16>::new();
    out.u64(0); // no handle
    out.u32(OPEN_DIRECT_IO | OPEN_PARALLEL_DIRECT_WRITES);
    out.bytes
}

/// The reply to OPENDIR.
pub(crate) fn opendir_out() -> [u8; 16] {
    [0; 16]
}

/// The reply to WRITE of `len` bytes.
pub(crate) fn write_out(len: u32) -> [u8; 8] {
    let mut out = Out::<8>::new();
    out.u32(len);
    out.bytes
}

/// The reply to STATFS: a full filesystem of `len` bytes in units of `unit` bytes.
pub(crate) fn statfs_out(len: u64, unit: u32) -> [u8; 80] {
    let mut out = Out::<80>::new();
    out.u64(len / u64::from(unit));
    out.skip(16); // none free, none available
    out.u64(2);
    out.skip(8);
    out.u32(unit);
    out.u32(255);
    out.u32(unit);
    out.bytes
}

/// The reply to READDIR from position `at`, in at most `len` bytes.
pub(crate) fn readdir_out(at: u64, len: usize) -> Vec<u8> {
    const DIRECTORY: u32 = 4;
    const REGULAR: u32 = 8;
    let entries = [
        (ROOT, DIRECTORY, &b"."[..]),
        (ROOT, DIRECTORY, b".."),
        (VOLUME, REGULAR, VOLUME_NAME.to_bytes()),
    ];
    let mut reply = Vec::new();
    for (next, (node, kind, name)) in (1u64..).zip(entries) {
        let mut out = Out::<24>::new();
        out.u64(node);
        out.u64(next);
        out.u32(name.len() as u32);
        out.u32(kind);
        let size = (out.bytes.len() + name.len()).next_multiple_of(8);
        if next > at && reply.len() + size <= len {
            let end = reply.len() + size;
            reply.extend_from_slice(&out.bytes);
            reply.extend_from_slice(name);
            reply.resize(end, 0);
        }
    }
    reply
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
