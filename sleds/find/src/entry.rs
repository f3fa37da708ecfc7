//! A file that the walk has reached.

use std::cell::{Cell, OnceCell};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags};
use rustix::io::Errno;

/// A moment: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct UnixTime {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// Selection of one of a file's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimestampKind {
    Access,
    Birth,
    Change,
    Modification,
}

/// A file that the walk has reached. Its status is queried on first use, because most expressions look only at the
/// name.
pub(super) struct VisitedFile<'a> {
    /// Name to print.
    pub(super) path: &'a [u8],
    /// Directory in which `name` is looked up.
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    /// Depth below the starting point; 0 for a starting point.
    pub(super) depth: usize,
    /// Length of the starting point, which `path` begins with.
    pub(super) start_len: usize,
    /// True if a symbolic link stands for its target.
    pub(super) follow: bool,
    /// Type that the directory reported, if any.
    pub(super) kind: Cell<Option<FileType>>,
    pub(super) stat: OnceCell<Result<Stat, Errno>>,
    /// True if the error of the status query was reported.
    pub(super) complained: Cell<bool>,
}

impl VisitedFile<'_> {
    /// Returns the status. For a followed link without a target, returns the status of the link.
    pub(super) fn stat(&self) -> Result<&Stat, Errno> {
        self.stat
            .get_or_init(|| {
                let stat = stat_at(self.dir, self.name, self.follow)?;
                self.kind.set(Some(FileType::from_raw_mode(stat.st_mode)));
                Ok(stat)
            })
            .as_ref()
            .map_err(|errno| *errno)
    }

    /// Returns the type of the file.
    pub(super) fn kind(&self) -> Result<FileType, Errno> {
        match self.kind.get() {
            Some(kind) => Ok(kind),
            None => self
                .stat()
                .map(|stat| FileType::from_raw_mode(stat.st_mode)),
        }
    }

    /// Returns one of the file's times; `None` if the filesystem does not keep it.
    pub(super) fn time(&self, clock: TimestampKind) -> Result<Option<UnixTime>, Errno> {
        if clock == TimestampKind::Birth {
            return self.birth();
        }
        self.stat().map(|stat| Some(time_of(stat, clock)))
    }

    fn birth(&self) -> Result<Option<UnixTime>, Errno> {
        let flags = if self.follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        birth_at(self.dir, self.name, flags)
    }

    /// Returns the target of a symbolic link; `None` for other files.
    pub(super) fn link(&self) -> Result<Option<Vec<u8>>, Errno> {
        if self.kind()? != FileType::Symlink {
            return Ok(None);
        }
        rustix::fs::readlinkat(self.dir, self.name, Vec::new())
            .map(|target| Some(target.into_bytes()))
    }
}

/// Returns a time from a status. A status has no time of birth.
pub(super) fn time_of(stat: &Stat, clock: TimestampKind) -> UnixTime {
    let (seconds, nanos) = match clock {
        TimestampKind::Access => (stat.st_atime, stat.st_atime_nsec),
        TimestampKind::Change => (stat.st_ctime, stat.st_ctime_nsec),
        TimestampKind::Birth | TimestampKind::Modification => (stat.st_mtime, stat.st_mtime_nsec),
    };
    UnixTime {
        seconds,
        nanos: nanos as i64,
    }
}

/// Returns the time of birth of a file, if its filesystem keeps it.
pub(super) fn birth_at(
    dir: BorrowedFd<'_>,
    name: &CStr,
    flags: AtFlags,
) -> Result<Option<UnixTime>, Errno> {
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::BTIME)?;
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(known.then_some(UnixTime {
        seconds: found.stx_btime.tv_sec,
        nanos: i64::from(found.stx_btime.tv_nsec),
    }))
}

/// Returns the status of a file. For a followed link without a target, returns the status of the link.
pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> Result<Stat, Errno> {
    if follow {
        match rustix::fs::statat(dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
    }
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the letter of a file type, as in `-type` and `%y`.
pub(super) fn kind_letter(kind: FileType) -> u8 {
    match kind {
        FileType::RegularFile => b'f',
        FileType::Directory => b'd',
        FileType::Symlink => b'l',
        FileType::BlockDevice => b'b',
        FileType::CharacterDevice => b'c',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
        FileType::Unknown => b'U',
    }
}

/// Removes the trailing slashes of `path`. A path of slashes only keeps the first.
pub(super) fn trim_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(1, |n| n + 1);
    &path[..end.min(path.len())]
}

/// Returns the last component of `path`, with at most one trailing slash.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    let trimmed = trim_slashes(path);
    if trimmed == b"/" {
        return trimmed;
    }
    let start = trimmed
        .iter()
        .rposition(|b| *b == b'/')
        .map_or(0, |n| n + 1);
    &path[start..path.len().min(trimmed.len() + 1)]
}

/// Returns the part before the last component of `path`, without the slash between them; `.` if that part is empty. As
/// in GNU find, if the path without trailing slashes is one character, the last component is the text after the last
/// slash.
pub(super) fn dir_name(path: &[u8]) -> &[u8] {
    let path = match trim_slashes(path) {
        [] | [_] => path,
        trimmed => trimmed,
    };
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => &path[..slash],
        None => b".",
    }
}
