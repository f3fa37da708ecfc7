//! An observer of the disk for one incarnation.

use std::rc::Rc;

use forebay_rt::Rt;
use forebay_sim::disk::{Observer, Request};

use super::World;

/// Counts what a disk is asked and ends the incarnation when it is asked without end.
pub(super) struct Counter {
    pub(super) world: Rc<World>,
    pub(super) rt: Rt,
}

impl Observer for Counter {
    fn issued(&self, request: &Request) {
        let Request { op, range, fua, .. } = request;
        let tape = &self.world.tape;
        let key = range.start << 8 ^ range.end << 40 ^ (*op as u64) << 2 ^ u64::from(*fua);
        tape.note(key ^ self.rt.now().as_nanos().rotate_left(17));
        self.world.requested(*op);
    }

    fn ended(&self, request: &Request, failed: bool) {
        self.world.tape.note(request.id << 1 | u64::from(failed));
    }
}
