//! `/dev/ublkcN`: the server's end of a device.
#![allow(
    unsafe_code,
    reason = "commands to a driver may name memory; those here name none"
)]

use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_linux::{DriverMemory, IoRing, SharedFd};

use crate::codec::format::{
    DESCRIPTOR, UblkDescriptor, UblkQueueCommand, data_offset, descriptors_len, queue,
};
use crate::serving::QueuePort;

/// The open device, with the descriptors of its one queue.
pub(super) struct CharDevice {
    ring: Rc<IoRing>,
    fd: SharedFd,
    descriptors: OnceCell<DriverMemory>,
    /// Bytes of all descriptors.
    descriptors_len: usize,
}

/// Returns the path of the server's end of device `id`.
pub(super) fn path(id: u32) -> PathBuf {
    Path::new("/dev").join(format!("ublkc{id}"))
}

impl CharDevice {
    /// Opens the server's end of device `id`, whose queue has `depth` tags. From then on the thread of `ring` is its
    /// server.
    pub(super) fn open(ring: &Rc<IoRing>, id: u32, depth: u16) -> io::Result<CharDevice> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path(id))?;
        Ok(CharDevice {
            descriptors: OnceCell::new(),
            descriptors_len: descriptors_len(depth, rustix::param::page_size()),
            ring: Rc::clone(ring),
            fd: Rc::new(OwnedFd::from(file)),
        })
    }

    /// Returns the descriptors, mapped after the first request has come. They are not mapped while tags are still being
    /// offered: drivers before Linux 6.16 refuse further mappings if a server mapped the descriptors and died before it
    /// had offered all tags.
    fn descriptors(&self) -> io::Result<&DriverMemory> {
        if let Some(mapped) = self.descriptors.get() {
            return Ok(mapped);
        }
        let mapped = DriverMemory::map(&self.fd, 0, self.descriptors_len)?;
        Ok(self.descriptors.get_or_init(|| mapped))
    }
}

impl QueuePort for CharDevice {
    async fn offer(&self, tag: u16, answer: Option<i32>) -> io::Result<()> {
        let (op, result) = match answer {
            None => (queue::FETCH_REQ, 0),
            Some(result) => (queue::COMMIT_AND_FETCH_REQ, result),
        };
        let command = UblkQueueCommand { tag, result }.encode();
        // SAFETY: the command contains no address.
        let came = unsafe { self.ring.command(&self.fd, op, command) }.await?;
        match came {
            0 => self.descriptors().map(drop),
            // The other answers ask for a buffer, which does not happen with a device whose data is copied.
            other => Err(io::Error::other(format!("the answer {other} to a tag"))),
        }
    }

    fn request(&self, tag: u16) -> UblkDescriptor {
        let mapped = self.descriptors.get().expect("the tag has come back");
        UblkDescriptor::decode(&mapped.read(usize::from(tag) * DESCRIPTOR))
    }

    /// Copies the data with a plain system call: only the copying takes time, and the ring would pass each request on
    /// the driver's file to a kernel thread.
    fn take(&self, tag: u16, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = data_offset(tag) + done as u64;
            match rustix::io::pread(&self.fd, &mut buf[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn give(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = data_offset(tag) + done as u64;
            match rustix::io::pwrite(&self.fd, &data[done..], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
