//! What group commit asks of those who compose records, and of those who look at its writes.

use forebay_device::{Device, Durability};
use forebay_rt::Instant;
use forebay_units::{RecordSeq, SegmentSeq};

use super::write::Write;
use crate::flight::Flight;
use crate::ram::Job;

/// Composes records: plain data, without waiting.
pub trait Composer: 'static {
    /// What is on its way to the device.
    fn flight(&self) -> &Flight;

    /// The same, to change.
    fn flight_mut(&mut self) -> &mut Flight;

    /// At which byte of the device a segment begins that is in memory.
    fn segment_at(&self, segment: SegmentSeq) -> u64;

    /// What is open, by a number that no other open record ever has; none if nothing is.
    fn open(&self) -> Option<u64>;

    /// Bytes in what is open.
    fn open_bytes(&self) -> u32;

    /// Composes what is open, so that it can be written. Says the newest record that is composed.
    fn close(&mut self) -> RecordSeq;

    /// True if so much is written and not known durable that it should be flushed unasked.
    fn wants_flush(&self) -> bool;

    /// The device's flush has made every record up to `covered` durable.
    fn set_stable(&mut self, covered: RecordSeq);

    /// Takes the job behind this one, if the two can be one write of at most `most` bytes.
    fn take_joining(&mut self, job: &Job, most: usize) -> Option<(u64, Job)> {
        let _ = (job, most);
        None
    }
}

/// Looks at the writes that are made, to learn from them.
pub trait Watcher<C: Composer>: 'static {
    /// What is kept of a write until it is done.
    type Issued;

    /// A write is issued; `waited_for` if somebody waits for it, and not only for room.
    fn issued(&self, composer: &C, now: Instant, write: &Write, waited_for: bool) -> Self::Issued;

    /// It is done.
    fn done(
        &self,
        composer: &C,
        device: &dyn Device,
        now: Instant,
        issued: Self::Issued,
        durability: Durability,
    );
}

impl<C: Composer> Watcher<C> for () {
    type Issued = ();

    fn issued(&self, _: &C, _: Instant, _: &Write, _: bool) {}

    fn done(&self, _: &C, _: &dyn Device, _: Instant, (): (), _: Durability) {}
}
