//! Flags of files that users set (`chattr`), and their restrictions on open files. The rules for names and data are in
//! `crates/dfs/src/protect.rs`.
//!
//! Linux itself allows only the owner to set flags, and requires `CAP_LINUX_IMMUTABLE` for setting or clearing those
//! that protect. But it does not know the flags of a file that is served by FUSE, so every other restriction is
//! enforced here.

use forebay_device::is_zero;
use forebay_dfs::{FileFlags, FileKind, FsError, Inode, Result};
use forebay_fuse::codec::FuseIoctl;
use forebay_fuse::codec::FuseRequest;
use forebay_fuse::{ActiveRequest, StaleCache};

use crate::attributes::attributes_of;
use crate::error::IoctlResult;
use crate::handler::MountedFiles;
use crate::handles::appends;

// `linux/fs.h`: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FS_IOC_GETVERSION.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_XFLAGS: u32 = 0x801c_581f;
const SET_XFLAGS: u32 = 0x401c_5820;
const GET_VERSION: u32 = 0x8008_7601;
/// Bytes of `struct fsxattr`, which begins with the flags.
const XFLAGS_BYTES: usize = 28;

/// Each flag with its bit in `FS_IOC_SETFLAGS` and in `FS_IOC_FSSETXATTR`; 0 if that ioctl does not have the flag.
const CODES: [(FileFlags, u32, u32); 6] = [
    (FileFlags::SYNC, 0x8, 0x20),
    (FileFlags::IMMUTABLE, 0x10, 0x8),
    (FileFlags::APPEND_ONLY, 0x20, 0x10),
    (FileFlags::NO_DUMP, 0x40, 0x80),
    (FileFlags::NO_ACCESS_TIME, 0x80, 0x40),
    (FileFlags::SYNC_NAMES, 0x1_0000, 0),
];

/// Returns true if an ioctl reads or sets flags.
pub(crate) fn is_about_flags(command: u32) -> bool {
    let all = [GET_FLAGS, SET_FLAGS, GET_XFLAGS, SET_XFLAGS, GET_VERSION];
    all.contains(&command)
}

fn encode(flags: FileFlags, code: impl Fn(&(FileFlags, u32, u32)) -> u32) -> u32 {
    let set = CODES.iter().filter(|(flag, ..)| flags.has(*flag));
    set.map(code).fold(0, |all, one| all | one)
}

/// Decodes flags. `None` if a flag is unknown.
fn decode(bits: u32, code: impl Fn(&(FileFlags, u32, u32)) -> u32) -> Option<FileFlags> {
    let known = CODES.iter().fold(0, |all, one| all | code(one));
    let set = CODES.iter().filter(|one| bits & code(one) != 0);
    let flags = set.fold(FileFlags::default(), |all, (flag, ..)| all.with(*flag));
    (bits & !known == 0).then_some(flags)
}

/// Returns the number at the beginning of an argument.
fn number(data: &[u8]) -> Option<u32> {
    let bytes = data.get(..4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// Returns the flags that an ioctl sets on a file.
fn wanted(asked: &FuseIoctl, inode: &Inode) -> std::result::Result<FileFlags, i32> {
    let bits = number(&asked.data).ok_or(libc::EINVAL)?;
    let flags = if asked.command == SET_FLAGS {
        decode(bits, |one| one.1)
    } else {
        // The rest are extent sizes and project numbers, which this filesystem does not have.
        let has_more = !is_zero(&asked.data[4..]);
        let flags = decode(bits, |one| one.2).filter(|_| !has_more);
        flags.map(|flags| {
            if inode.flags.has(FileFlags::SYNC_NAMES) {
                flags.with(FileFlags::SYNC_NAMES)
            } else {
                flags
            }
        })
    };
    let flags = flags.ok_or(libc::EOPNOTSUPP)?;
    if flags.of_kind(inode.kind) == flags {
        Ok(flags)
    } else {
        Err(libc::EOPNOTSUPP)
    }
}

impl MountedFiles {
    /// Answers an ioctl that reads or sets flags.
    pub(crate) async fn on_flags(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        asked: &FuseIoctl,
        inode: &Inode,
    ) -> IoctlResult {
        if !matches!(inode.kind, FileKind::Regular | FileKind::Directory) {
            return Err(libc::ENOTTY.into());
        }
        match asked.command {
            GET_FLAGS => Ok(encode(inode.flags, |one| one.1).to_ne_bytes().to_vec()),
            GET_XFLAGS => {
                let mut out = vec![0; XFLAGS_BYTES];
                out[..4].copy_from_slice(&encode(inode.flags, |one| one.2).to_ne_bytes());
                Ok(out)
            }
            GET_VERSION => Ok((inode.generation as u32).to_ne_bytes().to_vec()),
            _ => {
                let flags = wanted(asked, inode)?;
                if flags.has(FileFlags::PROTECT) {
                    // Stores to mapped memory before this call must reach the file before the flag protects it.
                    let all = StaleCache {
                        node: request.node,
                        bytes: Some(0..i64::MAX as u64),
                    };
                    self.write_back(underway, &[all]).await;
                }
                self.fs.set_flags(request.node, |_| Ok(flags)).await?;
                // The kernel does not expect the call to change a time of the file.
                underway.forget(&[attributes_of(request.node)]).await;
                Ok(Vec::new())
            }
        }
    }

    /// Checks that a file may be opened with these flags of `open`.
    ///
    /// # Errors
    /// If the file is protected against the operations that the flags allow.
    pub(crate) fn may_open(&self, file: u64, flags: u32) -> Result<()> {
        let (protect, flags) = (self.fs.flags(file), flags.cast_signed());
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let rewrites = writes && flags & libc::O_APPEND == 0 || flags & libc::O_TRUNC != 0;
        let is_refused = writes && protect.has(FileFlags::IMMUTABLE)
            || rewrites && protect.has(FileFlags::APPEND_ONLY);
        if is_refused {
            return Err(FsError::Protected);
        }
        Ok(())
    }

    /// Checks that a write through an open file is allowed: in an append-only file, only at its end. Programs can clear
    /// `O_APPEND` of an open file, and can write without it (`RWF_NOAPPEND`). A file that was opened for other writes
    /// before it became append-only may be written, as on ext4.
    ///
    /// # Errors
    /// If the write is not allowed.
    pub(crate) async fn may_write(&self, request: &FuseRequest, at: u64) -> Result<()> {
        let file = request.node;
        if !appends(request.handle) || !self.fs.flags(file).has(FileFlags::APPEND_ONLY) {
            return Ok(());
        }
        if at >= self.fs.inode(file).await?.size || self.appends_anew(file, request.file_flags) {
            Ok(())
        } else {
            Err(FsError::Protected)
        }
    }

    /// Returns true if changes of the names in a directory are durable when they are answered.
    pub(crate) fn keeps_names(&self, directory: u64) -> bool {
        let sync = FileFlags::SYNC.with(FileFlags::SYNC_NAMES);
        self.fs.flags(directory).has(sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flag_ioctls_encode_the_same_flags() {
        for (flag, bits, more) in CODES {
            assert_eq!(encode(flag, |one| one.1), bits);
            assert_eq!(decode(bits, |one| one.1), Some(flag));
            if more != 0 {
                assert_eq!(decode(more, |one| one.2), Some(flag));
            }
        }
        // FS_NOCOW_FL, FS_XFLAG_EXTSIZE
        assert_eq!(decode(0x80_0000, |one| one.1), None);
        assert_eq!(decode(0x800, |one| one.2), None);
    }
}
