//! The decoder of requests.
//!
//! Nothing here allocates by a length found in a message before it has compared this length with the message.

use super::request::{CopyRange, FuseCreate, FuseIoctl, FuseOp, FuseRequest, SetAttr, TimeToSet};
use super::{HEADER, init_flag, opcode};

/// Flag in READ: the read is for a process, and not for the page cache (`fuse_send_read` of the kernel).
pub(super) const READ_LOCKOWNER: u32 = 1 << 1;
/// `O_DIRECT` of Linux (`asm/fcntl.h`), which depends on the architecture.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
pub(super) const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
pub(super) const O_DIRECT: u32 = 0o40_000;

/// Flag in SETATTR: the request has a file handle.
const SETATTR_HANDLE: u32 = 1 << 6;
/// Flag in SETXATTR: see [`FuseOp::SetXattr`].
const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// A message that is not a valid request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedRequest {
    /// Number that a reply must repeat, if the header was complete.
    pub unique: Option<u64>,
    /// The part that is malformed.
    pub part: MalformedPart,
}

/// A part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedPart {
    /// The length: it differs from the length in the header, or is too short for the operation.
    Length,
    /// The body: a name, a value or a list in it has no end.
    Body,
}

/// The body of a message that is not yet decoded. Transports receive a body in two parts, and a field may begin in one
/// and end in the other.
#[derive(Clone, Copy)]
struct BodyReader<'a>([&'a [u8]; 2]);

impl<'a> BodyReader<'a> {
    fn len(&self) -> usize {
        self.0[0].len() + self.0[1].len()
    }

    /// Splits off the next `n` bytes, which are also in two parts.
    fn take(&mut self, n: usize) -> Option<[&'a [u8]; 2]> {
        let [front, back] = self.0;
        let (in_front, front) = front.split_at(n.min(front.len()));
        let (in_back, back) = back.split_at_checked(n - in_front.len())?;
        self.0 = [front, back];
        Some([in_front, in_back])
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let [front, back] = self.take(N)?;
        let mut array = [0; N];
        array[..front.len()].copy_from_slice(front);
        array[front.len()..].copy_from_slice(back);
        Some(array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn bytes(&mut self, n: usize) -> Option<Box<[u8]>> {
        Some(self.take(n)?.concat().into())
    }

    /// Reads a name, which ends with a zero byte.
    fn name(&mut self) -> Option<Box<[u8]>> {
        let [front, back] = self.0;
        let mut sent = front.iter().chain(back);
        let len = sent.position(|byte| *byte == 0)?;
        let name = self.bytes(len)?;
        self.take(1)?;
        Some(name)
    }
}

/// Decodes a message: its header, and the two parts of its body, in a session that agreed on these [`init_flag`]s.
///
/// # Errors
/// If the message is malformed.
pub fn decode(
    header: &[u8],
    body: [&[u8]; 2],
    agreed: u64,
) -> Result<FuseRequest, MalformedRequest> {
    let malformed = |unique, part| MalformedRequest { unique, part };
    let header: &[u8; HEADER] = header
        .try_into()
        .map_err(|_| malformed(None, MalformedPart::Length))?;
    let [len, opcode] = [0, 4].map(|at| u32_at(header, at));
    let unique = u64_at(header, 8);
    let from = BodyReader(body);
    if len as usize != HEADER + from.len() || from.len() < body_min(opcode) {
        return Err(malformed(Some(unique), MalformedPart::Length));
    }
    let node = u64_at(header, 16);
    let op = operation(opcode, from, node, agreed)
        .ok_or_else(|| malformed(Some(unique), MalformedPart::Body))?;
    if let FuseOp::Write { len, .. } = op
        && from.len() - body_min(opcode) != len as usize
    {
        return Err(malformed(Some(unique), MalformedPart::Length));
    }
    Ok(FuseRequest {
        unique,
        node,
        user: u32_at(header, 24),
        group: u32_at(header, 28),
        handle: handle(opcode, from).unwrap_or(0),
        file_flags: file_flags(opcode, from).unwrap_or(0),
        op,
    })
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| header[at + i]))
}

fn u64_at(header: &[u8; HEADER], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| header[at + i]))
}

/// Returns the minimum length of the body of an operation whose numbers come first.
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

/// Returns the handle in the body; `None` for operations without a handle.
fn handle(opcode: u32, mut from: BodyReader<'_>) -> Option<u64> {
    match opcode {
        opcode::SETATTR => {
            let valid = from.u32()?;
            from.u32()?;
            from.u64().filter(|_| valid & SETATTR_HANDLE != 0)
        }
        opcode::READ
        | opcode::WRITE
        | opcode::RELEASE
        | opcode::FSYNC
        | opcode::FLUSH
        | opcode::READDIR
        | opcode::RELEASEDIR
        | opcode::FSYNCDIR
        | opcode::IOCTL
        | opcode::FALLOCATE
        | opcode::READDIRPLUS
        | opcode::LSEEK
        | opcode::COPY_FILE_RANGE => from.u64(),
        _ => None,
    }
}

/// Returns the flags of the open file in the body; `None` for other operations than reads and writes.
fn file_flags(opcode: u32, mut from: BodyReader<'_>) -> Option<u32> {
    if !matches!(opcode, opcode::READ | opcode::WRITE) {
        return None;
    }
    from.take(20)?;
    let read_flags = from.u32()?;
    from.u64()?; // lock owner
    let flags = from.u32()?;
    let fills_cache = opcode == opcode::READ && read_flags & READ_LOCKOWNER == 0;
    Some(if fills_cache {
        flags & !O_DIRECT
    } else {
        flags
    })
}

/// Decodes the operation on `node`. `None` if the body is malformed.
fn operation(opcode: u32, mut from: BodyReader<'_>, node: u64, agreed: u64) -> Option<FuseOp> {
    Some(match opcode {
        opcode::INIT => init(from)?,
        opcode::LOOKUP => FuseOp::Lookup(from.name()?),
        // FORGET is about the inode in the header.
        opcode::FORGET => FuseOp::Forget(vec![(node, from.u64()?)]),
        opcode::BATCH_FORGET => batch_forget(from, node)?,
        opcode::GETATTR => FuseOp::GetAttr,
        opcode::SETATTR => FuseOp::SetAttr(set_attr(from)?),
        opcode::READLINK => FuseOp::ReadLink,
        opcode::SYMLINK => {
            let name = from.name()?;
            FuseOp::Symlink(name, from.name()?)
        }
        opcode::MKNOD | opcode::MKDIR | opcode::CREATE | opcode::TMPFILE => make(opcode, from)?,
        opcode::UNLINK => FuseOp::Unlink(from.name()?),
        opcode::RMDIR => FuseOp::Rmdir(from.name()?),
        opcode::RENAME | opcode::RENAME2 => rename(opcode, from)?,
        opcode::LINK => {
            let file = from.u64()?;
            FuseOp::Link(file, from.name()?)
        }
        opcode::OPEN => {
            let flags = from.u32()?;
            let kill = from.u32()? & 1 != 0;
            FuseOp::Open { flags, kill }
        }
        opcode::STATFS => FuseOp::StatFs,
        opcode::RELEASE => FuseOp::Release,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            attribute(opcode, from, agreed)?
        }
        opcode::OPENDIR => FuseOp::OpenDir,
        opcode::RELEASEDIR => FuseOp::ReleaseDir,
        opcode::DESTROY => FuseOp::Destroy,
        opcode::IOCTL => ioctl(from)?,
        opcode::SYNCFS => FuseOp::SyncFs,
        opcode::STATX => FuseOp::Statx,
        opcode::READ
        | opcode::WRITE
        | opcode::FSYNC
        | opcode::FSYNCDIR
        | opcode::READDIR
        | opcode::READDIRPLUS
        | opcode::FALLOCATE
        | opcode::LSEEK
        | opcode::COPY_FILE_RANGE => {
            from.u64()?; // handle
            behind_handle(opcode, from)?
        }
        other => FuseOp::Other(other),
    })
}

/// Decodes the rest of a body that begins with a handle. `None` if the body is malformed.
fn behind_handle(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseOp> {
    Some(match opcode {
        opcode::WRITE => {
            let (at, len, flags) = (from.u64()?, from.u32()?, from.u32()?);
            FuseOp::Write {
                at,
                len,
                kill: flags & (1 << 2) != 0,
                delayed: flags & 1 != 0,
            }
        }
        opcode::FSYNC => FuseOp::Fsync(from.u32()? & 1 != 0),
        opcode::FSYNCDIR => FuseOp::FsyncDir(from.u32()? & 1 != 0),
        opcode::FALLOCATE => FuseOp::Fallocate {
            at: from.u64()?,
            len: from.u64()?,
            mode: from.u32()?,
        },
        opcode::COPY_FILE_RANGE => FuseOp::CopyFileRange(CopyRange {
            at: from.u64()?,
            to: from.u64()?,
            to_handle: from.u64()?,
            to_at: from.u64()?,
            len: from.u64()?,
        }),
        _ => {
            let at = from.u64()?;
            let number = from.u32()?;
            match opcode {
                opcode::READ => FuseOp::Read { at, len: number },
                opcode::READDIR => FuseOp::ReadDir { at, len: number },
                opcode::READDIRPLUS => FuseOp::ReadDirPlus { at, len: number },
                _ => FuseOp::Lseek { at, whence: number },
            }
        }
    })
}

/// Decodes INIT. Its flags have 64 bits if the flag for this is set and the message is long enough, otherwise 32.
fn init(mut from: BodyReader<'_>) -> Option<FuseOp> {
    let major = from.u32()?;
    from.take(8)?;
    let mut flags = u64::from(from.u32()?);
    if flags & init_flag::INIT_EXT != 0
        && let Some(high) = from.u32()
    {
        flags |= u64::from(high) << 32;
    }
    Some(FuseOp::Init { major, flags })
}

fn batch_forget(mut from: BodyReader<'_>, node: u64) -> Option<FuseOp> {
    let count = from.u32()? as usize;
    from.u32()?;
    if count > from.len() / 16 {
        return None;
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let file = from.u64()?;
        // 0 stands for the inode in the header.
        all.push((if file == 0 { node } else { file }, from.u64()?));
    }
    Some(FuseOp::Forget(all))
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

fn make(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseOp> {
    let mut made = FuseCreate::default();
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
        opcode::MKNOD => FuseOp::Mknod(made),
        opcode::MKDIR => FuseOp::Mkdir(made),
        opcode::CREATE => FuseOp::Create(made),
        _ => FuseOp::Tmpfile(made),
    })
}

fn rename(opcode: u32, mut from: BodyReader<'_>) -> Option<FuseOp> {
    let to = from.u64()?;
    let mut flags = 0;
    if opcode == opcode::RENAME2 {
        flags = from.u32()?;
        from.u32()?;
    }
    let name = from.name()?;
    let new = from.name()?;
    Some(FuseOp::Rename {
        name,
        to,
        new,
        flags,
    })
}

fn attribute(opcode: u32, mut from: BodyReader<'_>, agreed: u64) -> Option<FuseOp> {
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
            FuseOp::SetXattr {
                name,
                value: from.bytes(len as usize)?,
                flags,
                kill_setgid: more & SETXATTR_ACL_KILL_SGID != 0,
            }
        }
        opcode::REMOVEXATTR => FuseOp::RemoveXattr(from.name()?),
        _ => {
            let len = from.u32()?;
            from.u32()?;
            match opcode {
                opcode::GETXATTR => FuseOp::GetXattr(from.name()?, len),
                _ => FuseOp::ListXattr(len),
            }
        }
    })
}

fn ioctl(mut from: BodyReader<'_>) -> Option<FuseOp> {
    from.u64()?;
    let flags = from.u32()?;
    let command = from.u32()?;
    let argument = from.u64()?;
    let in_len = from.u32()?;
    let out_max = from.u32()?;
    Some(FuseOp::Ioctl(FuseIoctl {
        command,
        argument,
        data: from.bytes(in_len as usize)?,
        out_max,
        of_directory: flags & (1 << 4) != 0,
    }))
}
