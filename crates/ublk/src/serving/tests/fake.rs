//! A fake ublk driver for tests. It refuses the calls that the real driver refuses, and resends requests that a server
//! left unanswered.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use forebay_rt::Event;

use super::{QueuePort, UblkDescriptor, UblkOp};

/// Sequence number of a request.
pub(super) type RequestNumber = usize;

struct FakeRequest {
    number: RequestNumber,
    descriptor: UblkDescriptor,
    /// The data to write, or the data read.
    data: Vec<u8>,
}

enum FakeTag {
    /// This server has not offered the tag yet.
    New,
    /// The tag is free.
    Offered,
    /// The tag brings the server this request.
    Arrives(FakeRequest),
    /// The server has this request.
    Served(FakeRequest),
}

#[derive(Default)]
struct FakeQueue {
    tags: RefCell<Vec<FakeTag>>,
    /// Requests without a tag.
    waiting: RefCell<VecDeque<FakeRequest>>,
    /// Results and data of the answered requests.
    answers: RefCell<BTreeMap<RequestNumber, (i32, Vec<u8>)>>,
    submitted: Cell<RequestNumber>,
    stopped: Cell<bool>,
    copies_fail: Cell<bool>,
    changed: Event,
}

/// The driver's end of one queue. Clones share it.
#[derive(Clone)]
pub(super) struct FakeKernel(Rc<FakeQueue>);

impl FakeKernel {
    pub(super) fn new(depth: u16) -> FakeKernel {
        let kernel = FakeKernel(Rc::default());
        let tags = (0..depth).map(|_| FakeTag::New);
        kernel.0.tags.borrow_mut().extend(tags);
        kernel
    }

    /// Returns true once every tag was offered.
    pub(super) fn is_ready(&self) -> bool {
        let tags = self.0.tags.borrow();
        !tags.iter().any(|tag| matches!(tag, FakeTag::New))
    }

    /// Queues a request, which is sent as soon as a tag is free.
    pub(super) fn submit(&self, descriptor: UblkDescriptor, data: &[u8]) -> RequestNumber {
        let number = self.0.submitted.replace(self.0.submitted.get() + 1);
        let request = FakeRequest {
            number,
            descriptor,
            data: data.to_vec(),
        };
        self.0.waiting.borrow_mut().push_back(request);
        self.send();
        number
    }

    /// Waits until a request is answered.
    pub(super) async fn answer(&self, number: RequestNumber) -> (i32, Vec<u8>) {
        let answer = || self.0.answers.borrow_mut().remove(&number);
        self.0.changed.until(answer).await
    }

    /// Returns the number of unanswered requests.
    pub(super) fn unanswered(&self) -> usize {
        let holds = |tag: &FakeTag| matches!(tag, FakeTag::Arrives(_) | FakeTag::Served(_));
        let with_tag = self.0.tags.borrow().iter().filter(|tag| holds(tag)).count();
        with_tag + self.0.waiting.borrow().len()
    }

    /// Returns the number of requests that a server has received and not answered.
    pub(super) fn served(&self) -> usize {
        let served = |tag: &&FakeTag| matches!(tag, FakeTag::Served(_));
        self.0.tags.borrow().iter().filter(served).count()
    }

    /// Stops the device: all tags go back.
    pub(super) fn stop(&self) {
        self.0.stopped.set(true);
        self.0.changed.notify_all();
    }

    /// Makes all further copies of data fail.
    pub(super) fn fail_copies(&self) {
        self.0.copies_fail.set(true);
    }

    /// Simulates the death of the server. Its unanswered requests go to the next server, which offers all tags anew.
    pub(super) fn lose_server(&self) {
        let mut tags = self.0.tags.borrow_mut();
        let mut waiting = self.0.waiting.borrow_mut();
        for tag in tags.iter_mut().rev() {
            let was = std::mem::replace(tag, FakeTag::New);
            if let FakeTag::Arrives(request) | FakeTag::Served(request) = was {
                waiting.push_front(request);
            }
        }
    }

    /// Gives free tags to waiting requests, once all tags were offered.
    fn send(&self) {
        if !self.is_ready() {
            return;
        }
        let mut waiting = self.0.waiting.borrow_mut();
        let mut tags = self.0.tags.borrow_mut();
        for tag in tags
            .iter_mut()
            .filter(|tag| matches!(tag, FakeTag::Offered))
        {
            let Some(request) = waiting.pop_front() else {
                break;
            };
            *tag = FakeTag::Arrives(request);
        }
        self.0.changed.notify_all();
    }

    fn accept(&self, tag: u16, answer: Option<i32>) {
        let mut tags = self.0.tags.borrow_mut();
        let was = std::mem::replace(&mut tags[usize::from(tag)], FakeTag::Offered);
        match (was, answer) {
            (FakeTag::New, None) => {}
            (FakeTag::Served(request), Some(result)) => {
                let answer = (result, request.data);
                let twice = self.0.answers.borrow_mut().insert(request.number, answer);
                assert!(twice.is_none(), "request {} again", request.number);
            }
            (_, answer) => panic!("the driver refuses {answer:?} of tag {tag}"),
        }
    }

    /// Returns the outcome of an offered tag, if known yet.
    fn outcome(&self, tag: u16) -> Option<io::Result<()>> {
        let mut tags = self.0.tags.borrow_mut();
        let at = &mut tags[usize::from(tag)];
        if self.0.stopped.get() {
            return Some(Err(io::Error::from_raw_os_error(libc::ENODEV)));
        }
        match std::mem::replace(at, FakeTag::Offered) {
            FakeTag::Arrives(request) => {
                *at = FakeTag::Served(request);
                Some(Ok(()))
            }
            was => {
                *at = was;
                None
            }
        }
    }

    fn with_data<T>(
        &self,
        tag: u16,
        op: UblkOp,
        copy: impl FnOnce(&mut [u8]) -> T,
    ) -> io::Result<T> {
        let mut tags = self.0.tags.borrow_mut();
        match &mut tags[usize::from(tag)] {
            FakeTag::Served(request)
                if request.descriptor.op == op && !self.0.copies_fail.get() =>
            {
                Ok(copy(&mut request.data))
            }
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}

impl QueuePort for FakeKernel {
    async fn offer(&self, tag: u16, answer: Option<i32>) -> io::Result<()> {
        self.accept(tag, answer);
        self.send();
        self.0.changed.notify_all();
        self.0.changed.until(|| self.outcome(tag)).await
    }

    fn request(&self, tag: u16) -> UblkDescriptor {
        match &self.0.tags.borrow()[usize::from(tag)] {
            FakeTag::Served(request) => request.descriptor,
            _ => panic!("tag {tag} has no request"),
        }
    }

    fn take(&self, tag: u16, buf: &mut [u8]) -> io::Result<()> {
        self.with_data(tag, UblkOp::Write, |data| buf.copy_from_slice(data))
    }

    fn give(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.with_data(tag, UblkOp::Read, |to| to.copy_from_slice(data))
    }
}
