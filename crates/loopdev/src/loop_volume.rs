//! A loop device over a FUSE file: attaching and detaching.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_device::Device;
use forebay_frontend::block_device::{
    DeviceHolders, LOOK_EVERY, LOOKS, OwnBlockDevice, holders, lasting_holders,
};
use forebay_frontend::requests::RequestMemory;
use forebay_fuse::{IO_BYTES_MAX, SessionEnd, UnmountError};
use forebay_linux::{IoRing, isolated};
use forebay_rt::Rt;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::driver::{self, LoopAccess, LoopDevice};
use crate::stale::{CleanupError, LeftoverPolicy, RemovedLeftovers, cleanup_stale};
use crate::volume_file::VolumeFile;

/// Number of attempts when other programs take the free loop devices first.
const ATTEMPTS: usize = 16;
/// Size limit of the loop device's requests, in bytes: half of FUSE's limit. FUSE limits the pages of memory touched. A
/// request in many segments (the loop driver allows 128) touches up to one page more for each segment. A request above
/// the limit is split inside a block.
const REQUEST_BYTES_MAX: usize = IO_BYTES_MAX / 2;
/// Discards are split into requests of at most this size, in bytes.
const DISCARD_BYTES_MAX: u64 = 64 << 20;

/// Options for attaching.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Makes the kernel look for a partition table (`/dev/loopNp1`, …).
    pub partitions: bool,
    /// Handling of leftovers of a killed predecessor that are still in use.
    pub leftovers: LeftoverPolicy,
}

impl Default for LoopOptions {
    fn default() -> LoopOptions {
        LoopOptions {
            partitions: true,
            leftovers: LeftoverPolicy::Refuse,
        }
    }
}

/// An error of attaching. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum LoopAttachError {
    /// Leftovers of a killed predecessor could not be removed.
    #[error(transparent)]
    Leftovers(#[from] CleanupError),
    /// The FUSE filesystem could not be mounted.
    #[error("cannot mount a FUSE filesystem in {}: {source}", runtime_dir.display())]
    Mount {
        /// The runtime directory.
        runtime_dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No loop device could be set up over the file.
    #[error("cannot make a loop device of {}: {source}", file.display())]
    Loop {
        /// The FUSE file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An error of detaching. Unless stated otherwise, the block device is still attached and served; try again later.
#[derive(Debug, thiserror::Error)]
pub enum LoopDetachError {
    /// The block device is in use.
    #[error("{} is in use: {holders}; nothing was undone", device.display())]
    Busy {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// The file below is open elsewhere.
    #[error("{} is open elsewhere{}; nothing was undone", file.display(), named(others))]
    FileBusy {
        /// The FUSE file.
        file: PathBuf,
        /// Other loop devices over the file.
        others: Vec<String>,
    },
    /// Data in the page cache of the block device could not be written back. The data is lost; detaching again
    /// continues without it.
    #[error(
        "cannot write back the cached data of {}: {source}; the data is lost, detach again to continue \
         without it", device.display()
    )]
    WriteBack {
        /// The block device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused the operation.
    #[error("cannot clear {}: {source}", device.display())]
    Io {
        /// The block device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The block device is detached, but the filesystem below is still mounted.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

/// Formats the other loop devices over the FUSE file.
fn named(others: &[String]) -> String {
    match others {
        [] => String::new(),
        others => format!(" (it is beneath the loop device {})", others.join(", ")),
    }
}

/// A device served as `/dev/loopN`. [`LoopVolume::detach`] it before dropping it. Otherwise it is left behind without a
/// server until [`cleanup_stale`].
pub struct LoopVolume {
    fuse: VolumeFile,
    /// Name of the loop device, until it is cleared.
    name: Option<String>,
    node: PathBuf,
    held: Option<OwnBlockDevice>,
    /// The cached data of the block device is lost, and this was reported once: do not try to write it back again.
    cache_lost: bool,
}

/// Serves `device` as a loop device with the name `name` in `runtime_dir`, with buffers from `memory`.
///
/// Removes the leftovers of a killed predecessor of that name. The caller must make sure that no other server serves
/// that name.
///
/// # Errors
/// See [`LoopAttachError`].
///
/// # Panics
/// If the device's geometry breaks the contract.
pub async fn attach_loop(
    rt: &Rt,
    ring: &Rc<IoRing>,
    device: Rc<dyn Device>,
    memory: &RequestMemory,
    runtime_dir: &Path,
    name: &str,
    options: LoopOptions,
) -> Result<LoopVolume, LoopAttachError> {
    let (dir, owned_name) = (runtime_dir.to_owned(), name.to_owned());
    let mount_failed = |source| LoopAttachError::Mount {
        runtime_dir: runtime_dir.to_owned(),
        source,
    };
    let cleaned = isolated(move || cleanup_stale(&dir, &owned_name, options.leftovers)).await;
    let cleaned = cleaned.map_err(mount_failed)??;
    if cleaned != RemovedLeftovers::default() {
        tracing::info!(
            volume = name,
            "removed what a killed server left: {cleaned}"
        );
    }
    let geometry = device.geometry();
    let fuse = VolumeFile::mount(rt, ring, device, memory, runtime_dir, name);
    let fuse = fuse.map_err(mount_failed)?;
    let mut volume = LoopVolume {
        fuse,
        name: None,
        node: PathBuf::new(),
        held: None,
        cache_lost: false,
    };
    let file = volume.fuse.file();
    volume.fuse.hide_discard(!geometry.zeroes_by_unmapping);
    let made = isolated({
        let file = file.clone();
        move || make(&file, geometry.block_size, options.partitions)
    })
    .await;
    volume.fuse.hide_discard(false);
    match made.and_then(|made| made) {
        Ok(made) => {
            volume.node = driver::node(&made.name);
            volume.held = Some(OwnBlockDevice::by(&volume.node, "loop/backing_file"));
            made.log();
            volume.name = Some(made.name);
            Ok(volume)
        }
        Err(source) => {
            volume.abandon().await;
            Err(LoopAttachError::Loop { file, source })
        }
    }
}

/// A loop device, and the deviations from its ideal settings.
struct ConfiguredLoop {
    name: String,
    direct: bool,
    tuned: Result<(), (PathBuf, io::Error)>,
}

impl ConfiguredLoop {
    fn log(&self) {
        let device = &self.name;
        if !self.direct {
            tracing::warn!(
                device,
                "the loop device refused direct I/O; it will be slower"
            );
        }
        if let Err((path, error)) = &self.tuned {
            tracing::debug!(device, path = %path.display(), %error, "cannot tune the loop device");
        }
    }
}

/// Sets up a loop device over `file`. Waits for the thread that serves the file.
fn make(file: &Path, block_size: u32, partitions: bool) -> io::Result<ConfiguredLoop> {
    let open = File::options().read(true).write(true).open(file)?;
    let mut attempts = 0;
    loop {
        let name = driver::find_free()?;
        let dev = LoopDevice::open(&name, LoopAccess::Configure)?;
        match dev.configure(open.as_fd(), file, block_size, partitions) {
            Ok(()) => {
                let direct = dev.status()?.is_some_and(|status| status.direct);
                let tuned = driver::tune(&name, REQUEST_BYTES_MAX, DISCARD_BYTES_MAX);
                return Ok(ConfiguredLoop {
                    name,
                    direct,
                    tuned,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempts < ATTEMPTS => {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gives loop device `name` the current length of its file.
fn resize(name: &str, file: &Path) -> io::Result<()> {
    // The kernel uses its cached length of the file, unless the caller forces a request to the server.
    let always_ask = AtFlags::STATX_FORCE_SYNC;
    statx(CWD, file, always_ask, StatxFlags::SIZE)?;
    LoopDevice::open(name, LoopAccess::Configure)?.resize()
}

/// The reason for refusing an operation on a block device.
const LOST: &str = "another program removed the block device";

/// The result of an attempt to clear a loop device.
enum ClearOutcome {
    Yes,
    Busy(DeviceHolders),
}

/// Clears loop device `name` if it is over `file` and unused. With `save`, first writes back its cached data.
fn clear(name: &str, file: &Path, save: bool) -> Result<ClearOutcome, LoopDetachError> {
    let mut looks = 0;
    loop {
        match try_clear(name, file, save)? {
            ClearOutcome::Busy(holders) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return Ok(done),
        }
    }
}

fn try_clear(name: &str, file: &Path, save: bool) -> Result<ClearOutcome, LoopDetachError> {
    let device = driver::node(name);
    let failed = |source| LoopDetachError::Io {
        device: device.clone(),
        source,
    };
    let ours = driver::file_name(file);
    let is_ours =
        |dev: &LoopDevice| Ok(dev.status()?.is_some_and(|status| status.file_name == ours));
    // Determine the users before this process itself opens the device.
    let users = holders(name);
    if !users.0.is_empty() {
        return Ok(ClearOutcome::Busy(users));
    }
    let dev = match LoopDevice::open(name, LoopAccess::Claim) {
        Ok(dev) => dev,
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            return Ok(ClearOutcome::Busy(holders(name)));
        }
        Err(error) => return Err(failed(error)),
    };
    if !is_ours(&dev).map_err(failed)? {
        // Another program cleared the loop device (`losetup --detach`), and it may be a different one by now.
        return Ok(ClearOutcome::Yes);
    }
    if save {
        dev.sync().map_err(|source| LoopDetachError::WriteBack {
            device: device.clone(),
            source,
        })?;
    }
    dev.clear().map_err(failed)?;
    drop(dev);
    // If another process has the device open, the driver only schedules the clearing for the last close.
    let dev = LoopDevice::open(name, LoopAccess::Look).map_err(failed)?;
    if is_ours(&dev).map_err(failed)? {
        dev.keep().map_err(failed)?;
        drop(dev);
        return Ok(ClearOutcome::Busy(holders(name)));
    }
    Ok(ClearOutcome::Yes)
}

impl LoopVolume {
    /// Returns the path of the block device, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// Returns a handle for checking that the block device still exists.
    pub fn held(&self) -> Option<OwnBlockDevice> {
        self.held.clone()
    }

    /// Returns the name of the loop device, unless it was cleared by us or by another program (`losetup -d`): then its
    /// number may belong to another device.
    fn own_device(&self) -> Option<String> {
        let is_lost = self.held.as_ref().is_some_and(OwnBlockDevice::is_lost);
        self.name.clone().filter(|_| !is_lost)
    }

    /// Checks that the block device is unused.
    ///
    /// # Errors
    /// [`LoopDetachError::Busy`] and [`LoopDetachError::FileBusy`].
    pub async fn check_unused(&self) -> Result<(), LoopDetachError> {
        let Some(name) = self.own_device() else {
            return Ok(());
        };
        self.wait_for_other_handles().await?;
        let device = self.node.clone();
        let users = isolated(move || lasting_holders(&name)).await;
        let users = users.map_err(|source| LoopDetachError::Io {
            device: device.clone(),
            source,
        })?;
        if users.0.is_empty() {
            Ok(())
        } else {
            Err(LoopDetachError::Busy {
                device,
                holders: users,
            })
        }
    }

    /// Returns the path of the FUSE file below.
    pub fn file(&self) -> PathBuf {
        self.fuse.file()
    }

    /// Waits until the service ends by itself, for example because an administrator unmounts the filesystem by force,
    /// and returns the reason. The loop device then fails all requests; [`LoopVolume::detach`] still removes it.
    pub async fn ended(&mut self) -> Rc<SessionEnd> {
        self.fuse.ended().await
    }

    /// Updates the kernel's length of the block device after the device behind it has grown. The future borrows
    /// nothing.
    ///
    /// # Errors
    /// The system's error; the block device keeps its length.
    pub fn resize(&self) -> impl Future<Output = io::Result<()>> + use<> {
        let (name, file) = (self.own_device(), self.fuse.file());
        let is_lost = name.is_none() && self.name.is_some();
        async move {
            if is_lost {
                return Err(io::Error::other(LOST));
            }
            match name {
                Some(name) => isolated(move || resize(&name, &file)).await?,
                None => Ok(()),
            }
        }
    }

    /// Writes back the cached data of the block device, clears the device, unmounts the filesystem below, and removes
    /// its directory.
    ///
    /// # Errors
    /// See [`LoopDetachError`]. If the device is in use, nothing is changed. Another call continues at the failed step.
    pub async fn detach(&mut self) -> Result<(), LoopDetachError> {
        if let Some(name) = self.own_device() {
            self.wait_for_other_handles().await?;
            self.clear(name).await?;
        }
        self.name = None;
        self.unmount().await.map_err(LoopDetachError::Unmount)
    }

    /// Waits until the loop device is the only user of the file. The server learns of a close with a delay.
    async fn wait_for_other_handles(&self) -> Result<(), LoopDetachError> {
        let loops_own = 1;
        for _ in 0..LOOKS {
            if self.fuse.is_over() || self.fuse.handles() <= loops_own {
                return Ok(());
            }
            self.fuse.rt().sleep(LOOK_EVERY).await;
        }
        let file = self.fuse.file();
        // Use the path that the kernel shows, which can differ from ours.
        let shown = self
            .name
            .as_ref()
            .and_then(|name| driver::backing_file(name));
        let others = driver::in_use().unwrap_or_default().into_iter();
        let others = others.filter(|name| self.name.as_ref() != Some(name));
        let others = others.filter(|name| driver::backing_file(name) == shown);
        Err(LoopDetachError::FileBusy {
            others: others
                .map(|name| driver::node(&name).display().to_string())
                .collect(),
            file,
        })
    }

    async fn clear(&mut self, name: String) -> Result<(), LoopDetachError> {
        let file = self.fuse.file();
        // Without a server the cached data cannot be written back.
        let save = !self.cache_lost && !self.fuse.is_over();
        let cleared = isolated(move || clear(&name, &file, save)).await;
        let device = self.node.clone();
        match cleared {
            Ok(Ok(ClearOutcome::Yes)) => Ok(()),
            Ok(Ok(ClearOutcome::Busy(holders))) => Err(LoopDetachError::Busy { device, holders }),
            Ok(Err(error)) => {
                self.cache_lost |= matches!(error, LoopDetachError::WriteBack { .. });
                Err(error)
            }
            Err(source) => Err(LoopDetachError::Io { device, source }),
        }
    }

    /// Unmounts the filesystem. The kernel releases the file a moment after the loop device is cleared.
    async fn unmount(&mut self) -> Result<(), UnmountError> {
        let mut looks = 0;
        loop {
            match self.fuse.unmount().await {
                Err(UnmountError::Busy { .. }) if looks < LOOKS => {
                    looks += 1;
                    self.fuse.rt().sleep(LOOK_EVERY).await;
                }
                done => return done,
            }
        }
    }

    async fn abandon(mut self) {
        if let Err(error) = self.unmount().await {
            tracing::warn!(%error, "after a failed attach");
        }
    }
}
