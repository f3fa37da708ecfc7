//! Interfaces of group commit: the composer of records, and the watcher of writes.

use forebay_device::{Device, Durability};
use forebay_rt::Instant;
use forebay_units::{RecordSeq, SegmentSeq};

use super::write::DeviceWrite;
use crate::flight::InFlightSegments;
use crate::ram::WriteJob;

/// Composes records. Plain state, without waiting.
pub trait RecordComposer: 'static {
    /// Returns the segments and writes on their way to the device.
    fn flight(&self) -> &InFlightSegments;

    /// Returns the segments and writes for changes.
    fn flight_mut(&mut self) -> &mut InFlightSegments;

    /// Returns the byte of the device at which a segment in memory begins.
    fn segment_at(&self, segment: SegmentSeq) -> u64;

    /// Returns a number for the open record that no other open record ever has, or `None` without an open record.
    fn open(&self) -> Option<u64>;

    /// Returns the bytes in the open record.
    fn open_bytes(&self) -> u32;

    /// Composes the open record, so that it can be written. Returns the newest composed record.
    fn close(&mut self) -> RecordSeq;

    /// Returns true if a flush should begin without a request, since much data is written and not known to be durable.
    fn wants_flush(&self) -> bool;

    /// Records that a flush of the device has made every record up to `covered` durable.
    fn set_stable(&mut self, covered: RecordSeq);

    /// Takes the job behind this one, if both fit one write of at most `most` bytes.
    fn take_joining(&mut self, job: &WriteJob, most: usize) -> Option<(u64, WriteJob)> {
        let _ = (job, most);
        None
    }
}

/// Observes the writes, for measurements.
pub trait WriteWatcher<C: RecordComposer>: 'static {
    /// Data that the watcher keeps for a write until the write is done.
    type Issued;

    /// Called when a write is issued. `waited_for` is true if a caller waits for the write itself, and not only for
    /// free space.
    fn issued(
        &self,
        composer: &C,
        now: Instant,
        write: &DeviceWrite,
        waited_for: bool,
    ) -> Self::Issued;

    /// Called when the write is done.
    fn done(
        &self,
        composer: &C,
        device: &dyn Device,
        now: Instant,
        issued: Self::Issued,
        durability: Durability,
    );
}

impl<C: RecordComposer> WriteWatcher<C> for () {
    type Issued = ();

    fn issued(&self, _: &C, _: Instant, _: &DeviceWrite, _: bool) {}

    fn done(&self, _: &C, _: &dyn Device, _: Instant, (): (), _: Durability) {}
}
