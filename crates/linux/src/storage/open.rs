//! Opens a path as a device, or returns the exact reason why it cannot.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use forebay_device::Device;
use forebay_units::{SECTOR_BYTES, round_down};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::disk::{BlockDevice, DeviceCore, FileDevice};
use super::identity::{DeviceIdentity, DeviceKind, identity};
use super::probe::{self, DeviceProbe};
use super::small_blocks::SmallBlocks;
use super::sysfs::DevNumber;
use super::{DeviceOpenError, busy, error::DeviceUsers, sysfs};
use crate::sys::ForeignLock;
use crate::{IoRing, sys};

/// Longest wait for a device that is in use without a visible user. A killed process leaves this state: its requests
/// keep their files open and locked until the kernel has finished them, which takes long on a slow disk. Requests of
/// this process do the same after they complete.
const NOBODY_MAX: Duration = Duration::from_secs(60);
/// Longest wait for a process that only reads the device.
const READERS_MAX: Duration = Duration::from_secs(60);
/// Time after which a wait is logged.
const NOBODY_SAID: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Number of attempts to take a lock when the conflicting lock disappears before its kind is known.
const LOCK_TRIES: u32 = 100;

/// Options for opening a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceOpenOptions {
    /// Opens for reading only, which is also possible while a block device is mounted. Several readers may share a
    /// device, but not with a writer that holds the lock.
    pub read_only: bool,
    /// Uses blocks of 512 bytes even if the device or its filesystem accepts only larger blocks, for data that was
    /// stored while it accepted them. A write of a part of a larger block first reads the block.
    pub small_blocks: bool,
    /// Waits up to a limit if another process only reads the device, as `forebay check` does. A monitoring job must not
    /// prevent a volume from being attached.
    pub outlast_readers: bool,
}

impl DeviceOpenOptions {
    /// Returns the options for opening existing data, in blocks of any size.
    pub fn existing() -> DeviceOpenOptions {
        DeviceOpenOptions {
            small_blocks: true,
            ..DeviceOpenOptions::default()
        }
    }

    /// Returns the options with waiting for other processes that only read the device.
    #[must_use]
    pub fn outlasting_readers(self) -> DeviceOpenOptions {
        DeviceOpenOptions {
            outlast_readers: true,
            ..self
        }
    }

    /// Returns the options for reading only.
    #[must_use]
    pub fn for_reading(self) -> DeviceOpenOptions {
        DeviceOpenOptions {
            read_only: true,
            ..self
        }
    }
}

/// An open device. It is closed and unlocked when the last share of `device` is dropped.
pub struct LockedDevice {
    /// The device.
    pub device: Rc<dyn Device>,
    /// Identity of the device.
    pub identity: DeviceIdentity,
}

/// Opens the regular file or block device at `path` for direct I/O on `ring`. While it is open for writing, other
/// processes that use the same protection cannot open it.
///
/// # Errors
/// See [`DeviceOpenError`]; each says what to do about it.
pub fn open(
    ring: &Rc<IoRing>,
    path: impl AsRef<Path>,
    options: DeviceOpenOptions,
) -> Result<LockedDevice, DeviceOpenError> {
    let asked = OpenRequest {
        path: path.as_ref().to_owned(),
        read_only: options.read_only,
        small_blocks: options.small_blocks,
        outlast_readers: options.outlast_readers,
    };
    let canonical = fs::canonicalize(&asked.path).map_err(|e| asked.refused(e, "looking it up"))?;
    let metadata = fs::metadata(&canonical).map_err(|e| asked.refused(e, "looking it up"))?;
    let device = match asked.kind_of(&metadata)? {
        DeviceKind::File => {
            let (fd, probed) = asked.patiently(ring, || asked.open_file(&canonical, &metadata))?;
            asked.file(ring, fd, probed)?
        }
        DeviceKind::Block => {
            let (fd, probed) = asked.patiently(ring, || asked.open_block(&canonical, &metadata))?;
            let core = DeviceCore::new(ring, fd, probed, asked.read_only);
            asked.in_small_blocks(Rc::new(BlockDevice::new(core)), None)
        }
    };
    let identity = identity(&canonical).map_err(|e| asked.refused(e, "identifying it"))?;
    Ok(LockedDevice { device, identity })
}

/// The request, for the text of errors.
struct OpenRequest {
    path: PathBuf,
    read_only: bool,
    small_blocks: bool,
    outlast_readers: bool,
}

impl OpenRequest {
    /// Retries `open` while the device is in use without a visible user, or only by a reader that can be waited for.
    fn patiently<T>(
        &self,
        ring: &IoRing,
        open: impl Fn() -> Result<T, DeviceOpenError>,
    ) -> Result<T, DeviceOpenError> {
        let begun = Instant::now();
        let mut said = false;
        loop {
            let done = open();
            let waited = begun.elapsed();
            let (why, most) = match &done {
                Err(
                    DeviceOpenError::InUse { users, .. } | DeviceOpenError::Locked { users, .. },
                ) if users.0.is_empty() => {
                    let why = "in use, but by no visible process: waiting for the requests of a killed process";
                    (why, NOBODY_MAX)
                }
                Err(DeviceOpenError::Locked { reads: true, .. }) if self.outlast_readers => (
                    "another process reads it: waiting until that process is done",
                    READERS_MAX,
                ),
                _ => return done,
            };
            if waited >= most {
                return done;
            }
            if waited > NOBODY_SAID && !said {
                said = true;
                tracing::warn!(path = %self.path.display(), "{why}, up to {most:?}");
            }
            ring.let_finish(LOOK_EVERY);
        }
    }

    fn kind_of(&self, metadata: &fs::Metadata) -> Result<DeviceKind, DeviceOpenError> {
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
        Err(DeviceOpenError::NotStorage {
            path: self.path.clone(),
            what,
        })
    }

    fn open_file(
        &self,
        canonical: &Path,
        metadata: &fs::Metadata,
    ) -> Result<(OwnedFd, DeviceProbe), DeviceOpenError> {
        self.no_loop_over(metadata)?;
        let (fd, direct) = self.open_direct_if_possible(canonical)?;
        // Metadata of the open file, since the path may refer to another file by now.
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|e| self.refused(e, "stat"))?;
        self.lock(&file, |ours| busy::users_of_file(&metadata, ours))?;
        let probed = probe::file(file.as_fd(), &metadata, direct, !self.read_only);
        self.check(&probed, DeviceKind::File)?;
        Ok((file.into(), probed))
    }

    /// Returns the file as a device.
    fn file(
        &self,
        ring: &Rc<IoRing>,
        fd: OwnedFd,
        mut probed: DeviceProbe,
    ) -> Result<Rc<dyn Device>, DeviceOpenError> {
        let (len, block) = (probed.geometry.len, probed.geometry.block_size);
        let whole = round_down(len, block.into());
        let device = |fd, probed| -> Rc<dyn Device> {
            let core = DeviceCore::new(ring, fd, probed, self.read_only);
            Rc::new(FileDevice::new(core))
        };
        let rest = if whole < len {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let cached = rustix::fs::open(path, self.flags(), Mode::empty())
                .map_err(|errno| self.refused(errno.into(), "opening it for its last bytes"))?;
            Some(device(cached, probed.through_the_page_cache()))
        } else {
            None
        };
        probed.geometry.len = whole;
        Ok(self.in_small_blocks(device(fd, probed), rest))
    }

    fn in_small_blocks(
        &self,
        device: Rc<dyn Device>,
        rest: Option<Rc<dyn Device>>,
    ) -> Rc<dyn Device> {
        let large = u64::from(device.geometry().block_size) > SECTOR_BYTES;
        if !self.small_blocks || !large {
            return device;
        }
        Rc::new(SmallBlocks::new(device, rest))
    }

    fn open_direct_if_possible(
        &self,
        canonical: &Path,
    ) -> Result<(OwnedFd, bool), DeviceOpenError> {
        match rustix::fs::open(canonical, self.flags() | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) if probe::does_direct_io(fd.as_fd()) => return Ok((fd, true)),
            Ok(_) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(self.open_failed(errno, DeviceUsers::default)),
        }
        tracing::warn!(
            path = %self.path.display(),
            "the filesystem does no direct I/O (O_DIRECT); going through the page cache, which is \
             slower and uses memory twice"
        );
        match rustix::fs::open(canonical, self.flags(), Mode::empty()) {
            Ok(fd) => Ok((fd, false)),
            Err(errno) => Err(self.open_failed(errno, DeviceUsers::default)),
        }
    }

    /// Refuses a backing file of a loop device. The kernel allows a loop device over storage that another process
    /// writes to: it ignores locks as well as claims on a block device.
    fn no_loop_over(&self, metadata: &fs::Metadata) -> Result<(), DeviceOpenError> {
        match sysfs::loop_over(metadata) {
            Some((name, number)) if !self.read_only => Err(DeviceOpenError::BacksLoop {
                path: self.path.clone(),
                loop_device: format!("/dev/{name}"),
                users: busy::users_of_device(number, 0),
            }),
            _ => Ok(()),
        }
    }

    fn open_block(
        &self,
        canonical: &Path,
        metadata: &fs::Metadata,
    ) -> Result<(OwnedFd, DeviceProbe), DeviceOpenError> {
        let number = DevNumber(metadata.rdev());
        if !self.read_only && number.is_read_only() {
            return Err(self.open_failed(Errno::ROFS, DeviceUsers::default));
        }
        self.no_loop_over(metadata)?;
        let mut flags = self.flags() | OFlags::DIRECT;
        if !self.read_only {
            // On a block device: fails if it is mounted or claimed, and claims it.
            flags |= OFlags::EXCL;
        }
        let users = |ours| busy::users_of_device(number, ours);
        let fd = rustix::fs::open(canonical, flags, Mode::empty())
            .map_err(|errno| self.open_failed(errno, || users(0)))?;
        self.lock(&fd, users)?;
        let probed = probe::block(fd.as_fd(), number)
            .map_err(|errno| self.refused(errno.into(), "querying its size"))?;
        self.check(&probed, DeviceKind::Block)?;
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

    fn lock(
        &self,
        fd: impl AsFd,
        users: impl Fn(usize) -> DeviceUsers,
    ) -> Result<(), DeviceOpenError> {
        let fd = fd.as_fd();
        // A lock may disappear between the refusal and the query for its kind: then the lock is tried again. A lock
        // that keeps appearing and disappearing is treated as a reader's.
        let mut foreign = ForeignLock::Shared;
        for _ in 0..LOCK_TRIES {
            match sys::lock_file(fd, self.read_only) {
                // fcntl may return either error when another process holds the lock.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                }
                result => return result.map_err(|e| self.refused(e, "locking it")),
            }
            // Queried before the search for users, which takes so long that the lock may be gone by then.
            let asked = sys::foreign_lock(fd, self.read_only);
            if let Some(found) =
                asked.map_err(|e| self.refused(e, "querying the holder of its lock"))?
            {
                foreign = found;
                break;
            }
        }
        Err(DeviceOpenError::Locked {
            path: self.path.clone(),
            // The descriptor opened above counts as a user, too.
            users: users(1),
            reads: !self.read_only && foreign == ForeignLock::Shared,
        })
    }

    fn check(&self, probed: &DeviceProbe, kind: DeviceKind) -> Result<(), DeviceOpenError> {
        let path = || self.path.clone();
        let (len, block_size) = (probed.geometry.len, probed.geometry.block_size);
        if block_size != 512 && block_size != 4096 {
            let path = path();
            return Err(DeviceOpenError::BlockSize { path, block_size });
        }
        if len == 0 {
            let path = path();
            return Err(match kind {
                DeviceKind::File => DeviceOpenError::Empty { path },
                DeviceKind::Block => DeviceOpenError::NoMedium { path },
            });
        }
        let whole = if self.small_blocks {
            SECTOR_BYTES
        } else {
            block_size.into()
        };
        if !len.is_multiple_of(whole) {
            return Err(DeviceOpenError::NotWholeBlocks {
                path: path(),
                len,
                block_size,
            });
        }
        Ok(())
    }

    fn open_failed(&self, errno: Errno, users: impl Fn() -> DeviceUsers) -> DeviceOpenError {
        let path = self.path.clone();
        match errno {
            Errno::BUSY => DeviceOpenError::InUse {
                path,
                users: users(),
            },
            Errno::TXTBSY => DeviceOpenError::InUse {
                path,
                users: DeviceUsers(vec!["as swap, or as a running program".into()]),
            },
            Errno::ROFS => DeviceOpenError::ReadOnly {
                what: match fs::metadata(&path) {
                    Ok(m) if m.file_type().is_block_device() => "the device",
                    _ => "its filesystem",
                },
                path,
            },
            // A device number without a driver or a device, or an empty drive.
            Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => DeviceOpenError::NoMedium {
                path: self.path.clone(),
            },
            errno => self.refused(errno.into(), "open"),
        }
    }

    fn refused(&self, source: io::Error, action: &'static str) -> DeviceOpenError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                DeviceOpenError::Missing { path }
            }
            io::ErrorKind::PermissionDenied => DeviceOpenError::Denied {
                path,
                read_only: self.read_only,
            },
            _ => DeviceOpenError::Io {
                path,
                action,
                source,
            },
        }
    }
}
