//! Requests beyond those that [`FuseOp`](crate::codec::FuseOp) decodes: names, attributes, and rare requests. They are decoded from
//! whole bodies.

use crate::codec::{init_flag, opcode};

/// Flag in SETXATTR: see [`FuseBody::SetXattr`].
const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuseCreate<'a> {
    /// Name; empty for TMPFILE.
    pub name: &'a [u8],
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuseIoctl<'a> {
    /// Number of the ioctl.
    pub command: u32,
    /// Argument as passed by the program, usually an address.
    pub argument: u64,
    /// Data at this address, as far as the number declares that the ioctl reads it.
    pub data: &'a [u8],
    /// Limit on the bytes returned.
    pub out_max: u32,
    /// The file is a directory.
    pub of_directory: bool,
}

/// A request with its whole body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FuseBody<'a> {
    /// Look up a name in the directory.
    Lookup(&'a [u8]),
    /// The kernel drops this many references to each of these inodes: (inode, count).
    Forget(Vec<(u64, u64)>),
    /// Change attributes.
    SetAttr(SetAttr),
    /// Return the target of a symbolic link.
    ReadLink,
    /// Create a symbolic link: its name, and its target.
    Symlink(&'a [u8], &'a [u8]),
    /// Create a file.
    Mknod(FuseCreate<'a>),
    /// Create a directory.
    Mkdir(FuseCreate<'a>),
    /// Create a file and open it.
    Create(FuseCreate<'a>),
    /// Create a file without a name and open it.
    Tmpfile(FuseCreate<'a>),
    /// Remove a name.
    Unlink(&'a [u8]),
    /// Remove a directory.
    Rmdir(&'a [u8]),
    /// Move a name to a directory.
    Rename {
        /// The old name.
        name: &'a [u8],
        /// The directory of the new name.
        to: u64,
        /// The new name.
        new: &'a [u8],
        /// See [`rename_flag`].
        flags: u32,
    },
    /// Add a name in the directory to this inode.
    Link(u64, &'a [u8]),
    /// Open a file.
    Open {
        /// The flags of `open`.
        flags: u32,
        /// Clear `setuid` and `setgid` if the file is truncated.
        kill: bool,
    },
    /// Make a file durable; its data only if true.
    Fsync(bool),
    /// Make a directory durable; its data only if true.
    FsyncDir(bool),
    /// Set an extended attribute.
    SetXattr {
        /// Name of the attribute.
        name: &'a [u8],
        /// Value of the attribute.
        value: &'a [u8],
        /// `XATTR_CREATE` is 1, `XATTR_REPLACE` 2.
        flags: u32,
        /// The attribute is an access list, and the file loses `setgid`: the caller is not a member of the file's
        /// group.
        kill_setgid: bool,
    },
    /// Return the value of an extended attribute, with a limit in bytes; the limit 0 asks for the value's length.
    GetXattr(&'a [u8], u32),
    /// Return the names of the extended attributes, with a limit as for [`FuseBody::GetXattr`].
    ListXattr(u32),
    /// Remove an extended attribute.
    RemoveXattr(&'a [u8]),
    /// Return entries of a directory together with their attributes.
    ReadDirPlus {
        /// Position of the first entry.
        at: u64,
        /// Limit on the reply, in bytes.
        len: u32,
    },
    /// Find data or a hole: `SEEK_DATA` is 3, `SEEK_HOLE` 4.
    Lseek {
        /// Offset to begin at.
        at: u64,
        /// The kind of seek.
        whence: u32,
    },
    /// Execute an ioctl.
    Ioctl(FuseIoctl<'a>),
    /// Copy a range from one file to another.
    CopyFileRange(CopyRange),
    /// Make the whole filesystem durable.
    SyncFs,
    /// Return the attributes, including the creation time.
    Statx,
    /// Another request.
    Other,
}

/// The rest of a body.
struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (front, back) = self.0.split_at_checked(n)?;
        self.0 = back;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads a name, which ends with a zero byte.
    fn name(&mut self) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let name = self.take(len)?;
        self.take(1)?;
        Some(name)
    }
}

/// Decodes the body of a request, all bytes behind its header, in a session that agreed on these [`init_flag`]s. `None`
/// if the body is malformed.
pub fn decode(opcode: u32, body: &[u8], agreed: u64) -> Option<FuseBody<'_>> {
    let mut from = BodyReader(body);
    Some(match opcode {
        opcode::LOOKUP => FuseBody::Lookup(from.name()?),
        opcode::FORGET | opcode::BATCH_FORGET => forget(opcode, from)?,
        opcode::SETATTR => FuseBody::SetAttr(set_attr(from)?),
        opcode::READLINK => FuseBody::ReadLink,
        opcode::SYMLINK => {
            let name = from.name()?;
            FuseBody::Symlink(name, from.name()?)
        }
        opcode::MKNOD | opcode::MKDIR | opcode::CREATE | opcode::TMPFILE => make(opcode, from)?,
        opcode::UNLINK => FuseBody::Unlink(from.name()?),
        opcode::RMDIR => FuseBody::Rmdir(from.name()?),
        opcode::RENAME | opcode::RENAME2 => rename(opcode, from)?,
        opcode::LINK => {
            let node = from.u64()?;
            FuseBody::Link(node, from.name()?)
        }
        opcode::OPEN => {
            let flags = from.u32()?;
            let kill = from.u32()? & 1 != 0;
            FuseBody::Open { flags, kill }
        }
        opcode::FSYNC | opcode::FSYNCDIR => {
            from.u64()?;
            let data_only = from.u32()? & 1 != 0;
            match opcode {
                opcode::FSYNC => FuseBody::Fsync(data_only),
                _ => FuseBody::FsyncDir(data_only),
            }
        }
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            attribute(opcode, from, agreed)?
        }
        opcode::IOCTL => ioctl(from)?,
        opcode::READDIRPLUS => {
            from.u64()?;
            let at = from.u64()?;
            FuseBody::ReadDirPlus {
                at,
                len: from.u32()?,
            }
        }
        opcode::LSEEK => {
            from.u64()?;
            let at = from.u64()?;
            FuseBody::Lseek {
                at,
                whence: from.u32()?,
            }
        }
        opcode::COPY_FILE_RANGE => {
            from.u64()?;
            FuseBody::CopyFileRange(CopyRange {
                at: from.u64()?,
                to: from.u64()?,
                to_handle: from.u64()?,
                to_at: from.u64()?,
                len: from.u64()?,
            })
        }
        opcode::SYNCFS => FuseBody::SyncFs,
        opcode::STATX => FuseBody::Statx,
        _ => FuseBody::Other,
    })
}

fn forget(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseBody<'_>> {
    // FORGET is about the inode in the header; 0 stands for it.
    if opcode == opcode::FORGET {
        return Some(FuseBody::Forget(vec![(0, from.u64()?)]));
    }
    let count = from.u32()?;
    from.u32()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let node = from.u64()?;
        all.push((node, from.u64()?));
    }
    Some(FuseBody::Forget(all))
}

fn set_attr(mut from: BodyReader<'_>) -> Option<SetAttr> {
    let valid = from.u32()?;
    let given = |bit: u32| valid & (1 << bit) != 0;
    from.take(4 + 8)?;
    let size = from.u64()?;
    from.u64()?; // lock owner
    let seconds = [from.u64()?, from.u64()?, from.u64()?];
    let nanos = [from.u32()?, from.u32()?, from.u32()?];
    let mode = from.u32()?;
    from.u32()?;
    let (user, group) = (from.u32()?, from.u32()?);
    let when = |n: usize, bit: u32, now: Option<u32>| {
        let at = TimeToSet::At(seconds[n].cast_signed(), nanos[n].min(999_999_999));
        let is_now = now.is_some_and(given);
        given(bit).then_some(if is_now { TimeToSet::Now } else { at })
    };
    Some(SetAttr {
        mode: given(0).then_some(mode),
        user: given(1).then_some(user),
        group: given(2).then_some(group),
        size: given(3).then_some(size),
        accessed: when(0, 4, Some(7)),
        modified: when(1, 5, Some(8)),
        changed: when(2, 10, None),
        kill: given(11),
    })
}

fn make(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseBody<'_>> {
    let mut made = FuseCreate {
        name: b"",
        mode: 0,
        umask: 0,
        device: 0,
        flags: 0,
    };
    match opcode {
        opcode::MKNOD => {
            made.mode = from.u32()?;
            made.device = from.u32()?;
            made.umask = from.u32()?;
            from.u32()?;
        }
        opcode::MKDIR => {
            made.mode = from.u32()?;
            made.umask = from.u32()?;
        }
        _ => {
            made.flags = from.u32()?;
            made.mode = from.u32()?;
            made.umask = from.u32()?;
            from.u32()?;
        }
    }
    if opcode != opcode::TMPFILE {
        made.name = from.name()?;
    }
    Some(match opcode {
        opcode::MKNOD => FuseBody::Mknod(made),
        opcode::MKDIR => FuseBody::Mkdir(made),
        opcode::CREATE => FuseBody::Create(made),
        _ => FuseBody::Tmpfile(made),
    })
}

fn rename(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseBody<'_>> {
    let to = from.u64()?;
    let mut flags = 0;
    if opcode == opcode::RENAME2 {
        flags = from.u32()?;
        from.u32()?;
    }
    let name = from.name()?;
    let new = from.name()?;
    Some(FuseBody::Rename {
        name,
        to,
        new,
        flags,
    })
}

fn attribute(opcode: u32, mut from: BodyReader<'_>, agreed: u64) -> Option<FuseBody<'_>> {
    Some(match opcode {
        opcode::SETXATTR => {
            let len = from.u32()?;
            let flags = from.u32()?;
            let mut more = 0;
            if agreed & init_flag::SETXATTR_EXT != 0 {
                more = from.u32()?;
                from.u32()?;
            }
            let name = from.name()?;
            FuseBody::SetXattr {
                name,
                value: from.take(len as usize)?,
                flags,
                kill_setgid: more & SETXATTR_ACL_KILL_SGID != 0,
            }
        }
        opcode::REMOVEXATTR => FuseBody::RemoveXattr(from.name()?),
        _ => {
            let len = from.u32()?;
            from.u32()?;
            match opcode {
                opcode::GETXATTR => FuseBody::GetXattr(from.name()?, len),
                _ => FuseBody::ListXattr(len),
            }
        }
    })
}

fn ioctl(mut from: BodyReader<'_>) -> Option<FuseBody<'_>> {
    from.u64()?;
    let flags = from.u32()?;
    let command = from.u32()?;
    let argument = from.u64()?;
    let in_len = from.u32()?;
    let out_max = from.u32()?;
    Some(FuseBody::Ioctl(FuseIoctl {
        command,
        argument,
        data: from.take(in_len as usize)?,
        out_max,
        of_directory: flags & (1 << 4) != 0,
    }))
}
