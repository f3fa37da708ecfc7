//! An observer of the disk for one incarnation.

use std::rc::Rc;

use forebay_rt::Rt;
use forebay_sim::disk::{DiskObserver, DiskRequest};

use super::AgedRun;

/// Counts the requests to a disk, and ends the incarnation if they do not stop.
pub(super) struct RequestCounter {
    pub(super) scenario: Rc<AgedRun>,
    pub(super) rt: Rt,
}

impl DiskObserver for RequestCounter {
    fn issued(&self, request: &DiskRequest) {
        let DiskRequest { op, range, fua, .. } = request;
        let tape = &self.scenario.tape;
        let key = range.start << 8 ^ range.end << 40 ^ (*op as u64) << 2 ^ u64::from(*fua);
        tape.note(key ^ self.rt.now().as_nanos().rotate_left(17));
        self.scenario.requested(*op);
    }

    fn ended(&self, request: &DiskRequest, failed: bool) {
        self.scenario.tape.note(request.id << 1 | u64::from(failed));
    }
}
