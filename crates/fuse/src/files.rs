//! What a filesystem is asked beside what [`Op`](crate::Op) has: names, attributes, and what is rare. From whole bodies.

use crate::init_flag;

/// In SETXATTR: see [`Asked::SetXattr`].
const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// What kind of file an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A named pipe.
    Fifo,
    /// A character device.
    Character,
    /// A directory.
    Directory,
    /// A block device.
    Block,
    /// A file with data.
    File,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
}

impl Kind {
    const ALL: [(Kind, u32); 7] = [
        (Kind::Fifo, 1),
        (Kind::Character, 2),
        (Kind::Directory, 4),
        (Kind::Block, 6),
        (Kind::File, 8),
        (Kind::Symlink, 10),
        (Kind::Socket, 12),
    ];

    /// Its bits in a mode.
    pub fn mode(self) -> u32 {
        let mut all = Kind::ALL.into_iter();
        let found = all.find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, code)| code << 12)
    }

    /// The kind that a mode says; a file if it says none, as `mknod` has it.
    pub fn of_mode(mode: u32) -> Option<Kind> {
        let code = (mode >> 12) & 0o17;
        let mut all = Kind::ALL.into_iter();
        match code {
            0 => Some(Kind::File),
            _ => all.find(|(_, one)| *one == code).map(|(kind, _)| kind),
        }
    }
}

/// When a file is to have been read or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Now.
    Now,
    /// Then: seconds since 1970, nanoseconds.
    At(i64, u32),
}

/// What SETATTR changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetAttr {
    /// The mode.
    pub mode: Option<u32>,
    /// Whose it is.
    pub user: Option<u32>,
    /// Whose group it is.
    pub group: Option<u32>,
    /// Its size, in bytes.
    pub size: Option<u64>,
    /// When it was last read.
    pub accessed: Option<When>,
    /// When its data was last changed.
    pub modified: Option<When>,
    /// When anything of it was last changed.
    pub changed: Option<When>,
    /// The file loses `setuid` and `setgid`.
    pub kill: bool,
}

/// Something that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Make<'a> {
    /// Its name; none for TMPFILE's.
    pub name: &'a [u8],
    /// Its kind, if that is not said otherwise, and permissions, to which `umask` is not applied yet.
    pub mode: u32,
    /// What is to be left out of the permissions unless an access list says otherwise.
    pub umask: u32,
    /// Which device.
    pub device: u32,
    /// The flags of `open`, if it is opened, too.
    pub flags: u32,
}

/// Flags of RENAME2 (`linux/fs.h`).
pub mod rename_flag {
    /// Nothing may be there.
    pub const NOREPLACE: u32 = 1 << 0;
    /// What is there gets the other name.
    pub const EXCHANGE: u32 = 1 << 1;
    /// A character device of number 0 gets the old name.
    pub const WHITEOUT: u32 = 1 << 2;
}

/// A copy from one file to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyRange {
    /// The first byte of the file that is read.
    pub at: u64,
    /// The inode that is written.
    pub to: u64,
    /// The handle that it is open with.
    pub to_handle: u64,
    /// The first byte there.
    pub to_at: u64,
    /// Bytes.
    pub len: u64,
}

/// An ioctl of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ioctl<'a> {
    /// Which.
    pub command: u32,
    /// Its argument, as it is: mostly an address.
    pub argument: u64,
    /// What lies there, as far as the command says that it is read.
    pub data: &'a [u8],
    /// Bytes that it may give.
    pub out_max: u32,
    /// It is of a directory.
    pub of_directory: bool,
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked<'a> {
    /// Which inode has this name in the directory.
    Lookup(&'a [u8]),
    /// The kernel knows inodes so many times less.
    Forget(Vec<(u64, u64)>),
    /// Change attributes.
    SetAttr(SetAttr),
    /// Where a link leads to.
    ReadLink,
    /// Make a link of a name that leads to another.
    Symlink(&'a [u8], &'a [u8]),
    /// Make a file.
    Mknod(Make<'a>),
    /// Make a directory.
    Mkdir(Make<'a>),
    /// Make a file and open it.
    Create(Make<'a>),
    /// Make a file without a name and open it.
    Tmpfile(Make<'a>),
    /// Take a name away.
    Unlink(&'a [u8]),
    /// Take a directory away.
    Rmdir(&'a [u8]),
    /// Move a name, by what flags say, to another directory's.
    Rename {
        /// The name.
        name: &'a [u8],
        /// The directory of the new one.
        to: u64,
        /// The new name.
        new: &'a [u8],
        /// See [`rename_flag`].
        flags: u32,
    },
    /// Give an inode a name in the directory.
    Link(u64, &'a [u8]),
    /// Open a file.
    Open {
        /// The flags of `open`.
        flags: u32,
        /// It loses `setuid` and `setgid`, if it is cut off.
        kill: bool,
    },
    /// Make durable what was done to a file: its data only, if so.
    Fsync(bool),
    /// The same of a directory.
    FsyncDir(bool),
    /// Set an extended attribute.
    SetXattr {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// `XATTR_CREATE` is 1, `XATTR_REPLACE` 2.
        flags: u32,
        /// The attribute is an access list, and the file loses `setgid`: the caller is not a member of the file's group.
        kill_setgid: bool,
    },
    /// The value of an extended attribute, in so many bytes at most; 0: how many there are.
    GetXattr(&'a [u8], u32),
    /// The names of the extended attributes.
    ListXattr(u32),
    /// Take an extended attribute away.
    RemoveXattr(&'a [u8]),
    /// Names of a directory with what `stat` shows, from a position on, in so many bytes at most.
    ReadDirPlus {
        /// From here.
        at: u64,
        /// So much.
        len: u32,
    },
    /// Where there is data, or a hole: `SEEK_DATA` is 3, `SEEK_HOLE` 4.
    Lseek {
        /// From here.
        at: u64,
        /// Which.
        whence: u32,
    },
    /// Something special.
    Ioctl(Ioctl<'a>),
    /// Copy a part of one file to another.
    CopyFileRange(CopyRange),
    /// Make everything durable.
    SyncFs,
    /// What `stat` shows, with when the file was made.
    Statx,
    /// Anything else.
    Other,
}

/// The rest of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
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

    /// A name, which ends with a zero byte.
    fn name(&mut self) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let name = self.take(len)?;
        self.take(1)?;
        Some(name)
    }
}

/// Understands the body of a request, all behind its header, in a session for which these [`init_flag`]s were agreed. None if it
/// is malformed.
pub fn decode(opcode: u32, body: &[u8], agreed: u64) -> Option<Asked<'_>> {
    let mut from = Body(body);
    Some(match opcode {
        1 => Asked::Lookup(from.name()?),
        2 | 42 => forget(opcode, from)?,
        4 => Asked::SetAttr(set_attr(from)?),
        5 => Asked::ReadLink,
        6 => {
            let name = from.name()?;
            Asked::Symlink(name, from.name()?)
        }
        8 | 9 | 35 | 51 => make(opcode, from)?,
        10 => Asked::Unlink(from.name()?),
        11 => Asked::Rmdir(from.name()?),
        12 | 45 => rename(opcode, from)?,
        13 => {
            let node = from.u64()?;
            Asked::Link(node, from.name()?)
        }
        14 => {
            let flags = from.u32()?;
            let kill = from.u32()? & 1 != 0;
            Asked::Open { flags, kill }
        }
        20 | 30 => {
            from.u64()?;
            let data_only = from.u32()? & 1 != 0;
            match opcode {
                20 => Asked::Fsync(data_only),
                _ => Asked::FsyncDir(data_only),
            }
        }
        21..=24 => attribute(opcode, from, agreed)?,
        39 => ioctl(from)?,
        44 => {
            from.u64()?;
            let at = from.u64()?;
            Asked::ReadDirPlus {
                at,
                len: from.u32()?,
            }
        }
        46 => {
            from.u64()?;
            let at = from.u64()?;
            Asked::Lseek {
                at,
                whence: from.u32()?,
            }
        }
        47 => {
            from.u64()?;
            Asked::CopyFileRange(CopyRange {
                at: from.u64()?,
                to: from.u64()?,
                to_handle: from.u64()?,
                to_at: from.u64()?,
                len: from.u64()?,
            })
        }
        50 => Asked::SyncFs,
        52 => Asked::Statx,
        _ => Asked::Other,
    })
}

fn forget(opcode: u32, mut from: Body<'_>) -> Option<Asked<'_>> {
    // FORGET is of the inode in the header, which is told by 0.
    if opcode == 2 {
        return Some(Asked::Forget(vec![(0, from.u64()?)]));
    }
    let count = from.u32()?;
    from.u32()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let node = from.u64()?;
        all.push((node, from.u64()?));
    }
    Some(Asked::Forget(all))
}

fn set_attr(mut from: Body<'_>) -> Option<SetAttr> {
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
        let at = When::At(seconds[n].cast_signed(), nanos[n].min(999_999_999));
        let is_now = now.is_some_and(given);
        given(bit).then_some(if is_now { When::Now } else { at })
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

fn make(opcode: u32, mut from: Body<'_>) -> Option<Asked<'_>> {
    let mut made = Make {
        name: b"",
        mode: 0,
        umask: 0,
        device: 0,
        flags: 0,
    };
    match opcode {
        8 => {
            made.mode = from.u32()?;
            made.device = from.u32()?;
            made.umask = from.u32()?;
            from.u32()?;
        }
        9 => {
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
    if opcode != 51 {
        made.name = from.name()?;
    }
    Some(match opcode {
        8 => Asked::Mknod(made),
        9 => Asked::Mkdir(made),
        35 => Asked::Create(made),
        _ => Asked::Tmpfile(made),
    })
}

fn rename(opcode: u32, mut from: Body<'_>) -> Option<Asked<'_>> {
    let to = from.u64()?;
    let mut flags = 0;
    if opcode == 45 {
        flags = from.u32()?;
        from.u32()?;
    }
    let name = from.name()?;
    let new = from.name()?;
    Some(Asked::Rename {
        name,
        to,
        new,
        flags,
    })
}

fn attribute(opcode: u32, mut from: Body<'_>, agreed: u64) -> Option<Asked<'_>> {
    Some(match opcode {
        21 => {
            let len = from.u32()?;
            let flags = from.u32()?;
            let mut more = 0;
            if agreed & init_flag::SETXATTR_EXT != 0 {
                more = from.u32()?;
                from.u32()?;
            }
            let name = from.name()?;
            Asked::SetXattr {
                name,
                value: from.take(len as usize)?,
                flags,
                kill_setgid: more & SETXATTR_ACL_KILL_SGID != 0,
            }
        }
        24 => Asked::RemoveXattr(from.name()?),
        _ => {
            let len = from.u32()?;
            from.u32()?;
            match opcode {
                22 => Asked::GetXattr(from.name()?, len),
                _ => Asked::ListXattr(len),
            }
        }
    })
}

fn ioctl(mut from: Body<'_>) -> Option<Asked<'_>> {
    from.u64()?;
    let flags = from.u32()?;
    let command = from.u32()?;
    let argument = from.u64()?;
    let in_len = from.u32()?;
    let out_max = from.u32()?;
    Some(Asked::Ioctl(Ioctl {
        command,
        argument,
        data: from.take(in_len as usize)?,
        out_max,
        of_directory: flags & (1 << 4) != 0,
    }))
}
