//! Opening a path as a device, or saying exactly why not.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use forebay_device::Device;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::disk::{BlockDevice, Core, FileDevice};
use super::identity::{DeviceIdentity, DeviceKind, identity};
use super::probe::{self, Probed};
use super::sysfs::DevNumber;
use super::{OpenError, busy, error::Users, sysfs};
use crate::{Ring, sys};

/// How long to wait for a device that is in use by nobody who can be seen. That is what a process
/// leaves behind that was killed: its requests keep what they are about open, and locked, until the
/// kernel is done with them. So do our own, after they complete.
const NOBODY_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How to open a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// For looking only, which is also possible while a block device is mounted. Several may look
    /// at once; none while somebody here writes.
    pub read_only: bool,
}

/// A device that is open. Closed, and unlocked, when the last share of `device` is dropped.
pub struct Opened {
    /// The device.
    pub device: Rc<dyn Device>,
    /// Who it is.
    pub identity: DeviceIdentity,
}

/// Opens the regular file or block device at `path` for direct I/O on `ring`, for nobody else's use
/// while it is open for writing.
///
/// # Errors
/// See [`OpenError`]; each says what to do about it.
pub fn open(
    ring: &Rc<Ring>,
    path: impl AsRef<Path>,
    options: OpenOptions,
) -> Result<Opened, OpenError> {
    let asked = Asked {
        path: path.as_ref().to_owned(),
        read_only: options.read_only,
    };
    let canonical = fs::canonicalize(&asked.path).map_err(|e| asked.refused(e, "looking it up"))?;
    let metadata = fs::metadata(&canonical).map_err(|e| asked.refused(e, "looking it up"))?;
    let device: Rc<dyn Device> = match asked.kind_of(&metadata)? {
        DeviceKind::File => {
            let (fd, probed) = patiently(ring, || asked.open_file(&canonical, &metadata))?;
            Rc::new(FileDevice::new(Core::new(
                ring,
                fd,
                probed,
                asked.read_only,
            )))
        }
        DeviceKind::Block => {
            let (fd, probed) = patiently(ring, || asked.open_block(&canonical, &metadata))?;
            Rc::new(BlockDevice::new(Core::new(
                ring,
                fd,
                probed,
                asked.read_only,
            )))
        }
    };
    let identity = identity(&canonical).map_err(|e| asked.refused(e, "identifying it"))?;
    Ok(Opened { device, identity })
}

/// Tries `open` until the device is not in use, or in use by somebody who can be seen.
fn patiently<T>(ring: &Ring, open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let until = Instant::now() + NOBODY_MAX;
    loop {
        match open() {
            Err(OpenError::InUse { users, .. } | OpenError::Locked { users, .. })
                if users.0.is_empty() && Instant::now() < until =>
            {
                ring.let_finish(LOOK_EVERY);
            }
            done => return done,
        }
    }
}

/// What was asked for, to word the errors.
struct Asked {
    path: PathBuf,
    read_only: bool,
}

impl Asked {
    fn kind_of(&self, metadata: &fs::Metadata) -> Result<DeviceKind, OpenError> {
        let kind = metadata.file_type();
        let what = if kind.is_file() {
            return Ok(DeviceKind::File);
        } else if kind.is_block_device() {
            return Ok(DeviceKind::Block);
        } else if kind.is_dir() {
            "a directory"
        } else if kind.is_char_device() {
            "a character device"
        } else if kind.is_fifo() {
            "a pipe"
        } else {
            "a socket"
        };
        Err(OpenError::NotStorage {
            path: self.path.clone(),
            what,
        })
    }

    fn open_file(
        &self,
        canonical: &Path,
        metadata: &fs::Metadata,
    ) -> Result<(OwnedFd, Probed), OpenError> {
        if !self.read_only
            && let Some((name, number)) = sysfs::loop_over(metadata)
        {
            return Err(OpenError::BacksLoop {
                path: self.path.clone(),
                loop_device: format!("/dev/{name}"),
                users: busy::users_of_device(number, 0),
            });
        }
        let (fd, direct) = self.open_direct_if_possible(canonical)?;
        // Of what is open now, not of what was there before.
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|e| self.refused(e, "stat"))?;
        self.lock(&file, |ours| busy::users_of_file(&metadata, ours))?;
        let probed = probe::file(file.as_fd(), &metadata, direct, !self.read_only);
        self.check(&probed)?;
        Ok((file.into(), probed))
    }

    fn open_direct_if_possible(&self, canonical: &Path) -> Result<(OwnedFd, bool), OpenError> {
        match rustix::fs::open(canonical, self.flags() | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) if probe::does_direct_io(fd.as_fd()) => return Ok((fd, true)),
            Ok(_) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(self.open_failed(errno, Users::default)),
        }
        tracing::warn!(
            path = %self.path.display(),
            "the filesystem does no direct I/O (O_DIRECT); going through the page cache, which is \
             slower and uses memory twice"
        );
        match rustix::fs::open(canonical, self.flags(), Mode::empty()) {
            Ok(fd) => Ok((fd, false)),
            Err(errno) => Err(self.open_failed(errno, Users::default)),
        }
    }

    fn open_block(
        &self,
        canonical: &Path,
        metadata: &fs::Metadata,
    ) -> Result<(OwnedFd, Probed), OpenError> {
        let number = DevNumber(metadata.rdev());
        if !self.read_only && number.is_read_only() {
            return Err(self.open_failed(Errno::ROFS, Users::default));
        }
        let mut flags = self.flags() | OFlags::DIRECT;
        if !self.read_only {
            // On a block device: fail if mounted or claimed, and claim it.
            flags |= OFlags::EXCL;
        }
        let users = |ours| busy::users_of_device(number, ours);
        let fd = rustix::fs::open(canonical, flags, Mode::empty())
            .map_err(|errno| self.open_failed(errno, || users(0)))?;
        self.lock(&fd, users)?;
        let probed = probe::block(fd.as_fd(), number)
            .map_err(|errno| self.refused(errno.into(), "asking for its size"))?;
        self.check(&probed)?;
        Ok((fd, probed))
    }

    fn flags(&self) -> OFlags {
        let access = if self.read_only {
            OFlags::RDONLY
        } else {
            OFlags::RDWR
        };
        access | OFlags::CLOEXEC
    }

    fn lock(&self, fd: impl AsFd, users: impl Fn(usize) -> Users) -> Result<(), OpenError> {
        match sys::lock_file(fd.as_fd(), self.read_only) {
            // fcntl may say either when another holds it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                Err(OpenError::Locked {
                    path: self.path.clone(),
                    // The descriptor we just opened makes us one of them.
                    users: users(1),
                })
            }
            result => result.map_err(|e| self.refused(e, "locking it")),
        }
    }

    fn check(&self, probed: &Probed) -> Result<(), OpenError> {
        let path = || self.path.clone();
        let (len, block_size) = (probed.geometry.len, probed.geometry.block_size);
        if block_size != 512 && block_size != 4096 {
            let path = path();
            return Err(OpenError::BlockSize { path, block_size });
        }
        if len == 0 {
            return Err(OpenError::Empty { path: path() });
        }
        if !len.is_multiple_of(block_size.into()) {
            return Err(OpenError::NotWholeBlocks {
                path: path(),
                len,
                block_size,
            });
        }
        Ok(())
    }

    fn open_failed(&self, errno: Errno, users: impl Fn() -> Users) -> OpenError {
        let path = self.path.clone();
        match errno {
            Errno::BUSY => OpenError::InUse {
                path,
                users: users(),
            },
            Errno::TXTBSY => OpenError::InUse {
                path,
                users: Users(vec!["as swap, or as a running program".into()]),
            },
            Errno::ROFS => OpenError::ReadOnly {
                what: match fs::metadata(&path) {
                    Ok(m) if m.file_type().is_block_device() => "the device",
                    _ => "its filesystem",
                },
                path,
            },
            errno => self.refused(errno.into(), "open"),
        }
    }

    fn refused(&self, source: io::Error, action: &'static str) -> OpenError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::Missing { path },
            io::ErrorKind::PermissionDenied => OpenError::Denied {
                path,
                read_only: self.read_only,
            },
            _ => OpenError::Io {
                path,
                action,
                source,
            },
        }
    }
}
