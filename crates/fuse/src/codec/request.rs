//! Requests, as `decode.rs` reads them from messages.
//!
//! A request owns its names and values, because it lives longer than the buffer that it came in. The data of a write is
//! the only part that a request leaves in the buffer.

/// Type of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuseFileKind {
    /// A named pipe.
    Fifo,
    /// A character device.
    Character,
    /// A directory.
    Directory,
    /// A block device.
    Block,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
}

impl FuseFileKind {
    const ALL: [(FuseFileKind, u32); 7] = [
        (FuseFileKind::Fifo, 1),
        (FuseFileKind::Character, 2),
        (FuseFileKind::Directory, 4),
        (FuseFileKind::Block, 6),
        (FuseFileKind::File, 8),
        (FuseFileKind::Symlink, 10),
        (FuseFileKind::Socket, 12),
    ];

    /// Returns the type's bits in a mode.
    pub fn mode(self) -> u32 {
        let mut all = FuseFileKind::ALL.into_iter();
        let found = all.find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, code)| code << 12)
    }

    /// Returns the type in a mode. No type bits mean a regular file, as with `mknod`. `None` for an unknown type.
    pub fn of_mode(mode: u32) -> Option<FuseFileKind> {
        let code = (mode >> 12) & 0o17;
        let mut all = FuseFileKind::ALL.into_iter();
        match code {
            0 => Some(FuseFileKind::File),
            _ => all.find(|(_, one)| *one == code).map(|(kind, _)| kind),
        }
    }
}

/// A time to set for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeToSet {
    /// The current time.
    Now,
    /// The given time: seconds since 1970, nanoseconds.
    At(i64, u32),
}

/// The changes of SETATTR.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetAttr {
    /// The mode.
    pub mode: Option<u32>,
    /// Owner.
    pub user: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// Size, in bytes.
    pub size: Option<u64>,
    /// Time of the last read.
    pub accessed: Option<TimeToSet>,
    /// Time of the last change of the data.
    pub modified: Option<TimeToSet>,
    /// Time of the last change of data or attributes.
    pub changed: Option<TimeToSet>,
    /// Clear `setuid` and `setgid`.
    pub kill: bool,
}

/// A file to create.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FuseCreate {
    /// Name; empty for TMPFILE.
    pub name: Box<[u8]>,
    /// Type, unless the request implies it, and permissions before `umask` is applied.
    pub mode: u32,
    /// Permissions to remove, unless an access list says otherwise.
    pub umask: u32,
    /// Device number.
    pub device: u32,
    /// Flags of `open`, if the file is also opened.
    pub flags: u32,
}

/// Flags of RENAME2 (`linux/fs.h`).
pub mod rename_flag {
    /// The new name must not exist.
    pub const NOREPLACE: u32 = 1 << 0;
    /// The two names exchange their files.
    pub const EXCHANGE: u32 = 1 << 1;
    /// A character device of number 0 gets the old name.
    pub const WHITEOUT: u32 = 1 << 2;
}

/// A copy from one file to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyRange {
    /// Offset of the first byte in the source.
    pub at: u64,
    /// Inode of the destination.
    pub to: u64,
    /// Handle of the destination.
    pub to_handle: u64,
    /// Offset of the first byte in the destination.
    pub to_at: u64,
    /// Length in bytes.
    pub len: u64,
}

/// An ioctl of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FuseIoctl {
    /// Number of the ioctl.
    pub command: u32,
    /// Argument as passed by the program, usually an address.
    pub argument: u64,
    /// Data at this address, as far as the number declares that the ioctl reads it.
    pub data: Box<[u8]>,
    /// Limit on the bytes returned.
    pub out_max: u32,
    /// The file is a directory.
    pub of_directory: bool,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// The operation.
    pub op: FuseOp,
}

/// An operation. Positions and lengths are in bytes, as the kernel sent them: not yet checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FuseOp {
    /// The first request: the kernel's version and capabilities.
    Init {
        /// Major version of the kernel's protocol.
        major: u32,
        /// The kernel's flags.
        flags: u64,
    },
    /// Look up a name in the directory.
    Lookup(Box<[u8]>),
    /// The kernel drops this many references to each of these inodes: (inode, count). Expects no reply.
    Forget(Vec<(u64, u64)>),
    /// Return the attributes.
    GetAttr,
    /// Change attributes.
    SetAttr(SetAttr),
    /// Return the target of a symbolic link.
    ReadLink,
    /// Create a symbolic link: its name, and its target.
    Symlink(Box<[u8]>, Box<[u8]>),
    /// Create a file.
    Mknod(FuseCreate),
    /// Create a directory.
    Mkdir(FuseCreate),
    /// Create a file and open it.
    Create(FuseCreate),
    /// Create a file without a name and open it.
    Tmpfile(FuseCreate),
    /// Remove a name.
    Unlink(Box<[u8]>),
    /// Remove a directory.
    Rmdir(Box<[u8]>),
    /// Move a name to a directory.
    Rename {
        /// The old name.
        name: Box<[u8]>,
        /// The directory of the new name.
        to: u64,
        /// The new name.
        new: Box<[u8]>,
        /// See [`rename_flag`].
        flags: u32,
    },
    /// Add a name in the directory to this inode.
    Link(u64, Box<[u8]>),
    /// Open a file.
    Open {
        /// The flags of `open`.
        flags: u32,
        /// Clear `setuid` and `setgid` if the file is truncated.
        kill: bool,
    },
    /// The last user of an open file has closed it.
    Release,
    /// Read a file.
    Read {
        /// Offset.
        at: u64,
        /// Length.
        len: u32,
    },
    /// Write to a file. The data follows in the message.
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
    /// Make a file durable; its data only if true.
    Fsync(bool),
    /// Make a directory durable; its data only if true.
    FsyncDir(bool),
    /// Make the whole filesystem durable.
    SyncFs,
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
    /// Set an extended attribute.
    SetXattr {
        /// Name of the attribute.
        name: Box<[u8]>,
        /// Value of the attribute.
        value: Box<[u8]>,
        /// `XATTR_CREATE` is 1, `XATTR_REPLACE` 2.
        flags: u32,
        /// The attribute is an access list, and the file loses `setgid`: the caller is not a member of the file's
        /// group.
        kill_setgid: bool,
    },
    /// Return the value of an extended attribute, with a limit in bytes; the limit 0 asks for the value's length.
    GetXattr(Box<[u8]>, u32),
    /// Return the names of the extended attributes, with a limit as for [`FuseOp::GetXattr`].
    ListXattr(u32),
    /// Remove an extended attribute.
    RemoveXattr(Box<[u8]>),
    /// Open a directory.
    OpenDir,
    /// Return the entries of a directory.
    ReadDir {
        /// Position of the first entry.
        at: u64,
        /// Limit on the reply, in bytes.
        len: u32,
    },
    /// Return entries of a directory together with their attributes.
    ReadDirPlus {
        /// Position of the first entry.
        at: u64,
        /// Limit on the reply, in bytes.
        len: u32,
    },
    /// The last user of an open directory has closed it.
    ReleaseDir,
    /// Find data or a hole: `SEEK_DATA` is 3, `SEEK_HOLE` 4.
    Lseek {
        /// Offset to begin at.
        at: u64,
        /// The kind of seek.
        whence: u32,
    },
    /// Execute an ioctl.
    Ioctl(FuseIoctl),
    /// Copy a range from one file to another.
    CopyFileRange(CopyRange),
    /// Return the attributes, including the creation time.
    Statx,
    /// The filesystem is unmounted.
    Destroy,
    /// Another request, by its number.
    Other(u32),
}
