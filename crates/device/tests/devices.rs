//! Guarantees that every device of this crate gives, tested through its interface.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, CheckedDevice, Device, DeviceError, DeviceGeometry, DeviceOp, DeviceSlice,
    Durability, RamDevice, Result, Tap, TapHooks, TapRequest, ZeroedSpace,
};
use forebay_rt::{Executor, VirtualTime};
use proptest::prelude::*;

fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    Executor::new(Rc::new(VirtualTime::new())).block_on(future)
}

fn filled(len: usize, byte: u8) -> Buf {
    let mut buf = BufMut::zeroed(len);
    buf.fill(byte);
    buf.freeze()
}

async fn read(device: &dyn Device, at: u64, len: usize) -> Result<Vec<u8>> {
    Ok(device.read(at, BufMut::zeroed(len)).await?.to_vec())
}

#[test]
fn requests_that_break_the_contract_never_reach_the_device() {
    run(async {
        let device = CheckedDevice::new(RamDevice::new(8192, 4096), "ram");
        let past_end = device.write(8192, filled(4096, 1), Durability::Flush).await;
        assert!(matches!(
            past_end,
            Err(DeviceError::OutOfRange {
                op: DeviceOp::Write,
                len: 8192,
                ..
            })
        ));
        let wraps = device.discard(u64::MAX - 4095..u64::MAX).await;
        assert!(matches!(
            wraps,
            Err(DeviceError::Unaligned {
                op: DeviceOp::Discard,
                ..
            })
        ));
        let unaligned = read(&device, 512, 4096).await;
        assert!(matches!(
            unaligned,
            Err(DeviceError::Unaligned {
                block_size: 4096,
                ..
            })
        ));
        let empty = device.write_zeroes(4096..4096, ZeroedSpace::Keep).await;
        assert!(matches!(
            empty,
            Err(DeviceError::Unaligned {
                op: DeviceOp::WriteZeroes,
                ..
            })
        ));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let backwards = device.discard(4096..0).await;
        assert!(backwards.is_err());
        assert_eq!(read(&device, 0, 8192).await.unwrap(), vec![0; 8192]);
    });
}

#[test]
fn the_added_length_of_a_grown_device_is_reachable_through_all_layers() {
    run(async {
        let below = Rc::new(RamDevice::new(8192, 4096));
        let device = CheckedDevice::new(Tap::new(Rc::clone(&below), NoHooks), "ram");
        let slice = DeviceSlice::new(Rc::clone(&below) as Rc<dyn Device>, 4096, 4096).unwrap();
        assert!(read(&device, 8192, 4096).await.is_err());
        below.grow(16384);
        assert_eq!(device.refresh_len().unwrap(), 16384);
        assert_eq!(device.geometry().len, 16384);
        let written = device.write(12288, filled(4096, 1), Durability::Flush);
        written.await.unwrap();
        assert_eq!(read(&device, 12288, 4096).await.unwrap(), vec![1; 4096]);
        assert!(read(&device, 16384, 4096).await.is_err());
        // The length of a slice is fixed at its creation.
        assert_eq!(slice.refresh_len().unwrap(), 4096);
    });
}

struct NoHooks;

impl TapHooks for NoHooks {}

#[test]
fn a_slice_accesses_only_its_own_range() {
    run(async {
        let whole: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 10, 512));
        assert!(DeviceSlice::new(Rc::clone(&whole), 512, 64 << 10).is_none());
        assert!(DeviceSlice::new(Rc::clone(&whole), 100, 512).is_none());
        assert!(DeviceSlice::new(Rc::clone(&whole), u64::MAX - 511, 512).is_none());
        let slice = DeviceSlice::new(Rc::clone(&whole), 1024, 2048).unwrap();
        assert_eq!(slice.geometry().len, 2048);
        slice
            .write(512, filled(512, 9), Durability::Fua)
            .await
            .unwrap();
        assert_eq!(read(&whole, 1536, 512).await.unwrap(), vec![9; 512]);
        slice.discard(0..1024).await.unwrap();
        assert_eq!(read(&whole, 1536, 512).await.unwrap(), vec![0; 512]);
    });
}

#[derive(Debug, Clone)]
enum DeviceStep {
    Write(u64, u64, u8),
    Zero(u64, u64),
}

fn step() -> impl Strategy<Value = DeviceStep> {
    let range = (0..64u64, 1..33u64).prop_map(|(at, n)| (at, n.min(64 - at)));
    prop_oneof![
        (range.clone(), any::<u8>()).prop_map(|((at, n), byte)| DeviceStep::Write(at, n, byte)),
        range.prop_map(|(at, n)| DeviceStep::Zero(at, n)),
    ]
}

proptest! {
    #[test]
    fn a_ram_device_is_an_array_of_bytes(steps in proptest::collection::vec(step(), 1..60)) {
        run(async move {
            let device = RamDevice::new(64 * 512, 512);
            let mut model = vec![0u8; 64 * 512];
            for step in steps {
                match step {
                    DeviceStep::Write(at, n, byte) => {
                        let range = (at * 512) as usize..((at + n) * 512) as usize;
                        model[range].fill(byte);
                        let data = filled((n * 512) as usize, byte);
                        device.write(at * 512, data, Durability::Flush).await.unwrap();
                    }
                    DeviceStep::Zero(at, n) => {
                        model[(at * 512) as usize..((at + n) * 512) as usize].fill(0);
                        let range = at * 512..(at + n) * 512;
                        device.write_zeroes(range, ZeroedSpace::Release).await.unwrap();
                    }
                }
                assert_eq!(read(&device, 0, model.len()).await.unwrap(), model);
            }
        });
    }
}

/// Records requests, and fails flushes.
#[derive(Default)]
struct RequestLog(RefCell<Vec<(DeviceOp, std::ops::Range<u64>, bool)>>);

impl TapHooks for RequestLog {
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        DeviceGeometry {
            volatile: true,
            ..below
        }
    }

    async fn before(&self, asked: &TapRequest) -> Result<()> {
        let note = (asked.op(), asked.range(), false);
        self.0.borrow_mut().push(note);
        match asked {
            TapRequest::Flush => Err(DeviceError::io(
                DeviceOp::Flush,
                0..0,
                ErrorKind::Other.into(),
            )),
            _ => Ok(()),
        }
    }

    async fn after(&self, asked: &TapRequest) -> Result<()> {
        let note = (asked.op(), asked.range(), true);
        self.0.borrow_mut().push(note);
        Ok(())
    }
}

#[test]
fn a_tap_sees_every_request_before_and_after_and_can_fail_it() {
    run(async {
        let tap = Tap::new(RamDevice::new(8192, 512), RequestLog::default());
        assert!(tap.geometry().volatile && !tap.below.geometry().volatile);
        let write = tap.write(512, filled(512, 7), Durability::Flush);
        write.await.unwrap();
        assert_eq!(read(&tap, 512, 512).await.unwrap(), [7; 512]);
        tap.flush().await.unwrap_err();
        tap.write_zeroes(0..1024, ZeroedSpace::Keep).await.unwrap();
        tap.discard(4096..8192).await.unwrap();
        assert_eq!(read(&tap.below, 512, 512).await.unwrap(), [0; 512]);
        let both =
            |op, range: std::ops::Range<u64>| [(op, range.clone(), false), (op, range, true)];
        let mut expected = Vec::from(both(DeviceOp::Write, 512..1024));
        expected.extend(both(DeviceOp::Read, 512..1024));
        expected.push((DeviceOp::Flush, 0..0, false));
        expected.extend(both(DeviceOp::WriteZeroes, 0..1024));
        expected.extend(both(DeviceOp::Discard, 4096..8192));
        assert_eq!(tap.0.take(), expected);
    });
}
