//! The encoding of messages through `/dev/fuse`: requests in, replies out (`linux/fuse.h`, protocol 7).
//!
//! [`decode`] reads a whole request, once, when it arrives, and leaves only the data of a write in the buffer of the
//! transport. A first step that reads the header only would save nothing: the places of requests are counted and not
//! weighed, and a handler knows the memory that a request needs from its decoded numbers.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine.
//!
//! Reading order: this file (flags of the session), `request.rs`, `decode.rs`, `reply.rs`.
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

mod decode;
pub mod opcode;
mod reply;
mod request;

pub use decode::{MalformedPart, MalformedRequest, decode};
pub use reply::{
    CreateReply, FuseAttributes, InitReply, ReaddirReply, StatfsReply, attr_out, entry_out,
    init_out, invalidation, ioctl_out, no_entry_out, open_out, out_header, seek_out, size_out,
    statfs_out, statx_out, write_out,
};
pub use request::{
    CopyRange, FuseCreate, FuseFileKind, FuseIoctl, FuseOp, FuseRequest, SetAttr, TimeToSet,
    rename_flag,
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

#[cfg(test)]
mod tests;
