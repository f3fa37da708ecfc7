//! What is told to the kernel unasked: that what it keeps of a file is not right any more.
//!
//! The kernel does it at once, and waits for pages that are being read or written: for replies of ours. So a thread of its
//! own tells it, which may wait, and is made when it is first needed. If the process is killed while it waits there for a
//! reply that never comes, the connection stays open (`channel.rs`) until somebody cuts it in `/sys/fs/fuse/connections`:
//! what it waits for is a page that somebody else uses at the same moment, which is rare.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};

use forebay_fuse::invalidation;
use rustix::io::Errno;

use super::channel::Channel;
use forebay_os::{Report, promise};

type Message = [u8; 40];

struct Job {
    messages: Vec<Message>,
    done: Report<()>,
}

/// The way to the thread that tells.
#[derive(Default)]
pub(super) struct Notifier {
    jobs: RefCell<Option<Sender<Job>>>,
}

/// What the kernel is to forget: of a file, bytes, or, with none, only what it knows of the file's attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The inode.
    pub node: u64,
    /// Which bytes: the pages they are in.
    pub bytes: Option<Range<u64>>,
}

impl Notifier {
    /// Has the kernel forget all this, and waits until it has.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(super) async fn forget(&self, channel: &Channel, stale: &[Stale]) -> io::Result<()> {
        let message = |stale: &Stale| {
            let bytes = stale.bytes.as_ref();
            let bytes = bytes.filter(|bytes| bytes.start < bytes.end);
            invalidation(
                stale.node,
                bytes.map(|bytes| (bytes.start, bytes.end - bytes.start)),
            )
        };
        let (done, told) = promise();
        let messages = stale.iter().map(message).collect();
        self.give(channel, Job { messages, done })?;
        told.await
    }

    fn give(&self, to: &Channel, job: Job) -> io::Result<()> {
        let mut jobs = self.jobs.borrow_mut();
        if jobs.is_none() {
            let (sender, receiver) = channel();
            let fd = to.fd().try_clone_to_owned()?;
            let thread = std::thread::Builder::new().name("forebay-notify".into());
            thread.spawn(move || {
                while let Ok(Job { messages, done }) = receiver.recv() {
                    done.fill(tell(&fd, &messages));
                }
            })?;
            *jobs = Some(sender);
        }
        let sender = jobs.as_ref().expect("there is one now");
        sender.send(job).map_err(io::Error::other)
    }
}

fn tell(fd: &OwnedFd, messages: &[Message]) -> io::Result<()> {
    for message in messages {
        match rustix::io::write(fd, message) {
            // It knows no such file, or there is nobody to be told any more.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
