//! Serving a queue: passes requests to the device, and answers back.
//!
//! Each tag has one task, which serves all requests of the tag in turn, so a request costs neither a new task nor an
//! allocation. The kernel has at most as many requests under way as the queue has tags; this limit replaces an
//! admission. The data of requests uses the one bounded [`RequestMemory`]. A request without memory is queued, and blocks only
//! its own tag.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;

use forebay_device::{Device, DeviceError, ZeroedSpace};
use forebay_frontend::requests::{
    ChangeRequest, FRONT_RESERVE, FrontDevice, PART_BYTES, RequestMemory, kernel_errno,
};
use forebay_rt::{BudgetAccount, Event, Rt, Task};

use crate::codec::format::{UblkDescriptor, UblkOp};
use crate::codec::state::{AnswerAction, ArrivalAction, TagQueue};

/// The kernel's end of a queue.
pub(super) trait QueuePort: 'static {
    /// Offers a tag, for its first request or with the answer to the last. Ends when the tag comes back with a request.
    ///
    /// # Errors
    /// `ENODEV` if the driver took the tag back because the device was stopped. Any other error is a fault.
    fn offer(&self, tag: u16, answer: Option<i32>) -> impl Future<Output = io::Result<()>>;

    /// Returns the request that a tag has come back with.
    fn request(&self, tag: u16) -> UblkDescriptor;

    /// Copies the data that a tag's request writes into `buf`. Does not wait.
    ///
    /// # Errors
    /// If the kernel refuses: the request no longer exists.
    fn take(&self, tag: u16, buf: &mut [u8]) -> io::Result<()>;

    /// Copies `data` to the destination of a tag's read request. Does not wait.
    ///
    /// # Errors
    /// As for [`QueuePort::take`].
    fn give(&self, tag: u16, data: &[u8]) -> io::Result<()>;
}

/// The reason for a failed request.
enum RequestFailure {
    /// The device's error.
    Device(DeviceError),
    /// The data could not be copied.
    Copy(io::Error),
    /// The request is invalid, or not of a supported kind.
    Refused(i32),
}

impl From<DeviceError> for RequestFailure {
    fn from(error: DeviceError) -> RequestFailure {
        RequestFailure::Device(error)
    }
}

/// State shared by the tasks of a queue.
struct QueueShared<P> {
    port: P,
    target: FrontDevice,
    memory: RequestMemory,
    account: BudgetAccount,
    queue: RefCell<TagQueue>,
    /// Notified when the queue may be idle or stopped.
    changed: Event,
    errors: Cell<u64>,
    /// The driver's error number for a tag that did not come back with a request.
    lost_by: Cell<Option<i32>>,
}

/// A queue that is being served.
pub(super) struct QueueServer<P: QueuePort> {
    shared: Rc<QueueShared<P>>,
    tasks: Vec<Task<()>>,
}

impl<P: QueuePort> QueueServer<P> {
    /// Serves `device` through the `depth` tags of `port`, with buffers from `memory`. `None` if all of the memory is
    /// reserved by others.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub(super) fn begin(
        rt: &Rt,
        port: P,
        depth: u16,
        device: Rc<dyn Device>,
        memory: &RequestMemory,
    ) -> Option<QueueServer<P>> {
        let shared = Rc::new(QueueShared {
            port,
            target: FrontDevice::new(device, "ublk"),
            memory: memory.clone(),
            account: memory.account(FRONT_RESERVE)?,
            queue: RefCell::new(TagQueue::new(depth)),
            changed: Event::new(),
            errors: Cell::new(0),
            lost_by: Cell::new(None),
        });
        let tasks = (0..depth).map(|tag| rt.spawn(go_round(Rc::clone(&shared), tag)));
        let tasks = tasks.collect();
        Some(QueueServer { shared, tasks })
    }

    /// Withholds all answers from now on except successes: failed and new requests are for the next server.
    pub(super) fn withhold(&self) {
        self.shared.queue.borrow_mut().withhold();
    }

    /// Waits until no request is being executed.
    pub(super) async fn idle(&self) {
        let idle = || self.shared.queue.borrow().is_idle().then_some(());
        self.shared.changed.until(idle).await;
    }

    /// Waits until a tag is refused or taken back. A command that waits for all tags to be offered would then wait for
    /// ever.
    pub(super) async fn lost(&self) -> io::Error {
        let lost_by = || self.shared.lost_by.get();
        io::Error::from_raw_os_error(self.shared.changed.until(lost_by).await)
    }

    /// Returns true if the device was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.shared.queue.borrow().is_stopped()
    }

    /// Waits until all tags are back and all resources are released. Call it after the device was stopped.
    pub(super) async fn ended(self) {
        for task in self.tasks {
            task.await;
        }
    }

    /// Detaches the tasks, which continue on their own.
    pub(super) fn detach(self) {
        self.tasks.into_iter().for_each(Task::detach);
    }
}

async fn go_round<P: QueuePort>(shared: Rc<QueueShared<P>>, tag: u16) {
    let mut answer = None;
    loop {
        shared.queue.borrow_mut().offer(tag);
        if answer.is_some() {
            shared.look();
        }
        if let Err(error) = shared.port.offer(tag, answer).await {
            return shared.lost(tag, &error);
        }
        if shared.queue.borrow_mut().arrive(tag) == ArrivalAction::Withhold {
            return;
        }
        let result = shared.carry_out(tag).await;
        let result = result.map_err(|failed| shared.failed(&failed));
        let ended = shared.queue.borrow_mut().end(tag, result);
        match ended {
            AnswerAction::Commit(result) => answer = Some(result),
            AnswerAction::Withhold => return shared.look(),
        }
    }
}

impl<P: QueuePort> QueueShared<P> {
    /// Wakes the waiting tasks if the queue is stopped, or is idle while it withholds answers.
    fn look(&self) {
        let queue = self.queue.borrow();
        let seen = queue.is_stopped() || (queue.withholds() && queue.is_idle());
        drop(queue);
        if seen {
            self.changed.notify_all();
        }
    }

    fn lost(&self, tag: u16, error: &io::Error) {
        self.queue.borrow_mut().lose(tag);
        self.lost_by
            .set(Some(error.raw_os_error().unwrap_or(libc::EIO)));
        if error.raw_os_error() != Some(libc::ENODEV) {
            tracing::error!(tag, %error, "the ublk driver rejected a fetch command");
        }
        self.look();
    }

    /// Executes a request, and returns the number of bytes read or written.
    async fn carry_out(&self, tag: u16) -> Result<i32, RequestFailure> {
        let request = self.port.request(tag);
        let (range, fua) = (request.range(), request.fua);
        let at = range.start;
        match request.op {
            UblkOp::Read => self.read(tag, at, part(&request)?).await,
            UblkOp::Write => self.write(tag, at, part(&request)?, fua).await,
            UblkOp::Flush => self.change(ChangeRequest::Flush).await,
            UblkOp::Discard => self.change(ChangeRequest::Discard { range, fua }).await,
            UblkOp::WriteZeroes => {
                let room = if request.keep_room {
                    ZeroedSpace::Keep
                } else {
                    ZeroedSpace::Release
                };
                self.change(ChangeRequest::Zero { range, room, fua }).await
            }
            UblkOp::Other(_) => Err(RequestFailure::Refused(libc::EOPNOTSUPP)),
        }
    }

    async fn read(&self, tag: u16, at: u64, len: usize) -> Result<i32, RequestFailure> {
        // Declared in this order, so that the buffer is dropped before its lease.
        let _lease = self.account.lease(RequestMemory::cost(len)).await;
        let buf = self.target.read(at, self.memory.take(len)).await?;
        self.port.give(tag, &buf).map_err(RequestFailure::Copy)?;
        Ok(len as i32)
    }

    async fn write(&self, tag: u16, at: u64, len: usize, fua: bool) -> Result<i32, RequestFailure> {
        let _lease = self.account.lease(RequestMemory::cost(len)).await;
        let mut buf = self.memory.take(len);
        self.port
            .take(tag, &mut buf)
            .map_err(RequestFailure::Copy)?;
        self.target.write(at, buf.freeze(), fua).await?;
        Ok(len as i32)
    }

    async fn change(&self, change: ChangeRequest) -> Result<i32, RequestFailure> {
        self.target.change(change).await?;
        Ok(0)
    }

    /// Returns the error number for the kernel. While answers are withheld, the kernel does not get the error, so it is
    /// not logged either.
    fn failed(&self, failed: &RequestFailure) -> i32 {
        let errno = match failed {
            RequestFailure::Device(error) => kernel_errno(error),
            RequestFailure::Copy(_) => libc::EIO,
            RequestFailure::Refused(errno) => *errno,
        };
        if self.queue.borrow().withholds() {
            return errno;
        }
        let count = self.errors.get() + 1;
        self.errors.set(count);
        // A failed device fails every request, so log ever more rarely.
        if count.is_power_of_two() {
            match failed {
                RequestFailure::Device(error) => {
                    tracing::warn!(%error, count, "a request to the volume failed");
                }
                RequestFailure::Copy(error) => {
                    tracing::warn!(%error, count, "the data of a request could not be copied");
                }
                RequestFailure::Refused(_) => {
                    tracing::warn!(errno, count, "an invalid request");
                }
            }
        }
        errno
    }
}

/// Returns the length of a read or write, if it is within the agreed limit.
fn part(request: &UblkDescriptor) -> Result<usize, RequestFailure> {
    match request.bytes() {
        len @ 1..=MAX => Ok(len as usize),
        _ => Err(RequestFailure::Refused(libc::EINVAL)),
    }
}

const MAX: u64 = PART_BYTES as u64;

#[cfg(test)]
mod tests;
