//! One open `/dev/fuse`: receives requests and sends replies, without waiting.
//!
//! The connection must close when this process is killed. Otherwise a thread that waits for one of its replies waits
//! for ever. If this thread belongs to the process itself, it keeps the process's memory alive, the memory keeps the
//! ring alive, and the ring keeps all descriptors of its pending requests open. So no read, write or poll of
//! `/dev/fuse` is ever submitted to the ring. The ring polls an epoll descriptor instead, which watches `/dev/fuse`
//! without holding it. Commands of the driver (`entries.rs`) do hold the descriptor, but the kernel cancels them when
//! the thread that submitted them ends, even if the ring lives on.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use forebay_linux::SharedFd;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::codec::{FIXED, OUT_HEADER, out_header};

/// The result of an attempt to receive a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiveOutcome {
    /// A request of this many bytes.
    Message(usize),
    /// No request is queued.
    Nothing,
    /// The filesystem was unmounted.
    Unmounted,
    /// The connection was cut by a forced unmount, or by hand in `/sys/fs/fuse/connections`.
    Aborted,
}

/// One connection to the kernel's FUSE.
#[derive(Debug)]
pub(crate) struct FuseChannel {
    fd: SharedFd,
}

impl FuseChannel {
    /// Wraps the non-blocking descriptor of a mounted filesystem.
    pub(crate) fn new(fd: OwnedFd) -> FuseChannel {
        FuseChannel { fd: Rc::new(fd) }
    }

    /// Returns the descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the shared descriptor, for commands of the driver, which must keep it.
    pub(crate) fn shared(&self) -> &SharedFd {
        &self.fd
    }

    /// Returns a descriptor that is readable when requests are queued. The ring may hold it. It must be created after
    /// mounting: before, the kernel has nothing to watch.
    pub(crate) fn watch(&self) -> io::Result<SharedFd> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, &self.fd, data, epoll::EventFlags::IN)?;
        Ok(Rc::new(watch))
    }

    /// Receives the next request, if any: its first bytes into `fixed`, the rest, such as a write's data, into `rest`.
    /// So the data of a write has the alignment of `rest`.
    pub(crate) fn receive(
        &self,
        fixed: &mut [u8; FIXED],
        rest: &mut [u8],
    ) -> io::Result<ReceiveOutcome> {
        let mut parts = [IoSliceMut::new(fixed), IoSliceMut::new(rest)];
        loop {
            return match rustix::io::readv(&self.fd, &mut parts) {
                Ok(n) => Ok(ReceiveOutcome::Message(n)),
                Err(Errno::AGAIN) => Ok(ReceiveOutcome::Nothing),
                Err(Errno::NODEV) => Ok(ReceiveOutcome::Unmounted),
                Err(Errno::CONNABORTED) => Ok(ReceiveOutcome::Aborted),
                // The request was cancelled during the copy; others may be queued.
                Err(Errno::NOENT | Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Answers a request with `payload`.
    pub(crate) fn reply(&self, unique: u64, payload: &[u8]) {
        let header = out_header(unique, 0, payload.len());
        if let Err(error) = self.send(&header, payload) {
            tracing::warn!(%error, unique, "the kernel refused a reply; answering with an error");
            self.reply_error(unique, libc::EIO);
        }
    }

    /// Answers a request with the error number `errno`.
    pub(crate) fn reply_error(&self, unique: u64, errno: i32) {
        if let Err(error) = self.send(&out_header(unique, errno, 0), &[]) {
            tracing::error!(%error, unique, errno, "the kernel refused an error reply");
        }
    }

    fn send(&self, header: &[u8; OUT_HEADER], payload: &[u8]) -> Result<(), Errno> {
        let parts = [IoSlice::new(header), IoSlice::new(payload)];
        loop {
            return match rustix::io::writev(&self.fd, &parts) {
                Err(Errno::INTR) => continue,
                // The reply is no longer awaited: interrupted, aborted, unmounted.
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
                Err(error) => Err(error),
            };
        }
    }
}
