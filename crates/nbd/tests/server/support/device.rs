//! A device that records its requests, and fails or delays them on command.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    DeviceError, DeviceGeometry, DeviceOp, Durability, RamDevice, Result, Tap, TapHooks,
    TapRequest, ZeroedSpace,
};
use forebay_rt::Event;

/// Memory, with a record of the requests.
pub(crate) type ProbeDevice = Tap<RamDevice, ProbeHooks>;

/// Creates a probe of `len` bytes.
pub(crate) fn probe(len: u64, block_size: u32) -> Rc<ProbeDevice> {
    noting(len, block_size, true)
}

/// Creates a probe that cannot unmap.
pub(crate) fn probe_without_discard(len: u64, block_size: u32) -> Rc<ProbeDevice> {
    noting(len, block_size, false)
}

fn noting(len: u64, block_size: u32, unmaps: bool) -> Rc<ProbeDevice> {
    let notes = ProbeHooks {
        asked: RefCell::default(),
        unmaps,
        held: Cell::new(false),
        changed: Event::new(),
        broken: RefCell::default(),
    };
    Rc::new(Tap::new(RamDevice::new(len, block_size), notes))
}

pub(crate) struct ProbeHooks {
    asked: RefCell<Vec<String>>,
    unmaps: bool,
    held: Cell<bool>,
    changed: Event,
    /// Requests that overlap this range fail with this error number.
    pub(crate) broken: RefCell<Option<(Range<u64>, i32)>>,
}

impl ProbeHooks {
    /// Makes all later requests wait.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    pub(crate) fn release(&self) {
        self.held.set(false);
        self.changed.notify_all();
    }

    /// Returns the requests since the previous call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.borrow_mut())
    }

    /// Waits until `n` requests have come since the last [`ProbeHooks::asked`].
    pub(crate) async fn has_been_asked(&self, n: usize) {
        let enough = || (self.asked.borrow().len() >= n).then_some(());
        self.changed.until(enough).await;
    }

    async fn enter(&self, op: DeviceOp, range: Range<u64>, note: &str) -> Result<()> {
        let len = range.end - range.start;
        let text = format!("{op}{note} {}+{len}", range.start);
        self.asked.borrow_mut().push(text);
        self.changed.notify_all();
        self.changed
            .until(|| (!self.held.get()).then_some(()))
            .await;
        match &*self.broken.borrow() {
            Some((bad, errno)) if range.start < bad.end && bad.start < range.end => {
                let source = io::Error::from_raw_os_error(*errno);
                Err(DeviceError::io(op, range, source))
            }
            _ => Ok(()),
        }
    }
}

impl TapHooks for ProbeHooks {
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        if self.unmaps {
            below
        } else {
            DeviceGeometry {
                discard_granularity: 0,
                zeroes_by_unmapping: false,
                ..below
            }
        }
    }

    async fn before(&self, asked: &TapRequest) -> Result<()> {
        let note = match asked {
            TapRequest::Write(_, _, Durability::Fua) => "(fua)",
            TapRequest::WriteZeroes(_, ZeroedSpace::Keep) => "(keep)",
            TapRequest::WriteZeroes(_, ZeroedSpace::Release) => "(release)",
            _ => "",
        };
        self.enter(asked.op(), asked.range(), note).await
    }
}
