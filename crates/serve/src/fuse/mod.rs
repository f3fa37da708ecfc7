//! A device as the one file of a FUSE filesystem.
//!
//! The file is as long as the device and past the page cache: what is written to it is the device's
//! business at once. With a loop device over it ([`crate::blockdev`]) it is a block device on
//! kernels that have nothing better.
//!
//! # Why the protocol is spoken here, and not by a library
//!
//! The `fuser` crate was tried first. Its session owns a thread, so each request crossed to the
//! volume's executor and its reply was sent from there. With a server that does nothing but copy
//! memory, 4 KiB at depth 32 through a loop device on two cores, the crossing alone cost a tenth to
//! a quarter of the requests a second, before the volume's own work; reading `/dev/fuse` on the
//! executor's thread cost nothing that could be measured (`examples/compare.sh` measures it again).
//! It saves a copy as well: the data of a large write is read from the kernel straight into an
//! aligned buffer that goes down the stack, while a library has to lend its own.
//!
//! Of the protocol, one file needs little: `format.rs` is all of it, and looks at no more than the
//! first 80 bytes of any message.
//!
//! # How requests flow
//!
//! One task waits until `/dev/fuse` is readable and takes requests until there are none. Each that
//! needs the device goes as far as it can at once, and becomes a task of its own if it must wait;
//! its reply is written when it is done, in any order.
//! Taking and replying are copies in memory and never wait, so they are plain system calls and not
//! entries on the ring. (Reads of `/dev/fuse` on the ring were considered: several at once wake
//! each other for nothing, and a single one is a poll and a read just the same.) When too much is
//! under way, or there is no memory for the next request, the task stops taking; the kernel's own queue
//! holds the rest.
//!
//! Left out on purpose: FUSE's page cache (a volume's cache belongs in the volume), splice (it
//! costs more than it saves at 4 KiB), interrupts (a device's request is driven to its end
//! anyway), FUSE over io_uring (off in kernels by default; it would save the system calls).
//!
//! # What must not happen
//!
//! The thread that serves must never wait for what it serves. So it never touches the mounted file,
//! and everything that does (making a loop device flushes the file, clearing one writes back its
//! page cache) runs on a helper thread (`blockdev/isolated.rs`).
//!
//! And when the process is killed, the connection must close, even while such a helper waits for a
//! reply. So the helper gives up its hold on `/dev/fuse`, and so does the ring (`channel.rs`).

mod channel;
mod format;
pub(crate) mod mount;
mod session;
mod unaligned;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_device::Device;
use forebay_os::{Poller, Ring};
use forebay_rt::{Rt, Task};

use crate::Memory;
use crate::blockdev::isolated::isolated;
use crate::requests::PART_BYTES;

pub use session::Ended;

use channel::Channel;
use session::Session;

/// The largest read and write, in bytes.
pub(crate) const IO_BYTES_MAX: usize = PART_BYTES;

/// A device served as a file. Unmount it before dropping it; otherwise the dead mount stays until
/// [`crate::blockdev::cleanup_stale`] or somebody else removes it.
pub struct FuseVolume {
    rt: Rt,
    session: Rc<Session>,
    serving: Option<Task<Ended>>,
    ended: Option<Rc<Ended>>,
    dir: PathBuf,
}

/// Why a filesystem was not unmounted. It is still mounted and served.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Something has the file open, or its working directory there.
    #[error("{} is in use; nothing was undone", dir.display())]
    Busy {
        /// Where it is mounted.
        dir: PathBuf,
    },
    /// The system refused.
    #[error("cannot unmount {}: {source}", dir.display())]
    Io {
        /// Where it is mounted.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FuseVolume {
    /// Mounts `device` at a directory made for it, `runtime_dir/NAME.fuse`, and serves it on `rt` with
    /// buffers from `memory`.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: no FUSE in the kernel, not root.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub fn mount(
        rt: &Rt,
        ring: &Rc<Ring>,
        device: Rc<dyn Device>,
        memory: &Memory,
        runtime_dir: &Path,
        name: &str,
    ) -> io::Result<FuseVolume> {
        forebay_os::io_flusher();
        let channel = Channel::open()?;
        let dir = mount::directory(runtime_dir, name);
        mount::mount(&channel, &dir, name)?;
        let watch = channel.watch().inspect_err(|_| {
            let _ = mount::unmount(&dir, true);
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let session = Rc::new(Session::new(
            channel,
            device,
            memory.clone(),
            now.unwrap_or_default().as_secs(),
        ));
        let serving = rt.spawn(Rc::clone(&session).run(rt.clone(), Poller::new(ring, watch)));
        Ok(FuseVolume {
            rt: rt.clone(),
            session,
            serving: Some(serving),
            ended: None,
            dir,
        })
    }

    /// The file. The thread that serves it must not touch it.
    pub fn file(&self) -> PathBuf {
        mount::volume_file(&self.dir)
    }

    /// Where the filesystem is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How often the file is open now. A loop device over it counts as one.
    pub fn handles(&self) -> usize {
        self.session.handles()
    }

    /// True if the session has ended: nothing that is asked of the file will succeed.
    pub(crate) fn is_over(&self) -> bool {
        self.serving.as_ref().is_none_or(Task::is_finished)
    }

    pub(crate) fn hide_discard(&self, hidden: bool) {
        self.session.hide_discard(hidden);
    }

    /// Waits until the session is over, and says why. It is over after an unmount, by whomever.
    pub async fn ended(&mut self) -> Rc<Ended> {
        if let Some(serving) = self.serving.as_mut() {
            let ended = Rc::new(serving.await);
            self.serving = None;
            self.ended = Some(ended);
        }
        Rc::clone(self.ended.as_ref().expect("set when the session ended"))
    }

    /// Unmounts, waits for the requests under way, and removes the directory.
    ///
    /// # Errors
    /// See [`UnmountError`]. The volume is served on; try again.
    pub async fn unmount(&mut self) -> Result<(), UnmountError> {
        let dir = self.dir.clone();
        let done = isolated(move || mount::unmount(&dir, false)).await;
        if let Err(source) = done.and_then(|done| done) {
            let dir = self.dir.clone();
            return Err(match source.raw_os_error() {
                Some(libc::EBUSY) => UnmountError::Busy { dir },
                _ => UnmountError::Io { dir, source },
            });
        }
        self.ended().await;
        Ok(())
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.rt
    }
}

impl Drop for FuseVolume {
    fn drop(&mut self) {
        if self.serving.is_some() {
            tracing::warn!(dir = %self.dir.display(), "a FUSE volume was dropped while mounted");
        }
    }
}
