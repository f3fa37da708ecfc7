//! A volume as clients see it: requests are counted and timed, and refused once closing begins.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use forebay_dcd::{Acknowledge, Latencies, Latency};
use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, Room};
use forebay_rt::{Event, Rt};
use forebay_vsl::Linear;

/// Counters of requests.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counted {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
    pub(super) flushes: u64,
    pub(super) trims: u64,
    pub(super) trim_bytes: u64,
    /// Failed requests, without those refused for lack of space.
    pub(super) errors: u64,
    /// Writes that were refused because the volume was full.
    pub(super) full: u64,
}

/// A volume that is served.
pub(super) struct Served {
    rt: Rt,
    linear: Linear,
    acknowledge: Acknowledge,
    closing: Cell<bool>,
    under_way: Cell<u64>,
    idle: Event,
    counted: Cell<Counted>,
    latencies: RefCell<[Latencies; 3]>,
}

/// A request in progress.
struct UnderWay<'a>(&'a Served);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let left = self.0.under_way.get() - 1;
        self.0.under_way.set(left);
        if left == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl Served {
    pub(super) fn new(rt: Rt, linear: Linear, acknowledge: Acknowledge) -> Served {
        Served {
            rt,
            linear,
            acknowledge,
            closing: Cell::new(false),
            under_way: Cell::new(0),
            idle: Event::new(),
            counted: Cell::default(),
            latencies: RefCell::new([Latencies::new(), Latencies::new(), Latencies::new()]),
        }
    }

    pub(super) fn linear(&self) -> &Linear {
        &self.linear
    }

    pub(super) fn counted(&self) -> Counted {
        self.counted.get()
    }

    /// Returns the latencies of reads, writes and flushes.
    pub(super) fn latencies(&self) -> [Latency; 3] {
        let latencies = self.latencies.borrow();
        [0, 1, 2].map(|n| latencies[n].summary())
    }

    /// Refuses new requests, and waits until requests in progress have ended.
    pub(super) async fn close(&self) {
        self.closing.set(true);
        let done = || (self.under_way.get() == 0).then_some(());
        self.idle.until(done).await;
    }

    fn count(&self, add: impl FnOnce(&mut Counted)) {
        let mut counted = self.counted.get();
        add(&mut counted);
        self.counted.set(counted);
    }

    /// Executes a request unless the volume is being closed. `timed` is the index of the latency that the request is
    /// counted in.
    async fn request<T>(
        &self,
        op: Op,
        timed: Option<usize>,
        work: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        if self.closing.get() {
            return Err(DeviceError::Closed { op });
        }
        self.under_way.set(self.under_way.get() + 1);
        let _under_way = UnderWay(self);
        let begin = self.rt.now();
        let done = work.await;
        match (&done, timed) {
            (Err(error), _) if is_full(error) => self.count(|counted| counted.full += 1),
            (Err(_), _) => self.count(|counted| counted.errors += 1),
            (Ok(_), Some(n)) => {
                let ns = self.rt.now().since(begin).as_nanos();
                self.latencies.borrow_mut()[n].record(u64::try_from(ns).unwrap_or(u64::MAX));
            }
            _ => {}
        }
        done
    }

    /// Hands a finished write to the device before the acknowledgement, if the mode is `Handover`.
    async fn keep(&self, op: Op) -> Result<(), DeviceError> {
        if self.acknowledge != Acknowledge::Handover {
            return Ok(());
        }
        let handed_over = self.linear.space().hand_over().await;
        handed_over.map_err(|error| DeviceError::Failed {
            op,
            cause: error.to_string().into(),
        })
    }

    fn durability(&self, asked: Durability) -> Durability {
        match self.acknowledge {
            Acknowledge::Write => Durability::Fua,
            _ => asked,
        }
    }

    async fn trim(
        &self,
        op: Op,
        bytes: u64,
        work: impl Future<Output = Result<(), DeviceError>>,
    ) -> Result<(), DeviceError> {
        let all = async {
            work.await?;
            match self.acknowledge {
                Acknowledge::Write => self.linear.flush().await,
                _ => self.keep(op).await,
            }
        };
        self.request(op, None, all).await?;
        self.count(|counted| {
            counted.trims += 1;
            counted.trim_bytes += bytes;
        });
        Ok(())
    }
}

fn is_full(error: &DeviceError) -> bool {
    match error {
        DeviceError::Io { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
        _ => false,
    }
}

impl Device for Served {
    fn geometry(&self) -> Geometry {
        self.linear.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let bytes = buf.len() as u64;
            let read = self.linear.read(at, buf);
            let read = self.request(Op::Read, Some(0), read).await?;
            self.count(|counted| {
                counted.reads += 1;
                counted.read_bytes += bytes;
            });
            Ok(read)
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let bytes = buf.len() as u64;
            let write = async {
                let durability = self.durability(durability);
                self.linear.write(at, buf, durability).await?;
                match durability {
                    Durability::Fua => Ok(()),
                    _ => self.keep(Op::Write).await,
                }
            };
            self.request(Op::Write, Some(1), write).await?;
            self.count(|counted| {
                counted.writes += 1;
                counted.write_bytes += bytes;
            });
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flush = self.linear.flush();
            self.request(Op::Flush, Some(2), flush).await?;
            self.count(|counted| counted.flushes += 1);
            Ok(())
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let bytes = range.end - range.start;
        Box::pin(self.trim(Op::Discard, bytes, self.linear.discard(range)))
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        let bytes = range.end - range.start;
        let zeroes = self.linear.write_zeroes(range, room);
        Box::pin(self.trim(Op::WriteZeroes, bytes, zeroes))
    }
}
