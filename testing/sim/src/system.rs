//! The system under test: a layer over disks, and its guarantees.
//!
//! A system under test defines how its volume is made, attached and closed, its guarantees in each situation, and its
//! observable state. All else is the same for every system: clients, faults, power cuts, checks, and permitted results
//! of reads. So a new layer has its own scenarios as soon as it implements [`TestedSystem`].

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceOp, IoFuture};

use crate::disk::{DiskRequest, SimDisk};
use crate::machine::{DiskContents, Machine};
use crate::plan::{Incarnation, ScenarioPlan, ScenarioSettings};
use crate::role::PerDisk;
use crate::violation::Violation;
use crate::writers::{CrashGuarantee, WriterHistories};

/// Purpose of an attach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachPurpose {
    /// Serve clients, with the settings of the scenario.
    Serve,
    /// Inspect the content, on healthy disks.
    Look,
    /// Inspect the content after a refusal, with the administrator's command to attach nevertheless.
    Insist,
}

/// Future of an attach; it returns the volume and its report.
pub type AttachFuture<S> = Pin<
    Box<
        dyn Future<
            Output = Result<
                (<S as TestedSystem>::Volume, <S as TestedSystem>::Report),
                <S as TestedSystem>::Refusal,
            >,
        >,
    >,
>;

/// Meaning of a refusal to attach on healthy disks.
#[derive(Debug)]
pub enum RefusalMeaning {
    /// The refusal is wrong, unless a disk returned wrong data.
    WithoutReason,
    /// The refusal is right. The volume contains these bytes, of which these sectors (in order) are lost, if their list
    /// is known. The volume continues only if it is made anew.
    Holds(Vec<u8>, Option<Vec<u64>>),
    /// The refusal is right, and the volume must be attached nevertheless.
    Insist,
}

/// A set of disks in which one disk was replaced by another: an attach must report this and change nothing.
pub struct ExchangedDisk<R> {
    /// The disks for the attach.
    pub medium: DiskContents<R>,
    /// Content of the volume without the missing disk.
    pub volume: Vec<u8>,
    /// Text of the violation if the attach succeeds.
    pub wrong: &'static str,
}

/// Maximum durations, in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct TimeBounds {
    /// Duration of a client's request.
    pub request: Duration,
    /// Duration of closing a volume, with requests in flight.
    pub close: Duration,
    /// Duration of draining a volume on disks without faults, or whose faults have ended.
    pub drain: Duration,
    /// Bytes of concurrent writes that complete in the time of one request. With more bytes ahead, the limit is
    /// multiplied accordingly.
    pub turn_bytes: u64,
    /// Bytes that a write needs in addition to its data.
    pub write_bytes: u64,
}

/// Completed requests of a volume's clients in one incarnation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTotals {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub discards: u64,
}

/// Observer of all requests to a disk in one incarnation, which reports violations.
pub trait RequestWatcher {
    /// Checks a request to the disk; `writers` are the clients' requests so far.
    ///
    /// # Errors
    /// If the request is a violation.
    fn issued(&self, writers: &WriterHistories, request: &DiskRequest) -> Result<(), Violation>;

    /// Notes that a request of the disk ended; `failed` is true if it ended with an error.
    fn ended(&self, request: &DiskRequest, failed: bool);
}

/// A layer under test, with its settings in one scenario.
pub trait TestedSystem: ScenarioSettings {
    /// The attached volume.
    type Volume: Device + Clone + 'static;
    /// Report of an attach.
    type Report: 'static;
    /// Reason of a refusal to attach.
    type Refusal: Display + 'static;
    /// Reason of a failed drain.
    type Undrained: Debug;
    /// Events of an incarnation on which guarantees depend.
    type Known: Copy + Default;

    /// Returns the scenario of a seed.
    fn plan(seed: u64) -> ScenarioPlan<Self>;

    // Making, attaching, closing.

    /// Returns the disks at the start of a scenario: the volume is made and contains [`BEFORE`](crate::stamp::BEFORE).
    fn fresh(plan: &ScenarioPlan<Self>) -> DiskContents<Self::Role>;

    /// Returns the disks of a volume made anew, with the content `seen`.
    fn renewed(plan: &ScenarioPlan<Self>, seen: &[u8]) -> DiskContents<Self::Role>;

    /// Attaches the volume on the disks of a machine.
    fn attach(&self, machine: &Machine<Self::Role>, why: AttachPurpose) -> AttachFuture<Self>;

    /// Closes the volume, with requests in flight.
    fn close(volume: &Self::Volume) -> IoFuture<'_, ()>;

    /// Completes all deferred work.
    ///
    /// # Errors
    /// The work that remains, and the reason.
    fn drain(volume: &Self::Volume) -> impl Future<Output = Result<(), Self::Undrained>>;

    /// Returns true if no work is left and the volume reports a loss.
    fn tells_of_loss(_undrained: &Self::Undrained) -> bool {
        false
    }

    /// Declares data lost that the volume cannot read, as an administrator may do. Returns false if the volume has no
    /// such data.
    fn abandon_unreadable(_volume: &Self::Volume) -> bool {
        false
    }

    // Freezes.

    /// Freezes the volume for `limit` at most, as the program does: client changes wait, and the disks do not change.
    /// The call is not cancelled. Systems that cannot be frozen keep the default, and their plans have no freezes.
    ///
    /// # Errors
    /// The reason why the volume is not frozen.
    fn freeze(
        _volume: &Self::Volume,
        _limit: Duration,
    ) -> impl Future<Output = Result<(), String>> {
        async { Err("it cannot be frozen".into()) }
    }

    /// Returns true while the volume is frozen.
    fn is_frozen(_volume: &Self::Volume) -> bool {
        false
    }

    /// Lets client changes continue. Returns false if the volume is not frozen.
    fn thaw(_volume: &Self::Volume) -> bool {
        false
    }

    /// Returns true if a frozen volume leaves this disk unchanged.
    fn stays_still(_role: Self::Role, _known: Self::Known) -> bool {
        true
    }

    /// Checks the report of an attach of copies of all disks, made while the volume was frozen.
    ///
    /// # Errors
    /// If recovery had any work.
    fn check_copy(_report: &Self::Report, _known: Self::Known) -> Result<(), Violation> {
        Ok(())
    }

    /// Returns the content of the volume in a copy of one disk, if this disk alone is the frozen volume.
    fn copied_alone(
        _plan: &ScenarioPlan<Self>,
        _copy: &DiskContents<Self::Role>,
    ) -> Option<Vec<u8>> {
        None
    }

    // Replacements.

    /// Replaces a device of the volume in use, as an administrator does once in an incarnation. Returns false if the
    /// volume has no such device, or is being closed. Systems that keep the default have no replacements in their plans.
    ///
    /// # Errors
    /// The reason why the device is not replaced. Without faults, this is a violation.
    fn replace_device(
        &self,
        _volume: &Self::Volume,
        _disks: &PerDisk<Self::Role, Rc<SimDisk>>,
        _known: &Cell<Self::Known>,
    ) -> impl Future<Output = Result<bool, String>> {
        async { Ok(false) }
    }

    // Guarantees.

    /// Returns the guarantee of the volume after a crash in this situation, on disks without wrong data.
    fn guarantee(&self, known: Self::Known) -> CrashGuarantee;

    /// Returns the maximum durations.
    fn bounds(&self) -> TimeBounds;

    /// Returns true if a write is durable when it is acknowledged.
    fn is_durable_at_once(&self) -> bool {
        false
    }

    /// Returns true if a FUA write makes all writes durable that were acknowledged before it.
    fn fua_covers_earlier(&self) -> bool {
        true
    }

    /// Returns true if all acknowledged data survives the death of the process, while the disks continue and lose
    /// nothing.
    fn outlives_the_process(&self) -> bool {
        false
    }

    /// Returns true if reads may return the last flushed data, although newer data was acknowledged.
    fn may_lose_unflushed(_known: Self::Known) -> bool {
        false
    }

    /// Returns true if a write must not fail, regardless of other requests.
    fn must_take_writes(
        _plan: &ScenarioPlan<Self>,
        _incarnation: &Incarnation<Self::Role>,
    ) -> bool {
        false
    }

    /// Returns true if the content of the disks is defined after the death of the process.
    fn may_be_killed(_known: Self::Known) -> bool {
        true
    }

    /// Returns the meaning of a refusal to attach these disks.
    fn refused(
        &self,
        refusal: &Self::Refusal,
        known: Self::Known,
        medium: &DiskContents<Self::Role>,
    ) -> RefusalMeaning;

    /// Returns disks to be tried after the last incarnation instead of its own, if any.
    fn exchanged(&self, _medium: &DiskContents<Self::Role>) -> Option<ExchangedDisk<Self::Role>> {
        None
    }

    /// Returns the disks after the last incarnation with changed bits in data that was durable before the volume was
    /// idle for some seconds. An attach must be refused, or reads must return errors or the flushed data.
    fn rotten(
        _plan: &ScenarioPlan<Self>,
        _medium: &DiskContents<Self::Role>,
    ) -> Option<DiskContents<Self::Role>> {
        None
    }

    // Checkers of the system under test.

    /// Returns the observer of a disk in one incarnation.
    fn watcher(
        &self,
        role: Self::Role,
        disks: &PerDisk<Self::Role, Rc<SimDisk>>,
    ) -> Box<dyn RequestWatcher>;

    /// Notes that a request of a disk ended. `attached` is true if the volume was attached before in this incarnation.
    fn ended(
        &self,
        known: &mut Self::Known,
        attached: bool,
        role: Self::Role,
        request: &DiskRequest,
        failed: bool,
    );

    /// Checks the duration of a plain write, while `ahead` bytes of concurrent writes were in flight or arrived.
    ///
    /// # Errors
    /// If the write took too long.
    fn waited(
        _plan: &ScenarioPlan<Self>,
        _incarnation: &Incarnation<Self::Role>,
        _took: Duration,
        _ahead: u64,
    ) -> Result<(), Violation> {
        Ok(())
    }

    /// Checks a volume in service, once a second.
    ///
    /// # Errors
    /// If the volume violates a condition.
    fn check_serving(_volume: &Self::Volume, _known: &mut Self::Known) -> Result<(), Violation> {
        Ok(())
    }

    /// Checks the statistics of a volume without failures and without requests in flight.
    ///
    /// # Errors
    /// If the statistics are inconsistent.
    fn check_accounts(
        _volume: &Self::Volume,
        _report: &Self::Report,
        _asked: &ClientTotals,
    ) -> Result<(), Violation> {
        Ok(())
    }

    /// Checks a volume that was drained.
    ///
    /// # Errors
    /// If the volume still has work that draining should complete.
    fn check_drained(_volume: &Self::Volume, _known: Self::Known) -> Result<(), Violation> {
        Ok(())
    }

    /// Compares the disks before a successful attach with those after the incarnation.
    ///
    /// # Errors
    /// If a required change did not happen.
    fn check_lived(
        _before: &DiskContents<Self::Role>,
        _after: &DiskContents<Self::Role>,
    ) -> Result<(), Violation> {
        Ok(())
    }

    // Exhaustive tests.

    /// Returns runs that are checked after every request, with their names, for scripts of `seed`.
    fn cut_everywhere(seed: u64) -> Vec<(String, ScenarioPlan<Self>)>;

    /// Returns the settings of scenarios in which requests of a kind fail. `None` if a disk never receives such
    /// requests.
    fn failing(role: Self::Role, op: DeviceOp) -> Option<Self>;
}

/// Returns the sum of the ranges' lengths.
pub fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
