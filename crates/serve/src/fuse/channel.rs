//! One open `/dev/fuse`: requests are taken from it and replies given to it, never waiting.
//!
//! The connection must close when this process is killed, or what waits for its replies waits for
//! ever. If that is a thread of this same process, the process's memory lives on with it, with the
//! memory the ring, and with the ring whatever descriptor a request on it holds. So no read, write or
//! poll of `/dev/fuse` is ever given to the ring, which polls an epoll descriptor: that watches without
//! holding. Commands of the driver (`entries.rs`) do hold it, but the kernel gives them up when the thread
//! that made them ends, whatever becomes of the ring.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use forebay_os::Fd;
use rustix::event::epoll;
use rustix::io::Errno;

use forebay_fuse::{FIXED, OUT_HEADER, out_header};

/// What a look for requests found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// A request of so many bytes.
    Message(usize),
    /// None is waiting.
    Nothing,
    /// The filesystem was unmounted.
    Unmounted,
    /// The connection was cut: forced unmount, or by hand under `/sys/fs/fuse/connections`.
    Aborted,
}

/// One connection to the kernel's FUSE.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: Fd,
}

impl Channel {
    /// That of a mounted filesystem, by a descriptor that does not block.
    pub(crate) fn new(fd: OwnedFd) -> Channel {
        Channel { fd: Rc::new(fd) }
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The descriptor, to be kept by commands of the driver.
    pub(crate) fn shared(&self) -> &Fd {
        &self.fd
    }

    /// A descriptor that is readable when there are requests. The ring may hold it. To be made once
    /// the connection is mounted: before, the kernel has nothing to watch.
    pub(crate) fn watch(&self) -> io::Result<Fd> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, &self.fd, data, epoll::EventFlags::IN)?;
        Ok(Rc::new(watch))
    }

    /// Takes the next request, if there is one: its first bytes into `fixed`, the rest, such as a
    /// write's data, into `rest`. So the data of a write lies aligned where `rest` does.
    pub(crate) fn receive(&self, fixed: &mut [u8; FIXED], rest: &mut [u8]) -> io::Result<Received> {
        let mut parts = [IoSliceMut::new(fixed), IoSliceMut::new(rest)];
        loop {
            return match rustix::io::readv(&self.fd, &mut parts) {
                Ok(n) => Ok(Received::Message(n)),
                Err(Errno::AGAIN) => Ok(Received::Nothing),
                Err(Errno::NODEV) => Ok(Received::Unmounted),
                Err(Errno::CONNABORTED) => Ok(Received::Aborted),
                // The request was taken back while it was being copied: there may be others.
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
                // Nobody waits for it any more: interrupted, aborted, unmounted.
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
                Err(error) => Err(error),
            };
        }
    }
}
