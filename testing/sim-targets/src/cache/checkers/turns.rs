//! I6 from the outside: changes of one place on the data device do not overlap.

use std::cell::RefCell;
use std::ops::Range;

use forebay_device::DeviceOp;

use forebay_sim::Violation;
use forebay_sim::disk::DiskRequest;

/// Changes of the data device that are in flight.
#[derive(Default)]
pub(super) struct OverlapChecker {
    under_way: RefCell<Vec<(u64, DeviceOp, Range<u64>)>>,
}

fn changes(request: &DiskRequest) -> bool {
    !matches!(request.op, DeviceOp::Read | DeviceOp::Flush)
}

impl OverlapChecker {
    pub(super) fn issued(&self, request: &DiskRequest) -> Result<(), Violation> {
        if !changes(request) {
            return Ok(());
        }
        let DiskRequest { id, op, range, .. } = request;
        let mut under_way = self.under_way.borrow_mut();
        let meets = |(_, _, other): &&(u64, DeviceOp, Range<u64>)| {
            other.start < range.end && range.start < other.end
        };
        if let Some((_, other_op, other)) = under_way.iter().find(meets) {
            let text =
                format!("a {op} of home {range:?} while a {other_op} of {other:?} is under way");
            return Err(Violation::new("turns (I6)", text));
        }
        under_way.push((*id, *op, range.clone()));
        Ok(())
    }

    pub(super) fn ended(&self, request: &DiskRequest) {
        self.under_way
            .borrow_mut()
            .retain(|(id, _, _)| *id != request.id);
    }
}
