//! Opening a path as a device, or saying exactly why not.

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

use super::disk::{BlockDevice, Core, FileDevice};
use super::identity::{DeviceIdentity, DeviceKind, identity};
use super::probe::{self, Probed};
use super::small_blocks::SmallBlocks;
use super::sysfs::DevNumber;
use super::{OpenError, busy, error::Users, sysfs};
use crate::sys::ForeignLock;
use crate::{Ring, sys};

/// How long to wait for a device that is in use by nobody who can be seen. That is what a process
/// leaves behind that was killed: its requests keep what they are about open, and locked, until the
/// kernel is done with them, which on a slow disk takes long. So do our own, after they complete.
const NOBODY_MAX: Duration = Duration::from_secs(60);
/// How long to wait for a process that only reads the device.
const READERS_MAX: Duration = Duration::from_secs(60);
/// After how long that is said.
const NOBODY_SAID: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The number of times that a lock is tried when the one in its way is gone before its kind is known.
const LOCK_TRIES: u32 = 100;

/// How to open a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// For looking only, which is also possible while a block device is mounted. Several may look
    /// at once; none while somebody here writes.
    pub read_only: bool,
    /// Blocks of 512 bytes, also where the device or its filesystem takes larger ones only: for what
    /// was stored in such blocks when it still took them. A write of a part of a larger block reads
    /// the block before.
    pub small_blocks: bool,
    /// Waits for a while if another process only reads the device, as `forebay check` does: a monitoring job must not
    /// keep a volume from being attached.
    pub outlast_readers: bool,
}

impl OpenOptions {
    /// To go on with what was stored there before, in blocks of whatever size.
    pub fn existing() -> OpenOptions {
        OpenOptions {
            small_blocks: true,
            ..OpenOptions::default()
        }
    }

    /// The same, for who can wait for another process that only reads the device.
    #[must_use]
    pub fn outlasting_readers(self) -> OpenOptions {
        OpenOptions {
            outlast_readers: true,
            ..self
        }
    }

    /// The same, for looking only.
    #[must_use]
    pub fn for_reading(self) -> OpenOptions {
        OpenOptions {
            read_only: true,
            ..self
        }
    }
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
            let core = Core::new(ring, fd, probed, asked.read_only);
            asked.in_small_blocks(Rc::new(BlockDevice::new(core)), None)
        }
    };
    let identity = identity(&canonical).map_err(|e| asked.refused(e, "identifying it"))?;
    Ok(Opened { device, identity })
}

/// What was asked for, to word the errors.
struct Asked {
    path: PathBuf,
    read_only: bool,
    small_blocks: bool,
    outlast_readers: bool,
}

impl Asked {
    /// Tries `open` until the device is not in use, or in use by somebody who can be seen.
    fn patiently<T>(
        &self,
        ring: &Ring,
        open: impl Fn() -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let begun = Instant::now();
        let mut said = false;
        loop {
            let done = open();
            let waited = begun.elapsed();
            let (why, most) = match &done {
                Err(OpenError::InUse { users, .. } | OpenError::Locked { users, .. })
                    if users.0.is_empty() =>
                {
                    let why = "in use, and by nobody who can be seen: waiting for requests of a process that was killed";
                    (why, NOBODY_MAX)
                }
                Err(OpenError::Locked { reads: true, .. }) if self.outlast_readers => {
                    ("another process reads it: waiting for that", READERS_MAX)
                }
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
        self.no_loop_over(metadata)?;
        let (fd, direct) = self.open_direct_if_possible(canonical)?;
        // Of what is open now, not of what was there before.
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|e| self.refused(e, "stat"))?;
        self.lock(&file, |ours| busy::users_of_file(&metadata, ours))?;
        let probed = probe::file(file.as_fd(), &metadata, direct, !self.read_only);
        self.check(&probed)?;
        Ok((file.into(), probed))
    }

    /// The file as a device.
    fn file(
        &self,
        ring: &Rc<Ring>,
        fd: OwnedFd,
        mut probed: Probed,
    ) -> Result<Rc<dyn Device>, OpenError> {
        let (len, block) = (probed.geometry.len, probed.geometry.block_size);
        let whole = round_down(len, block.into());
        let device = |fd, probed| -> Rc<dyn Device> {
            let core = Core::new(ring, fd, probed, self.read_only);
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

    /// Nothing of the kernel's keeps a loop device from being put over what another writes to: it
    /// takes neither notice of locks, nor a claim on a block device.
    fn no_loop_over(&self, metadata: &fs::Metadata) -> Result<(), OpenError> {
        match sysfs::loop_over(metadata) {
            Some((name, number)) if !self.read_only => Err(OpenError::BacksLoop {
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
    ) -> Result<(OwnedFd, Probed), OpenError> {
        let number = DevNumber(metadata.rdev());
        if !self.read_only && number.is_read_only() {
            return Err(self.open_failed(Errno::ROFS, Users::default));
        }
        self.no_loop_over(metadata)?;
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
        let fd = fd.as_fd();
        // A lock may go between the refusal and the question what it was: then it is tried again.
        // One that comes and goes each time is taken for a reader's.
        let mut foreign = ForeignLock::Shared;
        for _ in 0..LOCK_TRIES {
            match sys::lock_file(fd, self.read_only) {
                // fcntl may say either when another holds it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                }
                result => return result.map_err(|e| self.refused(e, "locking it")),
            }
            // Before the users are looked for, which takes so long that the lock may be gone by then.
            let asked = sys::foreign_lock(fd, self.read_only);
            if let Some(found) = asked.map_err(|e| self.refused(e, "asking who locked it"))? {
                foreign = found;
                break;
            }
        }
        Err(OpenError::Locked {
            path: self.path.clone(),
            // The descriptor we just opened makes us one of them.
            users: users(1),
            reads: !self.read_only && foreign == ForeignLock::Shared,
        })
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
        let whole = match self.small_blocks {
            true => SECTOR_BYTES,
            false => block_size.into(),
        };
        if !len.is_multiple_of(whole) {
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
