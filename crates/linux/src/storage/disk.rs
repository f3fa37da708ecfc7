//! The two real devices: a regular file and a block device.
//!
//! Their reads, writes and flushes are the same ([`DeviceCore`]); they differ in releasing space and zeroing.

use std::cell::{Cell, OnceCell};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, Result,
    ZeroedSpace,
};
use forebay_units::{round_down, round_up};
use rustix::fs::SeekFrom;

use super::bounce::BounceBuffers;
use super::probe::DeviceProbe;
use crate::{IoRing, SharedFd};

/// Bytes per write where zeroes must be written.
const ZEROES_BYTES: usize = 1 << 20;
/// Ranges up to this length in bytes are zeroed by writing: a small write costs the disk less than a change of the
/// filesystem's maps, which goes through its journal.
const ZERO_BY_WRITING_MAX: u64 = 32 << 10;

/// The common part of both kinds of device.
pub(super) struct DeviceCore {
    ring: Rc<IoRing>,
    fd: SharedFd,
    geometry: Cell<DeviceGeometry>,
    memory_align: usize,
    read_only: bool,
    bounce: BounceBuffers,
    zeroes: OnceCell<Buf>,
}

impl DeviceCore {
    pub(super) fn new(
        ring: &Rc<IoRing>,
        fd: OwnedFd,
        probed: DeviceProbe,
        read_only: bool,
    ) -> DeviceCore {
        DeviceCore {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
            geometry: Cell::new(probed.geometry),
            memory_align: probed.memory_align,
            read_only,
            bounce: BounceBuffers::new(),
            zeroes: OnceCell::new(),
        }
    }

    fn is_aligned(&self, bytes: &[u8]) -> bool {
        (bytes.as_ptr() as usize).is_multiple_of(self.memory_align)
    }

    fn writable(&self, op: DeviceOp) -> Result<()> {
        if self.read_only {
            return Err(DeviceError::ReadOnly { op });
        }
        Ok(())
    }

    async fn read(&self, at: u64, mut buf: BufMut) -> Result<BufMut> {
        if self.is_aligned(&buf) {
            return self.read_aligned(at, buf).await;
        }
        let through = self.bounce.take(buf.len());
        let through = self.read_aligned(at, through).await?;
        buf.copy_from_slice(&through);
        Ok(buf)
    }

    async fn read_aligned(&self, at: u64, mut buf: BufMut) -> Result<BufMut> {
        let mut done = 0;
        loop {
            let at_now = at + done as u64;
            let (result, back) = self.ring.read_at(&self.fd, buf, done, at_now).await;
            buf = back;
            let more = result.and_then(|n| self.progress(n, io::ErrorKind::UnexpectedEof));
            match more {
                Ok(n) => done += n,
                Err(error) => {
                    let range = at..at + buf.len() as u64;
                    return Err(DeviceError::io(DeviceOp::Read, range, error));
                }
            }
            if done >= buf.len() {
                return Ok(buf);
            }
        }
    }

    async fn write(&self, at: u64, mut buf: Buf, durability: Durability) -> Result<()> {
        self.writable(DeviceOp::Write)?;
        if !self.is_aligned(&buf) {
            buf = self.bounce.copy_of(&buf);
        }
        let flags = match durability {
            Durability::Flush => 0,
            Durability::Fua => libc::RWF_DSYNC,
        };
        let mut done = 0;
        loop {
            let at_now = at + done as u64;
            let request = self.ring.write_at(&self.fd, buf, done, at_now, flags);
            let (result, back) = request.await;
            buf = back;
            match result.and_then(|n| self.progress(n, io::ErrorKind::WriteZero)) {
                Ok(n) => done += n,
                Err(error) => {
                    let range = at..at + buf.len() as u64;
                    return Err(DeviceError::io(DeviceOp::Write, range, error));
                }
            }
            if done >= buf.len() {
                return Ok(());
            }
        }
    }

    /// Returns the usable length of a transfer of `n` bytes: whole blocks, since direct I/O can only resume at a block
    /// boundary. A transfer without a whole block is a `failure`, since it would be retried forever.
    fn progress(&self, n: u32, failure: io::ErrorKind) -> io::Result<usize> {
        match round_down(n.into(), self.geometry.get().block_size.into()) {
            0 => Err(failure.into()),
            whole => Ok(whole as usize),
        }
    }

    /// Reads the length from the system, for files and block devices, and rounds it down to whole blocks.
    fn refresh_len(&self) -> Result<u64> {
        let end = rustix::fs::seek(&*self.fd, SeekFrom::End(0));
        let end = end.map_err(|errno| DeviceError::io(DeviceOp::Read, 0..0, errno.into()))?;
        let geometry = self.geometry.get();
        let len = round_down(end, geometry.block_size.into());
        if len > geometry.len {
            self.geometry.set(DeviceGeometry { len, ..geometry });
        }
        Ok(len)
    }

    async fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let result = self.ring.fdatasync(&self.fd).await;
        result.map_err(|error| DeviceError::io(DeviceOp::Flush, 0..0, error))
    }

    async fn fallocate(&self, mode: i32, range: &Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        self.ring.fallocate(&self.fd, mode, range.start, len).await
    }

    async fn write_zeroes(&self, range: Range<u64>) -> Result<()> {
        let zeroes = self
            .zeroes
            .get_or_init(|| BufMut::zeroed(ZEROES_BYTES).freeze());
        let mut at = range.start;
        while at < range.end {
            let now = (range.end - at).min(ZEROES_BYTES as u64);
            self.write(at, zeroes.slice(..now as usize), Durability::Flush)
                .await
                .map_err(|error| as_op(error, DeviceOp::WriteZeroes))?;
            at += now;
        }
        Ok(())
    }
}

pub(super) fn as_op(error: DeviceError, op: DeviceOp) -> DeviceError {
    match error {
        DeviceError::Io { range, source, .. } => DeviceError::Io { op, range, source },
        other => other,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENOTTY)
    )
}

const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// An optional feature of the system. Once it turns out to be missing, it is not tried again.
struct OptionalFeature(Cell<bool>);

impl OptionalFeature {
    fn new() -> OptionalFeature {
        OptionalFeature(Cell::new(true))
    }

    /// Returns the result of `tried`; `None` if the system does not support the feature.
    async fn tried(
        &self,
        tried: impl Future<Output = io::Result<()>>,
        op: DeviceOp,
        range: &Range<u64>,
    ) -> Option<Result<()>> {
        if !self.0.get() {
            return None;
        }
        match tried.await {
            Err(error) if is_unsupported(&error) => {
                self.0.set(false);
                None
            }
            done => Some(done.map_err(|error| DeviceError::io(op, range.clone(), error))),
        }
    }
}

/// A regular file.
pub(super) struct FileDevice {
    core: DeviceCore,
    zero_range: OptionalFeature,
    punch_hole: OptionalFeature,
}

impl FileDevice {
    pub(super) fn new(core: DeviceCore) -> FileDevice {
        FileDevice {
            core,
            zero_range: OptionalFeature::new(),
            punch_hole: OptionalFeature::new(),
        }
    }

    async fn discard(&self, range: Range<u64>) -> Result<()> {
        self.core.writable(DeviceOp::Discard)?;
        let unit = u64::from(self.core.geometry.get().discard_granularity);
        if unit == 0 {
            return Ok(());
        }
        // A range inside a filesystem block releases no space and would be zeroed through the page cache.
        let whole = round_up(range.start, unit)..round_down(range.end, unit);
        if whole.is_empty() {
            return Ok(());
        }
        let result = self.core.fallocate(PUNCH_HOLE, &whole).await;
        result.map_err(|error| DeviceError::io(DeviceOp::Discard, range, error))
    }

    async fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> Result<()> {
        self.core.writable(DeviceOp::WriteZeroes)?;
        match room {
            ZeroedSpace::Release => self.unmap(range).await,
            ZeroedSpace::Keep => self.zero(range).await,
        }
    }

    /// Punches all of the range as one hole. The filesystem zeroes partial blocks through the page cache, but only
    /// where blocks are allocated. Writing zeroes here would allocate space inside a hole.
    async fn unmap(&self, range: Range<u64>) -> Result<()> {
        let tried = self.core.fallocate(PUNCH_HOLE, &range);
        let op = DeviceOp::WriteZeroes;
        match self.punch_hole.tried(tried, op, &range).await {
            Some(done) => done,
            None => self.zero(range).await,
        }
    }

    async fn zero(&self, range: Range<u64>) -> Result<()> {
        // The edges are zeroed by writing, to avoid the page cache.
        let unit = ZERO_BY_WRITING_MAX;
        let middle = round_up(range.start, unit)..round_down(range.end, unit);
        if range.end - range.start <= ZERO_BY_WRITING_MAX || middle.is_empty() {
            return self.core.write_zeroes(range).await;
        }
        self.core.write_zeroes(range.start..middle.start).await?;
        self.core.write_zeroes(middle.end..range.end).await?;
        let tried = self.core.fallocate(ZERO_RANGE, &middle);
        let op = DeviceOp::WriteZeroes;
        match self.zero_range.tried(tried, op, &range).await {
            Some(done) => done,
            None => self.core.write_zeroes(middle).await,
        }
    }
}

/// A block device.
pub(super) struct BlockDevice {
    core: DeviceCore,
    discard: OptionalFeature,
    punch_hole: OptionalFeature,
    zero_range: OptionalFeature,
}

impl BlockDevice {
    pub(super) fn new(core: DeviceCore) -> BlockDevice {
        BlockDevice {
            core,
            discard: OptionalFeature::new(),
            punch_hole: OptionalFeature::new(),
            zero_range: OptionalFeature::new(),
        }
    }

    async fn discard(&self, range: Range<u64>) -> Result<()> {
        self.core.writable(DeviceOp::Discard)?;
        if self.core.geometry.get().discard_granularity == 0 {
            return Ok(());
        }
        let DeviceCore { ring, fd, .. } = &self.core;
        let op = DeviceOp::Discard;
        let tried = ring.discard_blocks(fd, range.start, range.end - range.start);
        if let Some(done) = self.discard.tried(tried, op, &range).await {
            return done;
        }
        // An older kernel. On a block device this call unmaps, or fails if the device cannot unmap.
        let tried = self.core.fallocate(PUNCH_HOLE, &range);
        self.punch_hole
            .tried(tried, op, &range)
            .await
            .unwrap_or(Ok(()))
    }

    async fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> Result<()> {
        self.core.writable(DeviceOp::WriteZeroes)?;
        let op = DeviceOp::WriteZeroes;
        if room == ZeroedSpace::Release {
            // As for a discard, and the kernel ensures that the range reads as zeroes.
            let tried = self.core.fallocate(PUNCH_HOLE, &range);
            if let Some(done) = self.punch_hole.tried(tried, op, &range).await {
                return done;
            }
        }
        // If the disk does not support it, the kernel writes the zeroes itself.
        let tried = self.core.fallocate(ZERO_RANGE, &range);
        match self.zero_range.tried(tried, op, &range).await {
            Some(done) => done,
            None => self.core.write_zeroes(range).await,
        }
    }
}

macro_rules! device {
    ($device:ty) => {
        impl Device for $device {
            fn geometry(&self) -> DeviceGeometry {
                self.core.geometry.get()
            }

            fn refresh_len(&self) -> Result<u64> {
                self.core.refresh_len()
            }

            fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
                Box::pin(self.core.read(at, buf))
            }

            fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
                Box::pin(self.core.write(at, buf, durability))
            }

            fn flush(&self) -> IoFuture<'_, ()> {
                Box::pin(self.core.flush())
            }

            fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
                Box::pin(self.discard(range))
            }

            fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
                Box::pin(self.write_zeroes(range, room))
            }
        }
    };
}

device!(FileDevice);
device!(BlockDevice);
