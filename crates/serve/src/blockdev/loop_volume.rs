//! Attaching a loop device over a FUSE file, and detaching it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_device::Device;
use forebay_os::Ring;
use forebay_rt::Rt;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::held::Held;
use super::holders::{Holders, LOOK_EVERY, LOOKS, holders, lasting_holders};
use super::loopdev::{self, Access, Loop};
use super::stale::{Cleaned, CleanupError, InUse, cleanup_stale};
use crate::Memory;
use crate::fuse::{Ended, IO_BYTES_MAX, UnmountError};
use crate::volume_file::VolumeFile;
use forebay_os::isolated;

/// Loop devices tried when others take them first.
const ATTEMPTS: usize = 16;
/// The loop device's requests, in bytes. Half of what FUSE takes: its bound is on pages of memory
/// touched, of which a request in many pieces (the loop driver's bound is 128) touches up to one
/// more a piece; and a request over the bound is cut in the midst of a block.
const REQUEST_BYTES_MAX: usize = IO_BYTES_MAX / 2;
/// Discards are cut into pieces of so many bytes.
const DISCARD_BYTES_MAX: u64 = 64 << 20;

/// How to attach.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Have the kernel look for a partition table (`/dev/loopNp1`, …).
    pub partitions: bool,
    /// What to do if leftovers of a killed predecessor are still in use.
    pub leftovers: InUse,
}

impl Default for LoopOptions {
    fn default() -> LoopOptions {
        LoopOptions {
            partitions: true,
            leftovers: InUse::Refuse,
        }
    }
}

/// Why there is no block device. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Leftovers of a killed predecessor could not be cleared away.
    #[error(transparent)]
    Leftovers(#[from] CleanupError),
    /// The FUSE filesystem could not be mounted.
    #[error("cannot mount a FUSE filesystem in {}: {source}", runtime_dir.display())]
    Mount {
        /// Where.
        runtime_dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No loop device could be made of the file.
    #[error("cannot make a loop device of {}: {source}", file.display())]
    Loop {
        /// The FUSE file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a block device was not detached. It is still there and served; try again later.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// Somebody uses it.
    #[error("{} is in use: {holders}; nothing was undone", device.display())]
    Busy {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// The file beneath is open elsewhere.
    #[error("{} is open elsewhere{}; nothing was undone", file.display(), named(others))]
    FileBusy {
        /// The FUSE file.
        file: PathBuf,
        /// Other loop devices over it.
        others: Vec<String>,
    },
    /// Data that was written to the block device and only in its page cache could not be written
    /// on. It is lost; detaching again goes on without it.
    #[error("cannot write back what {} has cached: {source}; it is lost, detach again to go on without it", device.display())]
    WriteBack {
        /// The block device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot clear {}: {source}", device.display())]
    Io {
        /// The block device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The block device is gone, but the filesystem beneath is not.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

/// Other loop devices over the FUSE file, in words.
fn named(others: &[String]) -> String {
    match others {
        [] => String::new(),
        others => format!(" (it is beneath the loop device {})", others.join(", ")),
    }
}

/// A device served as `/dev/loopN`. [`LoopVolume::detach`] it before dropping it; otherwise it stays
/// behind dead until [`cleanup_stale`].
pub struct LoopVolume {
    fuse: VolumeFile,
    /// Name of the loop device, until it is cleared.
    name: Option<String>,
    node: PathBuf,
    held: Option<Held>,
    /// What the block device has cached is lost, as was said once: do not try to save it again.
    cache_lost: bool,
}

/// Serves `device` as a loop device, under the name `name` in `runtime_dir`, with buffers from
/// `memory`.
///
/// Clears away what a killed predecessor of the same name left. That nobody serves the same name
/// now is for the caller to see to.
///
/// # Errors
/// See [`AttachError`].
///
/// # Panics
/// If the device's geometry breaks the contract.
pub async fn attach_loop(
    rt: &Rt,
    ring: &Rc<Ring>,
    device: Rc<dyn Device>,
    memory: &Memory,
    runtime_dir: &Path,
    name: &str,
    options: LoopOptions,
) -> Result<LoopVolume, AttachError> {
    let (dir, owned_name) = (runtime_dir.to_owned(), name.to_owned());
    let mount_failed = |source| AttachError::Mount {
        runtime_dir: runtime_dir.to_owned(),
        source,
    };
    let cleaned = isolated(move || cleanup_stale(&dir, &owned_name, options.leftovers)).await;
    let cleaned = cleaned.map_err(mount_failed)??;
    if cleaned != Cleaned::default() {
        tracing::info!(
            ?cleaned,
            volume = name,
            "cleared away what a killed server left"
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
            volume.node = loopdev::node(&made.name);
            volume.held = Some(Held::by(&volume.node, "loop/backing_file"));
            made.log();
            volume.name = Some(made.name);
            Ok(volume)
        }
        Err(source) => {
            volume.give_up().await;
            Err(AttachError::Loop { file, source })
        }
    }
}

/// A loop device, and what is not as good about it as it could be.
struct Made {
    name: String,
    direct: bool,
    tuned: Result<(), (PathBuf, io::Error)>,
}

impl Made {
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

/// Makes a loop device over `file`. Waits for the thread that serves the file.
fn make(file: &Path, block_size: u32, partitions: bool) -> io::Result<Made> {
    let open = File::options().read(true).write(true).open(file)?;
    let mut attempts = 0;
    loop {
        let name = loopdev::find_free()?;
        let dev = Loop::open(&name, Access::Configure)?;
        match dev.configure(open.as_fd(), file, block_size, partitions) {
            Ok(()) => {
                let direct = dev.status()?.is_some_and(|status| status.direct);
                let tuned = loopdev::tune(&name, REQUEST_BYTES_MAX, DISCARD_BYTES_MAX);
                return Ok(Made {
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

/// Gives loop device `name` the length that its file has now.
fn resize(name: &str, file: &Path) -> io::Result<()> {
    // The kernel believes what it was told of the file before, unless the server has to be asked.
    let always_ask = AtFlags::STATX_FORCE_SYNC;
    statx(CWD, file, always_ask, StatxFlags::SIZE)?;
    Loop::open(name, Access::Configure)?.resize()
}

/// Why nothing is done to a block device.
const LOST: &str = "the block device was taken away by another program";

/// What became of an attempt to clear a loop device.
enum Cleared {
    Yes,
    Busy(Holders),
}

/// Clears loop device `name` if it is over `file` and nobody uses it; with `save`, only after what
/// it has cached is written back.
fn clear(name: &str, file: &Path, save: bool) -> Result<Cleared, DetachError> {
    let mut looks = 0;
    loop {
        match try_clear(name, file, save)? {
            Cleared::Busy(holders) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return Ok(done),
        }
    }
}

fn try_clear(name: &str, file: &Path, save: bool) -> Result<Cleared, DetachError> {
    let device = loopdev::node(name);
    let failed = |source| DetachError::Io {
        device: device.clone(),
        source,
    };
    let ours = loopdev::file_name(file);
    let is_ours = |dev: &Loop| Ok(dev.status()?.is_some_and(|status| status.file_name == ours));
    // Who has it open must be asked before we are one of them.
    let users = holders(name);
    if !users.0.is_empty() {
        return Ok(Cleared::Busy(users));
    }
    let dev = match Loop::open(name, Access::Claim) {
        Ok(dev) => dev,
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            return Ok(Cleared::Busy(holders(name)));
        }
        Err(error) => return Err(failed(error)),
    };
    if !is_ours(&dev).map_err(failed)? {
        // Somebody cleared it (`losetup --detach`), and it may be something else by now.
        return Ok(Cleared::Yes);
    }
    if save {
        dev.sync().map_err(|source| DetachError::WriteBack {
            device: device.clone(),
            source,
        })?;
    }
    dev.clear().map_err(failed)?;
    drop(dev);
    // With another opener the driver only makes a note to clear it when that closes.
    let dev = Loop::open(name, Access::Look).map_err(failed)?;
    if is_ours(&dev).map_err(failed)? {
        dev.keep().map_err(failed)?;
        drop(dev);
        return Ok(Cleared::Busy(holders(name)));
    }
    Ok(Cleared::Yes)
}

impl LoopVolume {
    /// The block device, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// The block device, to look whether it is still there.
    pub fn held(&self) -> Option<Held> {
        self.held.clone()
    }

    /// The loop device, unless it was cleared, by us or by another program (`losetup -d`): its number may be another's.
    fn own_device(&self) -> Option<String> {
        let is_lost = self.held.as_ref().is_some_and(Held::is_lost);
        self.name.clone().filter(|_| !is_lost)
    }

    /// Looks whether anybody uses the block device.
    ///
    /// # Errors
    /// [`DetachError::Busy`] and [`DetachError::FileBusy`].
    pub async fn check_unused(&self) -> Result<(), DetachError> {
        let Some(name) = self.own_device() else {
            return Ok(());
        };
        self.wait_for_other_handles().await?;
        let device = self.node.clone();
        let users = isolated(move || lasting_holders(&name)).await;
        let users = users.map_err(|source| DetachError::Io {
            device: device.clone(),
            source,
        })?;
        match users.0.is_empty() {
            true => Ok(()),
            false => Err(DetachError::Busy {
                device,
                holders: users,
            }),
        }
    }

    /// The FUSE file beneath.
    pub fn file(&self) -> PathBuf {
        self.fuse.file()
    }

    /// Waits until the service ends by itself, as when somebody unmounts the filesystem by force,
    /// and says why. The loop device is dead then; [`LoopVolume::detach`] still clears it away.
    pub async fn ended(&mut self) -> Rc<Ended> {
        self.fuse.ended().await
    }

    /// Tells the kernel that the device behind it became longer. The future borrows nothing.
    ///
    /// # Errors
    /// The system's; the block device keeps its length.
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

    /// Writes back what the block device has cached, clears it, unmounts the filesystem beneath and
    /// removes its directory.
    ///
    /// # Errors
    /// See [`DetachError`]. If anybody uses the device, nothing is undone. Calling again goes on
    /// where the last call failed.
    pub async fn detach(&mut self) -> Result<(), DetachError> {
        if let Some(name) = self.own_device() {
            self.wait_for_other_handles().await?;
            self.clear(name).await?;
        }
        self.name = None;
        self.unmount().await.map_err(DetachError::Unmount)
    }

    /// A file is closed before its server hears of it.
    async fn wait_for_other_handles(&self) -> Result<(), DetachError> {
        let loops_own = 1;
        for _ in 0..LOOKS {
            if self.fuse.is_over() || self.fuse.handles() <= loops_own {
                return Ok(());
            }
            self.fuse.rt().sleep(LOOK_EVERY).await;
        }
        let file = self.fuse.file();
        // As the kernel shows it, which may be by another path.
        let shown = self
            .name
            .as_ref()
            .and_then(|name| loopdev::backing_file(name));
        let others = loopdev::in_use().unwrap_or_default().into_iter();
        let others = others.filter(|name| self.name.as_ref() != Some(name));
        let others = others.filter(|name| loopdev::backing_file(name) == shown);
        Err(DetachError::FileBusy {
            others: others
                .map(|name| loopdev::node(&name).display().to_string())
                .collect(),
            file,
        })
    }

    async fn clear(&mut self, name: String) -> Result<(), DetachError> {
        let file = self.fuse.file();
        // Over a dead service there is nothing to be saved.
        let save = !self.cache_lost && !self.fuse.is_over();
        let cleared = isolated(move || clear(&name, &file, save)).await;
        let device = self.node.clone();
        match cleared {
            Ok(Ok(Cleared::Yes)) => Ok(()),
            Ok(Ok(Cleared::Busy(holders))) => Err(DetachError::Busy { device, holders }),
            Ok(Err(error)) => {
                self.cache_lost |= matches!(error, DetachError::WriteBack { .. });
                Err(error)
            }
            Err(source) => Err(DetachError::Io { device, source }),
        }
    }

    /// The kernel lets go of the file a moment after the loop device is cleared.
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

    async fn give_up(mut self) {
        if let Err(error) = self.unmount().await {
            tracing::warn!(%error, "after a failed attach");
        }
    }
}
