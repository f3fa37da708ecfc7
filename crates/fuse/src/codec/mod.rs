//! The encoding of messages through `/dev/fuse`: requests in, replies out (`linux/fuse.h`, protocol 7).
//!
//! Of a request, this file reads only the first [`FIXED`] bytes: the header and the largest fixed body of a frequent
//! request. Nothing here follows a length found in the message. The remaining bytes are a write's data, or names, which
//! [`files`] decodes from a whole body.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine.
//!
//! Reading order: this file (the requests that every server answers), `files.rs` (the other requests to a filesystem),
//! `reply.rs`.
//!
//! Protocol: `linux/fuse.h` of the kernel's user API, version 7.31 and later.

/// Bytes of a request's header.
pub const HEADER: usize = 40;
/// Bytes of a request before a write's data: the header and `fuse_write_in`.
pub const FIXED: usize = HEADER + 40;
/// Bytes of a reply's header.
pub const OUT_HEADER: usize = 16;

/// Inode of the root directory, fixed by the protocol.
pub const ROOT: u64 = 1;

/// The protocol's major version.
pub const MAJOR: u32 = 7;
/// The newest minor version whose structures this module contains. Both sides then use this version.
const MINOR: u32 = 38;

pub mod files;
pub mod opcode;
mod reply;

pub use reply::{
    CreateReply, FuseAttributes, InitReply, ReaddirReply, StatfsReply, attr_out, entry_out,
    init_out, invalidation, ioctl_out, no_entry_out, open_out, out_header, seek_out, size_out,
    statfs_out, statx_out, write_out,
};

/// Flags of INIT: the capabilities of both sides.
pub mod init_flag {
    /// Reads may be concurrent.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// OPEN also truncates.
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    /// The filesystem finds files by their inode numbers: `name_to_handle_at`, NFS.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The server applies the umask, because access lists may override the umask.
    pub const DONT_MASK: u64 = 1 << 6;
    /// Directory entries may come with attributes.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// The kernel decides if directory entries come with attributes.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Direct requests may be concurrent.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Lookups in one directory may be concurrent.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// Access lists.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// A read of `/dev/fuse` returns a separate error after the connection was cut.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// The maximum size of a request is negotiated.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// The kernel caches the targets of symbolic links.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// The server clears `setuid`, `setgid` and capabilities when a file is written, truncated or changes its owner.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// SETXATTR has a flag for clearing `setgid` (Linux 5.12).
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// INIT has more than 32 flags.
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Files that bypass the page cache may be mapped (Linux 6.6).
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// Requests use io_uring once its entries are registered (Linux 6.14).
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Flags of OPEN's reply.
pub mod open_flag {
    /// Reads and writes bypass the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// The cached data of the file is still valid.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// The cached names of the directory are still valid.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// Direct writes to one file may be concurrent.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Flag in READ: the read is for a process, and not for the page cache (`fuse_send_read` of the kernel).
const READ_LOCKOWNER: u32 = 1 << 1;
/// `O_DIRECT` of Linux (`asm/fcntl.h`), which depends on the architecture.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: u32 = 0o40_000;

/// Flag in SETATTR: change the size.
const SETATTR_SIZE: u32 = 1 << 3;
/// Flag in SETATTR: the request has a file handle.
const SETATTR_HANDLE: u32 = 1 << 6;
/// Flags in SETATTR: change mode, user or group.
const SETATTR_OWNERSHIP: u32 = 0b111;

/// A request, without the data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuseRequest {
    /// Number that the reply must repeat.
    pub unique: u64,
    /// Inode that the request is about.
    pub node: u64,
    /// User of the calling process.
    pub user: u32,
    /// Group of the calling process.
    pub group: u32,
    /// Handle of the open file or directory, as returned by OPEN; 0 for other requests.
    pub handle: u64,
    /// Flags of the open file for a read or write; 0 for other requests. A read that fills the page cache has no
    /// `O_DIRECT` here, even if its file was opened with `O_DIRECT` (for example to map the file).
    pub file_flags: u32,
    /// Number of the operation.
    pub opcode: u32,
    /// The operation.
    pub op: FuseOp,
}

/// An operation. Positions and lengths are in bytes, as the kernel sent them: not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuseOp {
    /// The first request: the kernel's version and capabilities.
    Init {
        /// Major version of the kernel's protocol.
        major: u32,
        /// The kernel's flags.
        flags: u64,
    },
    /// Look up the name that follows, in this directory.
    Lookup,
    /// Return the attributes.
    GetAttr,
    /// Change attributes.
    SetAttr {
        /// The new size, if it changes.
        size: Option<u64>,
        /// True if mode, user or group change.
        ownership: bool,
    },
    /// Open a file.
    Open,
    /// The last user of an open file has closed it.
    Release,
    /// Read a file.
    Read {
        /// Offset.
        at: u64,
        /// Length.
        len: u32,
    },
    /// Write to a file; the data follows.
    Write {
        /// Offset.
        at: u64,
        /// Length.
        len: u32,
        /// Clear `setuid` and `setgid`.
        kill: bool,
        /// The write comes from the page cache after a change of mapped memory. The handle can be that of any process
        /// that has the file open.
        delayed: bool,
    },
    /// Make all writes to a file durable.
    Fsync,
    /// Allocate, punch or zero a range.
    Fallocate {
        /// Offset.
        at: u64,
        /// Length.
        len: u64,
        /// Mode (`linux/falloc.h`).
        mode: u32,
    },
    /// Return the statistics of the filesystem.
    StatFs,
    /// Open a directory.
    OpenDir,
    /// Return the entries of a directory.
    ReadDir {
        /// Position of the first entry.
        at: u64,
        /// Limit on the reply, in bytes.
        len: u32,
    },
    /// The last user of an open directory has closed it.
    ReleaseDir,
    /// The filesystem is unmounted.
    Destroy,
    /// The kernel drops its references to an inode. Expects no reply.
    Forget,
    /// A request that changes names.
    Namespace,
    /// Another request, by its number.
    Other(u32),
}

/// A message that is not a valid request. `unique` is known if the header was complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedRequest {
    /// Number that a reply must repeat.
    pub unique: Option<u64>,
}

fn u32_at(bytes: &[u8; FIXED], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8; FIXED], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Decodes a message of `total` bytes that begins with `fixed` (of which only the first `total` bytes are meaningful).
pub fn decode(fixed: &[u8; FIXED], total: usize) -> Result<FuseRequest, MalformedRequest> {
    if total < HEADER {
        return Err(MalformedRequest { unique: None });
    }
    let unique = u64_at(fixed, 8);
    let malformed = Err(MalformedRequest {
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
    if let FuseOp::Write { len, .. } = op
        && body - body_min(opcode) != len as usize
    {
        return malformed;
    }
    Ok(FuseRequest {
        unique,
        node: u64_at(fixed, 16),
        user: u32_at(fixed, 24),
        group: u32_at(fixed, 28),
        handle: handle(opcode, fixed, body),
        file_flags: match op {
            FuseOp::Write { .. } => u32_at(fixed, HEADER + 32),
            FuseOp::Read { .. } if u32_at(fixed, HEADER + 20) & READ_LOCKOWNER != 0 => {
                u32_at(fixed, HEADER + 32)
            }
            FuseOp::Read { .. } => u32_at(fixed, HEADER + 32) & !O_DIRECT,
            _ => 0,
        },
        opcode,
        op,
    })
}

/// Returns the minimum length of a body, as far as it is read here.
fn body_min(opcode: u32) -> usize {
    match opcode {
        opcode::SETATTR => 24,
        opcode::READ | opcode::READDIR => 40,
        opcode::WRITE => 40,
        opcode::INIT => 16,
        opcode::FALLOCATE => 32,
        _ => 0,
    }
}

/// Returns the handle in the body; 0 for operations without a handle.
fn handle(opcode: u32, fixed: &[u8; FIXED], body: usize) -> u64 {
    let at = match opcode {
        4 if u32_at(fixed, HEADER) & SETATTR_HANDLE != 0 => 8,
        15 | 16 | 18 | 20 | 25 | 28..=30 | 39 | 43 | 44 | 46 | 47 if body >= 8 => 0,
        _ => return 0,
    };
    u64_at(fixed, HEADER + at)
}

fn operation(opcode: u32, fixed: &[u8; FIXED]) -> FuseOp {
    const B: usize = HEADER;
    match opcode {
        opcode::LOOKUP => FuseOp::Lookup,
        opcode::FORGET | opcode::BATCH_FORGET => FuseOp::Forget,
        opcode::GETATTR => FuseOp::GetAttr,
        opcode::SETATTR => {
            let valid = u32_at(fixed, B);
            FuseOp::SetAttr {
                size: (valid & SETATTR_SIZE != 0).then(|| u64_at(fixed, B + 16)),
                ownership: valid & SETATTR_OWNERSHIP != 0,
            }
        }
        opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::LINK
        | opcode::CREATE
        | opcode::RENAME2
        | opcode::TMPFILE => FuseOp::Namespace,
        opcode::OPEN => FuseOp::Open,
        opcode::READ => FuseOp::Read {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
        },
        opcode::WRITE => FuseOp::Write {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
            kill: u32_at(fixed, B + 20) & (1 << 2) != 0,
            delayed: u32_at(fixed, B + 20) & 1 != 0,
        },
        opcode::STATFS => FuseOp::StatFs,
        opcode::RELEASE => FuseOp::Release,
        opcode::FSYNC => FuseOp::Fsync,
        opcode::INIT => FuseOp::Init {
            major: u32_at(fixed, B),
            flags: offered(fixed),
        },
        opcode::OPENDIR => FuseOp::OpenDir,
        opcode::READDIR => FuseOp::ReadDir {
            at: u64_at(fixed, B + 8),
            len: u32_at(fixed, B + 16),
        },
        opcode::RELEASEDIR => FuseOp::ReleaseDir,
        opcode::DESTROY => FuseOp::Destroy,
        opcode::FALLOCATE => FuseOp::Fallocate {
            at: u64_at(fixed, B + 8),
            len: u64_at(fixed, B + 16),
            mode: u32_at(fixed, B + 24),
        },
        other => FuseOp::Other(other),
    }
}

/// Returns the flags of INIT: 64 bits if the flag for this is set and the message is long enough, otherwise 32.
fn offered(fixed: &[u8; FIXED]) -> u64 {
    const LEN: usize = HEADER + 20;
    let flags = u64::from(u32_at(fixed, HEADER + 12));
    if flags & init_flag::INIT_EXT != 0 && u32_at(fixed, 0) as usize >= LEN {
        flags | u64::from(u32_at(fixed, HEADER + 16)) << 32
    } else {
        flags
    }
}

/// Returns true if the body of a request, in its two received parts, is exactly `name`.
pub fn is_name(body: [&[u8]; 2], name: &[u8]) -> bool {
    let sent = body[0].iter().chain(body[1]);
    // The kernel ends a name with a zero byte.
    sent.eq(name.iter().chain(&[0]))
}

#[cfg(test)]
mod tests;
