//! The bytes that pass through `/dev/fuse`: requests in, replies out (`linux/fuse.h`, protocol 7).
//!
//! Of a request only the first [`FIXED`] bytes are ever looked at: the header and the largest
//! fixed body that is served often; nothing here follows a length found in the message. What lies behind is
//! a write's data, or names, which [`files`] finds in a whole body.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine.
//!
//! Reading order: this file (what every server answers), `files.rs` (what else a filesystem is asked), `reply.rs`.
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

pub mod files;
mod reply;

pub use reply::{
    Created, Limits, Listing, Room, Stat, attr_out, entry_out, init_out, invalidation, ioctl_out,
    no_entry_out, open_out, out_header, seek_out, size_out, statfs_out, statx_out, write_out,
};

/// Flags of INIT: what both sides can do.
pub mod init_flag {
    /// Reads come side by side.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// OPEN is told to cut a file off.
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    /// Files are found again by their numbers: `name_to_handle_at`, NFS.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The umask is the server's business, since access lists may say otherwise.
    pub const DONT_MASK: u64 = 1 << 6;
    /// Listings come with what `stat` shows.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// Where the kernel thinks that it is of use.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Direct requests come side by side.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Names of one directory are looked up side by side.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// Access lists.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// Reads of `/dev/fuse` say that the connection was cut.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// Requests as large as it is agreed.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Where links lead to is kept.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// The server takes privileges from what is written, cut off or given away: `setuid`, `setgid`, capabilities.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// SETXATTR says whether the file loses `setgid` (Linux 5.12).
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// There are more than 32 flags.
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Files may be mapped whose reads and writes go past the page cache (Linux 6.6).
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// Requests go by io_uring once its entries are registered (Linux 6.14).
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Flags of OPEN's reply.
pub mod open_flag {
    /// Reads and writes go past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// What the page cache has of the file is still right.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// What the kernel knows of the directory's names is still right.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// Direct writes to the same file come side by side.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// In READ: it is for a process, and not for the page cache (`fuse_send_read` of the kernel).
const READ_LOCKOWNER: u32 = 1 << 1;
/// `O_DIRECT` of Linux (`asm/fcntl.h`), which is not the same on all machines.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: u32 = 0o40_000;

/// In SETATTR: the size is to change.
const SETATTR_SIZE: u32 = 1 << 3;
/// In SETATTR: it is of an open file.
const SETATTR_HANDLE: u32 = 1 << 6;
/// In SETATTR: mode, user or group are to change.
const SETATTR_OWNERSHIP: u32 = 0b111;

/// A request, without the data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What the reply must repeat.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    /// Whose process asks.
    pub user: u32,
    /// And of which group it is.
    pub group: u32,
    /// The handle it is about, of what is asked of an open file or directory: what OPEN's reply said. Otherwise 0.
    pub handle: u64,
    /// The flags of the open file, of a read and a write: `O_DIRECT` among them, but not of a read that fills the page cache, as for a
    /// mapping of a file that is open with `O_DIRECT`.
    pub file_flags: u32,
    /// The number of what is asked.
    pub opcode: u32,
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
        flags: u64,
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
        /// The file loses `setuid` and `setgid`.
        kill: bool,
        /// It comes from the page cache, where somebody changed memory: the handle is any one's who has the file open.
        delayed: bool,
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
        user: u32_at(fixed, 24),
        group: u32_at(fixed, 28),
        handle: handle(opcode, fixed, body),
        file_flags: match op {
            Op::Write { .. } => u32_at(fixed, HEADER + 32),
            Op::Read { .. } if u32_at(fixed, HEADER + 20) & READ_LOCKOWNER != 0 => {
                u32_at(fixed, HEADER + 32)
            }
            Op::Read { .. } => u32_at(fixed, HEADER + 32) & !O_DIRECT,
            _ => 0,
        },
        opcode,
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

/// The handle that a body begins with, or has at its place.
fn handle(opcode: u32, fixed: &[u8; FIXED], body: usize) -> u64 {
    let at = match opcode {
        // SETATTR, if it says that there is one.
        4 if u32_at(fixed, HEADER) & SETATTR_HANDLE != 0 => 8,
        // READ WRITE RELEASE FSYNC FLUSH, READDIR RELEASEDIR FSYNCDIR, IOCTL, FALLOCATE READDIRPLUS LSEEK COPY_FILE_RANGE
        15 | 16 | 18 | 20 | 25 | 28..=30 | 39 | 43 | 44 | 46 | 47 if body >= 8 => 0,
        _ => return 0,
    };
    u64_at(fixed, HEADER + at)
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
            kill: u32_at(fixed, B + 20) & (1 << 2) != 0,
            delayed: u32_at(fixed, B + 20) & 1 != 0,
        },
        17 => Op::StatFs,
        18 => Op::Release,
        20 => Op::Fsync,
        26 => Op::Init {
            major: u32_at(fixed, B),
            flags: offered(fixed),
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

/// What INIT offers: 64 flags if it says so, and is long enough.
fn offered(fixed: &[u8; FIXED]) -> u64 {
    const LEN: usize = HEADER + 20;
    let flags = u64::from(u32_at(fixed, HEADER + 12));
    match flags & init_flag::INIT_EXT != 0 && u32_at(fixed, 0) as usize >= LEN {
        true => flags | u64::from(u32_at(fixed, HEADER + 16)) << 32,
        false => flags,
    }
}

/// True if the body of a request, in the two pieces it was received in, is `name` and nothing else.
pub fn is_name(body: [&[u8]; 2], name: &[u8]) -> bool {
    let sent = body[0].iter().chain(body[1]);
    // The kernel ends a name with a zero byte.
    sent.eq(name.iter().chain(&[0]))
}

#[cfg(test)]
mod tests;
