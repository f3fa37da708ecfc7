//! RAID-0: stripe units on successive members.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, Result, ZeroedSpace,
};
use futures_util::future::join_all;

use crate::ArrayError;
use crate::common::{self, MEMBERS_MAX, MemberShare, common_multiple, shares};
use crate::error::located;

/// An array with unit 0 on the first device, unit 1 on the next, and so on in rotation. It has the speed of all devices
/// together, and the data is lost with any one of them.
///
/// A request goes to all members concerned concurrently, to each in one piece. If one of these requests fails, the
/// whole request fails.
pub struct StripedArray {
    members: Vec<Rc<dyn Device>>,
    unit: u64,
    geometry: DeviceGeometry,
}

impl StripedArray {
    /// Creates an array of `members` with stripe units of `unit` bytes. The shortest member determines the length.
    ///
    /// # Errors
    /// If the devices cannot form an array.
    pub fn new(members: Vec<Rc<dyn Device>>, unit: u32) -> Result<StripedArray, ArrayError> {
        let have = members.len();
        if !(1..=MEMBERS_MAX).contains(&have) {
            let (least, most) = (1, MEMBERS_MAX);
            return Err(ArrayError::Members { have, least, most });
        }
        let all: Vec<DeviceGeometry> = members.iter().map(Device::geometry).collect();
        let (whole, _) = common::geometry(&all, unit, have)?;
        let unit = u64::from(unit);
        let each = common::discard_unit(&all);
        let discards = match each {
            0 => 0,
            _ if unit.is_multiple_of(each) => each,
            _ => common_multiple(each, unit) * have as u64,
        };
        let discards = u32::try_from(discards).unwrap_or(0);
        let geometry = DeviceGeometry {
            discard_granularity: discards,
            zeroes_by_unmapping: discards > 0 && all.iter().all(|g| g.zeroes_by_unmapping),
            ..whole
        };
        Ok(StripedArray {
            members,
            unit,
            geometry,
        })
    }

    fn shares(&self, at: u64, len: usize) -> Vec<MemberShare> {
        let members = self.members.len() as u64;
        let place = |unit: u64| ((unit % members) as usize, unit / members);
        shares(self.unit, at, len, place)
    }

    /// Returns the number of bytes on a member among the array's first `bytes`.
    fn up_to(&self, member: usize, bytes: u64) -> u64 {
        let row = self.unit * self.members.len() as u64;
        let before = self.unit * member as u64;
        let in_row = (bytes % row).saturating_sub(before).min(self.unit);
        bytes / row * self.unit + in_row
    }

    /// Sends a request to every member for its part of `range`.
    async fn each<'a>(
        &'a self,
        op: DeviceOp,
        range: Range<u64>,
        ask: impl Fn(&'a dyn Device, Range<u64>) -> IoFuture<'a, ()>,
    ) -> Result<()> {
        let all = self.members.iter().enumerate().filter_map(|(n, member)| {
            let part = self.up_to(n, range.start)..self.up_to(n, range.end);
            (part.start < part.end).then(|| ask(&**member, part))
        });
        first_error(join_all(all).await).map_err(|error| located(error, op, &range))
    }
}

fn first_error(results: Vec<Result<()>>) -> Result<()> {
    results.into_iter().collect()
}

impl Device for StripedArray {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let shares = self.shares(at, buf.len());
            if let [only] = &shares[..]
                && only.pieces.len() == 1
            {
                let read = self.members[only.member].read(only.range.start, buf);
                return read
                    .await
                    .map_err(|error| located(error, DeviceOp::Read, &only.hull(at)));
            }
            let reads = shares.iter().map(|share| {
                let part = BufMut::zeroed(share.len());
                self.members[share.member].read(share.range.start, part)
            });
            for (share, part) in shares.iter().zip(join_all(reads).await) {
                let part = part.map_err(|error| located(error, DeviceOp::Read, &share.hull(at)))?;
                share.scatter(&part, &mut buf);
            }
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let shares = self.shares(at, buf.len());
            let writes = shares.iter().map(async |share| {
                let member = &self.members[share.member];
                let written = member.write(share.range.start, share.gather(&buf), durability);
                let hull = share.hull(at);
                written
                    .await
                    .map_err(|error| located(error, DeviceOp::Write, &hull))
            });
            first_error(join_all(writes).await)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flushes = self.members.iter().map(Device::flush);
            first_error(join_all(flushes).await)
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(self.each(DeviceOp::Discard, range, |member, part| {
            member.discard(part)
        }))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(
            self.each(DeviceOp::WriteZeroes, range, move |member, part| {
                member.write_zeroes(part, room)
            }),
        )
    }
}
