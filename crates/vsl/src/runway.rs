//! Keeping the runway long enough, from segments in which nothing is live any more.
//!
//! A segment that something was written to since the newest checkpoint's cut waits for the next one: recovery
//! has to read its records. Any other is used again once what superseded its data is durable, and a record says
//! that it follows on the runway. So how often checkpoints are made does not depend on how much is kept free.

use std::rc::Rc;

use forebay_segments::Composer as _;
use forebay_units::RecordSeq;

use crate::room::Room;
use crate::space::Inner;
use crate::streams::Streams;

/// The most segments that one record puts on the runway.
const AT_ONCE: usize = 127;

impl Inner {
    /// Has the runway go on where it gets short. `need` is how many segments somebody waits for.
    pub(crate) fn replenish(self: &Rc<Self>, need: usize) {
        if !self.may_reuse.get() || self.commit.failure().is_some() {
            return;
        }
        let mut streams = self.commit.composer_mut();
        let low = Room::of(&streams, &self.map.borrow()).low;
        let stable = streams.flight().stable();
        streams.usage.settled(stable);
        self.discard_asked.notify_all();
        let wanted = (2 * low).max(need);
        let short = wanted.saturating_sub(streams.usage.runway());
        if short == 0 {
            return;
        }
        // Few at a time only where somebody waits for them.
        let pressed = streams.usage.runway() < low.max(need);
        if streams.usage.free() >= if pressed { 1 } else { short.min(low) } {
            streams.extend_runway((2 * short).min(AT_ONCE));
        }
        let still_short = streams.usage.runway() + streams.usage.free() < wanted;
        let until = match still_short && streams.usage.settles_with().is_none() {
            true => self.settle(&mut streams),
            false => None,
        };
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.commit.has_work();
        if let Some(until) = until {
            self.settled_with(until);
        }
    }

    /// Has all that is empty get free, so that it is discarded, whether it is needed or not.
    pub(crate) fn settle_all(self: &Rc<Self>) {
        let mut streams = self.commit.composer_mut();
        let until = self.settle(&mut streams);
        self.commit.appended(&mut streams, false);
        drop(streams);
        if let Some(until) = until {
            self.settled_with(until);
        }
    }

    /// What waits for this record is free when that is durable.
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

    /// Has what is empty settle. Says the record that it waits for.
    fn settle(&self, streams: &mut Streams) -> Option<RecordSeq> {
        if !streams.usage.can_settle() {
            return None;
        }
        let until = streams.end_all();
        streams.usage.settle(until).then_some(until)
    }
}
