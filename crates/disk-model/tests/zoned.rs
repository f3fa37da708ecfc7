//! Rules of zones that are written in order.

use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, RamDevice, ZeroedSpace};
use forebay_disk_model::{ZoneError, ZoneUsage, ZonedDevice, ZonedDeviceError};
use futures_util::FutureExt;

const BLOCK: u64 = 4096;
/// Bytes of the conventional part, and of a zone.
const FRONT: u64 = 2 * BLOCK;
const ZONE: u64 = 4 * BLOCK;

/// Creates three zones behind two blocks.
fn zoned() -> ZonedDevice {
    let below = Rc::new(RamDevice::new(FRONT + 3 * ZONE, BLOCK as u32));
    ZonedDevice::new(below, FRONT, ZONE).unwrap()
}

/// Returns the result of a request to a device that never waits.
fn block_on<T>(request: impl Future<Output = T>) -> T {
    request.now_or_never().expect("memory waits for nothing")
}

fn ones(blocks: u64) -> Buf {
    let mut buf = BufMut::zeroed((blocks * BLOCK) as usize);
    buf.fill(1);
    buf.freeze()
}

fn write(zoned: &ZonedDevice, at: u64, blocks: u64) -> Result<(), ZoneError> {
    let done = block_on(zoned.write(at, ones(blocks), Durability::Flush));
    done.map_err(|error| refusal(&error))
}

/// Returns the rule that a write violated.
fn refusal(error: &DeviceError) -> ZoneError {
    let DeviceError::Io { source, .. } = error else {
        panic!("{error}");
    };
    let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
    *inner.unwrap()
}

fn read(zoned: &ZonedDevice, at: u64, blocks: u64) -> Vec<u8> {
    let buf = BufMut::zeroed((blocks * BLOCK) as usize);
    let read = block_on(zoned.read(at, buf)).unwrap();
    read.chunks(BLOCK as usize).map(|block| block[0]).collect()
}

#[test]
fn the_conventional_range_can_be_written_anywhere_and_rewritten() {
    let zoned = zoned();
    for at in [BLOCK, 0, BLOCK] {
        write(&zoned, at, 1).unwrap();
    }
    // A write must not cross from the conventional part into the first zone.
    let (from, to, boundary) = (BLOCK, 3 * BLOCK, FRONT);
    let crossing = ZoneError::Boundary { from, to, boundary };
    assert_eq!(write(&zoned, from, 2), Err(crossing));
}

#[test]
fn a_zone_is_written_only_at_its_write_pointer() {
    let zoned = zoned();
    let (zone, first) = (1, FRONT + ZONE);
    let refused = |at, pointer| Err(ZoneError::NotAtPointer { zone, at, pointer });
    let second = first + BLOCK;
    assert_eq!(write(&zoned, second, 1), refused(second, first));
    write(&zoned, first, 2).unwrap();
    assert_eq!(zoned.pointer(1), Some(first + 2 * BLOCK));
    for at in [first, second, first + 3 * BLOCK] {
        assert_eq!(write(&zoned, at, 1), refused(at, first + 2 * BLOCK));
    }
    assert_eq!(read(&zoned, first, 4), [1, 1, 0, 0]);
    // Each zone has its own write pointer.
    write(&zoned, FRONT, 1).unwrap();
    let expected = ZoneUsage {
        resets: 0,
        refused: 4,
        written: 3 * BLOCK,
        partly_written_max: 2,
    };
    assert_eq!(zoned.usage(), expected);
}

#[test]
fn a_write_must_end_within_its_zone_and_a_full_zone_accepts_no_writes() {
    let zoned = zoned();
    let (from, to, boundary) = (FRONT, FRONT + ZONE + BLOCK, FRONT + ZONE);
    let crossing = ZoneError::Boundary { from, to, boundary };
    assert_eq!(write(&zoned, from, 5), Err(crossing));
    write(&zoned, FRONT, 4).unwrap();
    assert_eq!(write(&zoned, FRONT, 1), Err(ZoneError::Full(0)));
    assert_eq!(zoned.usage().partly_written_max, 0);
}

#[test]
fn a_discard_resets_only_whole_zones() {
    let zoned = zoned();
    for zone in 0..3 {
        write(&zoned, FRONT + zone * ZONE, 3).unwrap();
    }
    // The conventional part, zone 0, and zone 1 without its last block.
    block_on(zoned.discard(0..FRONT + 2 * ZONE - BLOCK)).unwrap();
    let pointers = [0, 1, 2].map(|zone| zoned.pointer(zone).unwrap());
    let still = |zone: u64| FRONT + zone * ZONE + 3 * BLOCK;
    assert_eq!(pointers, [FRONT, still(1), still(2)]);
    assert_eq!(read(&zoned, FRONT, 4), [0; 4]);
    write(&zoned, FRONT, 1).unwrap();
    // An empty zone is not reset again.
    block_on(zoned.discard(0..FRONT + 3 * ZONE)).unwrap();
    block_on(zoned.discard(0..FRONT + 3 * ZONE)).unwrap();
    assert_eq!(zoned.usage().resets, 4);
}

#[test]
fn bytes_beyond_a_write_pointer_read_as_zeroes_regardless_of_the_disk_content() {
    let below = Rc::new(RamDevice::new(FRONT + 3 * ZONE, BLOCK as u32));
    let all = ones((FRONT + 3 * ZONE) / BLOCK);
    block_on(below.write(0, all, Durability::Flush)).unwrap();
    let zoned = ZonedDevice::new(below, FRONT, ZONE).unwrap();
    write(&zoned, FRONT + ZONE, 1).unwrap();
    assert_eq!(read(&zoned, BLOCK, 7), [1, 0, 0, 0, 0, 1, 0]);
}

#[test]
fn zeroes_follow_the_write_pointer_rules() {
    let zoned = zoned();
    let zero = |range| block_on(zoned.write_zeroes(range, ZeroedSpace::Release));
    zero(FRONT..FRONT + BLOCK).unwrap();
    let error = zero(FRONT..FRONT + BLOCK).unwrap_err();
    assert!(matches!(
        refusal(&error),
        ZoneError::NotAtPointer { zone: 0, .. }
    ));
    assert_eq!(zoned.pointer(0), Some(FRONT + BLOCK));
}

#[test]
fn a_write_that_fails_below_leaves_the_write_pointer_unchanged() {
    // The device below fails the write.
    let below = Rc::new(RamDevice::new(FRONT + 3 * ZONE, BLOCK as u32));
    let short = Rc::new(FailingWrites(below));
    let zoned = ZonedDevice::new(short, FRONT, ZONE).unwrap();
    let failed = block_on(zoned.write(FRONT, ones(1), Durability::Flush));
    assert!(matches!(failed, Err(DeviceError::ReadOnly { .. })));
    assert_eq!(zoned.pointer(0), Some(FRONT));
    assert_eq!(zoned.usage().refused, 0);
}

/// A device that fails every write.
struct FailingWrites(Rc<RamDevice>);

impl Device for FailingWrites {
    fn geometry(&self) -> forebay_device::DeviceGeometry {
        self.0.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> forebay_device::IoFuture<'_, BufMut> {
        self.0.read(at, buf)
    }

    fn write(&self, _: u64, _: Buf, _: Durability) -> forebay_device::IoFuture<'_, ()> {
        let op = forebay_device::DeviceOp::Write;
        Box::pin(std::future::ready(Err(DeviceError::ReadOnly { op })))
    }

    fn flush(&self) -> forebay_device::IoFuture<'_, ()> {
        self.0.flush()
    }

    fn discard(&self, range: std::ops::Range<u64>) -> forebay_device::IoFuture<'_, ()> {
        self.0.discard(range)
    }

    fn write_zeroes(
        &self,
        range: std::ops::Range<u64>,
        room: ZeroedSpace,
    ) -> forebay_device::IoFuture<'_, ()> {
        self.0.write_zeroes(range, room)
    }
}

#[test]
fn a_device_is_divided_into_whole_zones_or_not_at_all() {
    let below = || Rc::new(RamDevice::new(FRONT + 2 * ZONE - BLOCK, BLOCK as u32));
    let one = ZonedDevice::new(below(), FRONT, ZONE).unwrap();
    assert_eq!(one.geometry().len, FRONT + ZONE);
    assert_eq!(u64::from(one.geometry().discard_granularity), ZONE);
    let error = |conventional, zone| ZonedDevice::new(below(), conventional, zone).err();
    assert!(matches!(
        error(FRONT, 0),
        Some(ZonedDeviceError::Blocks { .. })
    ));
    assert!(matches!(
        error(512, ZONE),
        Some(ZonedDeviceError::Blocks { .. })
    ));
    assert!(matches!(error(0, 1 << 40), Some(ZonedDeviceError::Long(_))));
    let (have, need) = (FRONT + 2 * ZONE - BLOCK, FRONT + 2 * ZONE);
    let short = ZonedDeviceError::TooShort { have, need };
    assert_eq!(error(FRONT, 2 * ZONE), Some(short));
}
