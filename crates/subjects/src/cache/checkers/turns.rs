//! I6 from the outside: changes of one place at home take turns.

use std::cell::RefCell;
use std::ops::Range;

use forebay_device::Op;

use forebay_sim::Violation;
use forebay_sim::disk::Request;

/// Changes of the data device that are under way.
#[derive(Default)]
pub(super) struct Turns {
    under_way: RefCell<Vec<(u64, Op, Range<u64>)>>,
}

fn changes(request: &Request) -> bool {
    !matches!(request.op, Op::Read | Op::Flush)
}

impl Turns {
    pub(super) fn issued(&self, request: &Request) -> Result<(), Violation> {
        if !changes(request) {
            return Ok(());
        }
        let Request { id, op, range, .. } = request;
        let mut under_way = self.under_way.borrow_mut();
        let meets = |(_, _, other): &&(u64, Op, Range<u64>)| {
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

    pub(super) fn ended(&self, request: &Request) {
        self.under_way
            .borrow_mut()
            .retain(|(id, _, _)| *id != request.id);
    }
}
