//! A device of which somebody is told what it is asked.

use std::future::{Future, ready};
use std::ops::{Deref, Range};

use crate::{
    Buf, BufMut, Device, Durability, Geometry, IoFuture, Op, PlacementHandle, Result, Room,
};

/// A request that has come to a [`Tap`].
#[derive(Clone)]
pub enum Asked {
    /// To read these bytes.
    Read(Range<u64>),
    /// To write this from that byte on.
    Write(u64, Buf, Durability),
    /// To flush.
    Flush,
    /// To discard these bytes.
    Discard(Range<u64>),
    /// To zero these bytes.
    WriteZeroes(Range<u64>, Room),
}

impl Asked {
    /// The kind of request.
    pub fn op(&self) -> Op {
        match self {
            Asked::Read(_) => Op::Read,
            Asked::Write(..) => Op::Write,
            Asked::Flush => Op::Flush,
            Asked::Discard(_) => Op::Discard,
            Asked::WriteZeroes(..) => Op::WriteZeroes,
        }
    }

    /// The bytes it is about; none for a flush.
    pub fn range(&self) -> Range<u64> {
        match self {
            Asked::Read(range) | Asked::Discard(range) | Asked::WriteZeroes(range, _) => {
                range.clone()
            }
            Asked::Write(at, buf, _) => *at..*at + buf.len() as u64,
            Asked::Flush => 0..0,
        }
    }

    /// Whether it may change what the device holds.
    pub fn changes(&self) -> bool {
        !matches!(self, Asked::Read(_) | Asked::Flush)
    }
}

/// What is done around the requests of a [`Tap`]: counted, noted, delayed, refused.
pub trait Hooks {
    /// What the device says it is like, whose geometry is `below`.
    fn geometry(&self, below: Geometry) -> Geometry {
        below
    }

    /// Comes before the request.
    ///
    /// # Errors
    /// The request's, which then goes no further.
    fn before(&self, _asked: &Asked) -> impl Future<Output = Result<()>> {
        ready(Ok(()))
    }

    /// What a device says of its length that is asked to look at it again.
    fn refreshed(&self, len: u64) -> u64 {
        len
    }

    /// Comes after a request that succeeded.
    ///
    /// # Errors
    /// The request's, whose effect stays.
    fn after(&self, _asked: &Asked) -> impl Future<Output = Result<()>> {
        ready(Ok(()))
    }
}

/// A device that hands all it is asked on to another one, with hooks before and after: for tests and
/// simulations. The hooks' own fields and methods are the tap's.
pub struct Tap<D, H> {
    /// What it hands requests on to.
    pub below: D,
    hooks: H,
}

impl<D: Device, H: Hooks> Tap<D, H> {
    /// A tap before `below`.
    pub fn new(below: D, hooks: H) -> Tap<D, H> {
        Tap { below, hooks }
    }

    fn around<'a, T: 'a>(
        &'a self,
        asked: Asked,
        request: impl FnOnce(&'a D) -> IoFuture<'a, T> + 'a,
    ) -> IoFuture<'a, T> {
        Box::pin(async move {
            self.hooks.before(&asked).await?;
            let done = request(&self.below).await?;
            self.hooks.after(&asked).await?;
            Ok(done)
        })
    }
}

impl<D, H> Deref for Tap<D, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hooks
    }
}

impl<D: Device, H: Hooks> Device for Tap<D, H> {
    fn geometry(&self) -> Geometry {
        self.hooks.geometry(self.below.geometry())
    }

    fn refresh_len(&self) -> Result<u64> {
        let len = self.below.refresh_len()?;
        Ok(self.hooks.refreshed(len))
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        self.below.place(range, handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let asked = Asked::Read(at..at + buf.len() as u64);
        self.around(asked, move |below| below.read(at, buf))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let asked = Asked::Write(at, buf.clone(), durability);
        self.around(asked, move |below| below.write(at, buf, durability))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.around(Asked::Flush, |below| below.flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let asked = Asked::Discard(range.clone());
        self.around(asked, move |below| below.discard(range))
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        let asked = Asked::WriteZeroes(range.clone(), room);
        self.around(asked, move |below| below.write_zeroes(range, room))
    }
}
