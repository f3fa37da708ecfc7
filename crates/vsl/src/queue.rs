//! Extension of the allocation queue with segments that no longer hold live data.
//!
//! A segment that was written since the newest checkpoint's cut waits for the next checkpoint, since recovery reads its
//! records. Any other empty segment is used again once the data that superseded its data is durable, and a record puts
//! it on the queue. So the frequency of checkpoints does not depend on the amount of free space.

use std::rc::Rc;

use forebay_segment_log::RecordComposer as _;
use forebay_units::RecordSeq;

use crate::room::SpaceBudget;
use crate::space::SpaceInner;
use crate::streams::SegmentStreams;

/// Maximum number of segments that one record puts on the queue.
const AT_ONCE: usize = 127;

impl SpaceInner {
    /// Extends the allocation queue when it becomes short. `need` is the number of segments that a claim waits for.
    pub(crate) fn replenish(self: &Rc<Self>, need: usize) {
        if !self.may_reuse.get() || self.commit.failure().is_some() || self.still.is_complete() {
            return;
        }
        let mut streams = self.commit.composer_mut();
        let room = SpaceBudget::of(&streams, &self.map.borrow());
        let low = room.low;
        let stable = streams.flight().stable();
        streams.table.settled(stable);
        self.discard_asked.notify_all();
        let wanted = (2 * low).max(need);
        let short = wanted.saturating_sub(streams.table.queued());
        if short == 0 {
            return;
        }
        // Small extensions only if a claim waits for them.
        let pressed = streams.table.queued() < low.max(need);
        if streams.table.free() >= if pressed { 1 } else { short.min(low) } {
            streams.extend_queue(&room, (2 * short).min(AT_ONCE));
        }
        let still_short = streams.table.queued() + streams.table.free() < wanted;
        let until = if still_short && streams.table.settles_with().is_none() {
            self.settle_now(&mut streams)
        } else {
            None
        };
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.commit.has_work();
        if let Some(until) = until {
            self.settled_with(until);
        }
    }

    /// Frees all empty segments, needed or not, so that they are discarded.
    pub(crate) fn settle_all(self: &Rc<Self>) {
        let mut streams = self.commit.composer_mut();
        let until = self.settle_now(&mut streams);
        self.commit.appended(&mut streams, false);
        drop(streams);
        if let Some(until) = until {
            self.settled_with(until);
        }
    }

    /// Frees the settling segments when record `until` is durable.
    fn settled_with(self: &Rc<Self>, until: RecordSeq) {
        let inner = Rc::clone(self);
        let settling = async move {
            if inner.commit.flush(until).await.is_ok() {
                inner.replenish(0);
                inner.commit.notify();
            }
        };
        self.rt.spawn(settling).detach();
    }

    /// Makes empty segments settle. Returns the record that they wait for.
    fn settle_now(&self, streams: &mut SegmentStreams) -> Option<RecordSeq> {
        if !streams.table.can_settle() {
            return None;
        }
        let until = streams.end_all();
        streams.table.settle(until).then_some(until)
    }
}
