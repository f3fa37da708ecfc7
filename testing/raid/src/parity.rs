//! RAID-5: stripe units on successive members, with a row's parity on a different member in each row.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, Result, ZeroedSpace,
};
use forebay_rt::Rt;
use futures_util::future::join_all;

use crate::ArrayError;
use crate::array::ParityState;
use crate::common::{self, MEMBERS_MAX, common_multiple};
use crate::error::located;
use crate::member::ArrayMember;
use crate::rotation::ParityLayout;
use crate::stats::ParityStats;

/// An array that continues to work without any one of its devices.
///
/// `docs/design/raid.md` describes its behaviour after failures of members, its limits, and the administrator's tasks.
/// Writes continue to their end if their futures are dropped.
pub struct ParityArray {
    pub(crate) inner: Rc<ParityState>,
}

impl ParityState {
    async fn flush(&self) -> Result<()> {
        let all = 0..self.rotation.members;
        let flushes = all.clone().map(|member| self.flush_member(member));
        let (mut lost, mut errors) = (Vec::new(), Vec::new());
        for (member, flushed) in all.zip(join_all(flushes).await) {
            if let Err((written, error)) = flushed {
                lost.push((member, written));
                errors.push(error);
            }
        }
        if self.settle_lost(&lost) && errors.len() <= 1 {
            return Ok(());
        }
        let error = errors.into_iter().next();
        error.map_or(Ok(()), |error| {
            Err(located(error, DeviceOp::Flush, &(0..0)))
        })
    }
}

impl ParityArray {
    /// Creates an array of `members` with stripe units of `unit` bytes. The shortest member determines the length. One
    /// member may be missing. Parity must be valid: for members that were not in this array before, call
    /// [`ParityArray::resync`] for the whole array, unless all members contain only zeroes.
    ///
    /// # Errors
    /// If the devices cannot form an array.
    pub fn new(
        rt: &Rt,
        members: Vec<Option<Rc<dyn Device>>>,
        unit: u32,
    ) -> Result<ParityArray, ArrayError> {
        let have = members.len();
        if !(3..=MEMBERS_MAX).contains(&have) {
            let (least, most) = (3, MEMBERS_MAX);
            return Err(ArrayError::Members { have, least, most });
        }
        let there = members.iter().flatten();
        let all: Vec<DeviceGeometry> = there.map(Device::geometry).collect();
        if all.len() + 1 < have {
            return Err(ArrayError::Missing(have - all.len()));
        }
        let (whole, rows) = common::geometry(&all, unit, have - 1)?;
        let rotation = ParityLayout {
            members: have,
            unit: unit.into(),
            rows,
        };
        let geometry = with_discards(whole, &rotation, &all);
        Ok(ParityArray {
            inner: Rc::new(ParityState {
                rt: rt.clone(),
                rotation,
                geometry,
                lock: Rc::default(),
                members: RefCell::new(members.into_iter().map(ArrayMember::new).collect()),
                stats: RefCell::default(),
            }),
        })
    }

    /// Returns the counters of requests.
    pub fn stats(&self) -> ParityStats {
        *self.inner.stats.borrow()
    }
}

/// Returns the geometry with the array's unit of discards. A discard is executed as zeroing, and only supported if
/// zeroing is cheap: the content of a discarded range is unspecified and would not match the parity.
fn with_discards(
    geometry: DeviceGeometry,
    rotation: &ParityLayout,
    members: &[DeviceGeometry],
) -> DeviceGeometry {
    let each = common_multiple(common::discard_unit(members), rotation.unit);
    let rows = each / rotation.unit;
    let unmaps = members.iter().all(|g| g.zeroes_by_unmapping);
    let discards = if unmaps {
        u32::try_from(rows * rotation.row_bytes()).unwrap_or(0)
    } else {
        0
    };
    DeviceGeometry {
        discard_granularity: discards,
        zeroes_by_unmapping: discards > 0,
        ..geometry
    }
}

impl Device for ParityArray {
    fn geometry(&self) -> DeviceGeometry {
        self.inner.geometry
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(self.inner.read(at, buf))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let write =
            move |inner: Rc<ParityState>| async move { inner.write(at, buf, durability).await };
        Box::pin(self.inner.driven(write))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let flush = |inner: Rc<ParityState>| async move { inner.flush().await };
        Box::pin(self.inner.driven(flush))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        if self.inner.geometry.discard_granularity == 0 {
            return Box::pin(std::future::ready(Ok(())));
        }
        let discard = |inner: Rc<ParityState>| async move { inner.discard(range).await };
        Box::pin(self.inner.driven(discard))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let zero =
            move |inner: Rc<ParityState>| async move { inner.write_zeroes(range, room).await };
        Box::pin(self.inner.driven(zero))
    }
}
