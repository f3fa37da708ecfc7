//! A volume as clients see it: requests are counted and timed, and refused once closing begins.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use forebay_device::{
    AckMode, Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture,
    LatencyHistogram, LatencySummary, ZeroedSpace,
};
use forebay_rt::Rt;
use forebay_vsl::SpaceDevice;

use crate::closing::RequestGate;

/// Counters of requests.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct VolumeCounters {
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
pub(super) struct CountingDevice {
    rt: Rt,
    linear: SpaceDevice,
    acknowledge: AckMode,
    gate: RequestGate,
    counted: Cell<VolumeCounters>,
    latencies: RefCell<[LatencyHistogram; 3]>,
}

impl CountingDevice {
    pub(super) fn new(rt: Rt, linear: SpaceDevice, acknowledge: AckMode) -> CountingDevice {
        CountingDevice {
            rt,
            linear,
            acknowledge,
            gate: RequestGate::default(),
            counted: Cell::default(),
            latencies: RefCell::new([
                LatencyHistogram::new(),
                LatencyHistogram::new(),
                LatencyHistogram::new(),
            ]),
        }
    }

    pub(super) fn linear(&self) -> &SpaceDevice {
        &self.linear
    }

    pub(super) fn counted(&self) -> VolumeCounters {
        self.counted.get()
    }

    /// Returns the latencies of reads, writes and flushes.
    pub(super) fn latencies(&self) -> [LatencySummary; 3] {
        let latencies = self.latencies.borrow();
        [0, 1, 2].map(|n| latencies[n].summary())
    }

    /// Returns true while a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.gate.is_busy()
    }

    /// Refuses new requests, and waits until requests in progress have ended.
    pub(super) async fn close(&self) {
        self.gate.close().await;
    }

    fn count(&self, add: impl FnOnce(&mut VolumeCounters)) {
        let mut counted = self.counted.get();
        add(&mut counted);
        self.counted.set(counted);
    }

    /// Executes a request unless the volume is being closed. `timed` is the index of the latency that the request is
    /// counted in.
    async fn request<T>(
        &self,
        op: DeviceOp,
        timed: Option<usize>,
        work: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let _passed = self.gate.pass(op)?;
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
    async fn keep(&self, op: DeviceOp) -> Result<(), DeviceError> {
        if self.acknowledge != AckMode::Device {
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
            AckMode::Durable => Durability::Fua,
            _ => asked,
        }
    }

    async fn trim(
        &self,
        op: DeviceOp,
        bytes: u64,
        work: impl Future<Output = Result<(), DeviceError>>,
    ) -> Result<(), DeviceError> {
        let all = async {
            work.await?;
            match self.acknowledge {
                AckMode::Durable => self.linear.flush().await,
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

impl Device for CountingDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.linear.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let bytes = buf.len() as u64;
            let read = self.linear.read(at, buf);
            let read = self.request(DeviceOp::Read, Some(0), read).await?;
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
                    Durability::Flush => self.keep(DeviceOp::Write).await,
                }
            };
            self.request(DeviceOp::Write, Some(1), write).await?;
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
            self.request(DeviceOp::Flush, Some(2), flush).await?;
            self.count(|counted| counted.flushes += 1);
            Ok(())
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let bytes = range.end - range.start;
        Box::pin(self.trim(DeviceOp::Discard, bytes, self.linear.discard(range)))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let bytes = range.end - range.start;
        let zeroes = self.linear.write_zeroes(range, room);
        Box::pin(self.trim(DeviceOp::WriteZeroes, bytes, zeroes))
    }
}
