//! A device that notes what it is asked, and fails or waits when told to.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, RamDevice, Result, Room,
};
use forebay_rt::Event;

pub(crate) struct Probe {
    pub(crate) below: RamDevice,
    asked: RefCell<Vec<String>>,
    unmaps: bool,
    held: Cell<bool>,
    changed: Event,
    /// Requests that overlap this range fail with this error of the system's.
    pub(crate) broken: RefCell<Option<(Range<u64>, i32)>>,
}

impl Probe {
    pub(crate) fn new(len: u64, block_size: u32) -> Rc<Probe> {
        Probe::with(len, block_size, true)
    }

    /// One that cannot unmap.
    pub(crate) fn without_discard(len: u64, block_size: u32) -> Rc<Probe> {
        Probe::with(len, block_size, false)
    }

    fn with(len: u64, block_size: u32, unmaps: bool) -> Rc<Probe> {
        Rc::new(Probe {
            below: RamDevice::new(len, block_size),
            unmaps,
            asked: RefCell::default(),
            held: Cell::new(false),
            changed: Event::new(),
            broken: RefCell::default(),
        })
    }

    /// Makes requests wait, those to come and no others.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    pub(crate) fn release(&self) {
        self.held.set(false);
        self.changed.notify_all();
    }

    /// What was asked since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.borrow_mut())
    }

    /// Waits until `n` requests have come since the last [`Probe::asked`].
    pub(crate) async fn has_been_asked(&self, n: usize) {
        let enough = || (self.asked.borrow().len() >= n).then_some(());
        self.changed.until(enough).await;
    }

    async fn enter(&self, op: Op, range: Range<u64>, note: &str) -> Result<()> {
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

impl Device for Probe {
    fn geometry(&self) -> Geometry {
        let geometry = self.below.geometry();
        match self.unmaps {
            true => geometry,
            false => Geometry {
                discard_granularity: 0,
                zeroes_by_unmapping: false,
                ..geometry
            },
        }
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            self.enter(Op::Read, at..at + buf.len() as u64, "").await?;
            self.below.read(at, buf).await
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let note = match durability {
                Durability::Flush => "",
                Durability::Fua => "(fua)",
            };
            self.enter(Op::Write, at..at + buf.len() as u64, note)
                .await?;
            self.below.write(at, buf, durability).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.enter(Op::Flush, 0..0, ""))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.enter(Op::Discard, range.clone(), "").await?;
            self.below.discard(range).await
        })
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let note = match room {
                Room::Keep => "(keep)",
                Room::Release => "(release)",
            };
            self.enter(Op::WriteZeroes, range.clone(), note).await?;
            self.below.write_zeroes(range, room).await
        })
    }
}
