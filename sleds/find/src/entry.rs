//! A file that the walk has come to.

use std::cell::{Cell, OnceCell};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags};
use rustix::io::Errno;

/// A moment: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Moment {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// Which of a file's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Clock {
    Access,
    Birth,
    Change,
    Modification,
}

/// A file that the walk has come to. What its status says is asked for when first needed, because
/// most expressions look at the name alone.
pub(super) struct Entry<'a> {
    /// The name to print.
    pub(super) path: &'a [u8],
    /// The directory in which `name` is looked up.
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    /// 0 for a starting point.
    pub(super) depth: usize,
    /// Length of the starting point, which `path` begins with.
    pub(super) start_len: usize,
    /// Whether a symbolic link stands for what it points to.
    pub(super) follow: bool,
    /// What the directory said, if it did.
    pub(super) kind: Cell<Option<FileType>>,
    pub(super) stat: OnceCell<Result<Stat, Errno>>,
    /// Whether the user was told that the status cannot be had.
    pub(super) complained: Cell<bool>,
}

impl<'a> Entry<'a> {
    /// Its status; of a link that is followed and leads nowhere, that of the link.
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

    /// What kind of file it is.
    pub(super) fn kind(&self) -> Result<FileType, Errno> {
        match self.kind.get() {
            Some(kind) => Ok(kind),
            None => self
                .stat()
                .map(|stat| FileType::from_raw_mode(stat.st_mode)),
        }
    }

    /// One of its times; `None` if the filesystem does not keep it.
    pub(super) fn time(&self, clock: Clock) -> Result<Option<Moment>, Errno> {
        if clock == Clock::Birth {
            return self.birth();
        }
        self.stat().map(|stat| Some(time_of(stat, clock)))
    }

    fn birth(&self) -> Result<Option<Moment>, Errno> {
        let flags = if self.follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        birth_at(self.dir, self.name, flags)
    }

    /// Where a symbolic link points; `None` if it is none.
    pub(super) fn link(&self) -> Result<Option<Vec<u8>>, Errno> {
        if self.kind()? != FileType::Symlink {
            return Ok(None);
        }
        rustix::fs::readlinkat(self.dir, self.name, Vec::new())
            .map(|target| Some(target.into_bytes()))
    }
}

/// A time that a status has, which is every one but that of birth.
pub(super) fn time_of(stat: &Stat, clock: Clock) -> Moment {
    let (seconds, nanos) = match clock {
        Clock::Access => (stat.st_atime, stat.st_atime_nsec),
        Clock::Change => (stat.st_ctime, stat.st_ctime_nsec),
        Clock::Birth | Clock::Modification => (stat.st_mtime, stat.st_mtime_nsec),
    };
    Moment {
        seconds,
        nanos: nanos as i64,
    }
}

/// When the file was made, if its filesystem knows.
pub(super) fn birth_at(
    dir: BorrowedFd<'_>,
    name: &CStr,
    flags: AtFlags,
) -> Result<Option<Moment>, Errno> {
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::BTIME)?;
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(known.then_some(Moment {
        seconds: found.stx_btime.tv_sec,
        nanos: i64::from(found.stx_btime.tv_nsec),
    }))
}

/// The status of a file; of a link that is followed and leads nowhere, that of the link.
pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> Result<Stat, Errno> {
    if follow {
        match rustix::fs::statat(dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
    }
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The letter of a kind of file, as `-type` and `%y` have it.
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

/// `path` without the slashes at its end; one that has nothing else keeps the first.
pub(super) fn trim_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(1, |n| n + 1);
    &path[..end.min(path.len())]
}

/// The last part of `path`; of slashes at the end, one is kept.
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

/// What stands before the last part of `path`, without the slash between; `.` if there is nothing.
/// As in GNU find, the last part is what follows the last slash if all before it is one character.
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
