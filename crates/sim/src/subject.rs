//! What the simulator tries: a layer over disks, and what it promises.
//!
//! A subject says how its volume is made, attached and closed, what it promises as things are, and
//! what can be told of it from the outside. All else is the same for every subject: users, faults,
//! power cuts, looks, what users may read. So a new layer has worlds of its own once it has a
//! [`Subject`].

use std::fmt::{Debug, Display};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, IoFuture, Op};

use crate::disk::{Disk, Request};
use crate::lanes::{Lanes, Promise};
use crate::machine::{Machine, Medium};
use crate::plan::{Life, Plan, Settings};
use crate::role::Each;
use crate::violation::Violation;

/// Why a volume is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attach {
    /// To serve users, with the settings of its world.
    Serve,
    /// On healthy disks, to look at what is there.
    Look,
    /// The same after it was refused, and somebody said that it is to be attached all the same.
    Insist,
}

/// A volume on its way to being attached; with it comes what is known of it from then on.
pub type Attaching<S> = Pin<
    Box<
        dyn Future<
            Output = Result<
                (<S as Subject>::Volume, <S as Subject>::Report),
                <S as Subject>::Refusal,
            >,
        >,
    >,
>;

/// What a refusal to attach, on healthy disks, comes to.
#[derive(Debug)]
pub enum Refused {
    /// It has no reason, unless a disk has not kept its word.
    WithoutReason,
    /// It has one, and the volume holds these bytes, of which those sectors (in order) are lost, if
    /// anything says which; it goes on only if it is made anew.
    Holds(Vec<u8>, Option<Vec<u64>>),
    /// It has one, and is to be attached all the same.
    Insist,
}

/// Disks of which one is not what it was: attaching must say so and touch nothing.
pub struct Exchanged<R> {
    /// The disks as they are tried.
    pub medium: Medium<R>,
    /// What the volume holds without the one that is gone.
    pub volume: Vec<u8>,
    /// What is wrong if it is attached.
    pub wrong: &'static str,
}

/// How long anything may take, in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A request of a user.
    pub request: Duration,
    /// Closing a volume, with whatever is under way.
    pub close: Duration,
    /// Draining it on disks on which nothing is wrong, or not any more.
    pub drain: Duration,
    /// So many bytes of writes at once get through in the time of one request; behind more than
    /// that, everything may take as many times longer.
    pub turn_bytes: u64,
    /// Bytes that a write takes there beside its data.
    pub write_bytes: u64,
}

/// What the users of a volume asked in one life and was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Reads.
    pub reads: u64,
    /// Bytes they read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes they wrote.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub discards: u64,
}

/// Sees everything that a disk is asked in one life, and says what must not be.
pub trait Watcher {
    /// The disk is asked for something; `lanes` is what users asked for so far.
    ///
    /// # Errors
    /// What is wrong with it.
    fn issued(&self, lanes: &Lanes, request: &Request) -> Result<(), Violation>;

    /// A request of the disk ended; `failed` if with an error.
    fn ended(&self, request: &Request, failed: bool);
}

/// A layer that is tried, as it is set up in one world.
pub trait Subject: Settings {
    /// What is attached.
    type Volume: Device + Clone + 'static;
    /// What attaching says of it.
    type Report: 'static;
    /// Why it is not attached.
    type Refusal: Display + 'static;
    /// Why it could not be drained.
    type Undrained: Debug;
    /// What has happened to it in a life, as far as its promises hang on that.
    type Known: Copy + Default;

    /// The world of a seed.
    fn plan(seed: u64) -> Plan<Self>;

    // Making, attaching, closing.

    /// The disks when a world begins: the volume is made and holds [`BEFORE`](crate::stamp::BEFORE).
    fn fresh(plan: &Plan<Self>) -> Medium<Self::Role>;

    /// The disks of a volume made anew, which holds `seen`.
    fn renewed(plan: &Plan<Self>, seen: &[u8]) -> Medium<Self::Role>;

    /// Attaches the volume on the disks of a machine.
    fn attach(&self, machine: &Machine<Self::Role>, why: Attach) -> Attaching<Self>;

    /// Closes it, with whatever is under way.
    fn close(volume: &Self::Volume) -> IoFuture<'_, ()>;

    /// Does all that it has put off.
    fn drain(volume: &Self::Volume) -> impl Future<Output = Result<(), Self::Undrained>>;

    /// True if nothing is left to be done and the volume says that something is lost.
    fn tells_of_loss(_undrained: &Self::Undrained) -> bool {
        false
    }

    /// Gives up for good what the volume cannot read, as an administrator may; false if there is
    /// nothing of that kind.
    fn give_up(_volume: &Self::Volume) -> bool {
        false
    }

    // Promises.

    /// What is held of the volume after a crash as things are, on disks that kept their word.
    fn promise(&self, known: Self::Known) -> Promise;

    /// How long anything may take.
    fn bounds(&self) -> Bounds;

    /// True if a write is durable when it is acknowledged.
    fn is_durable_at_once(&self) -> bool {
        false
    }

    /// True if with a FUA write all that was acknowledged before it is durable.
    fn fua_covers_earlier(&self) -> bool {
        true
    }

    /// True if all that was acknowledged is there when the process dies and the disks go on and lose
    /// nothing.
    fn outlives_the_process(&self) -> bool {
        false
    }

    /// True if reads may give what was flushed last, though something newer was acknowledged.
    fn may_lose_unflushed(_known: Self::Known) -> bool {
        false
    }

    /// True if a write has no reason to fail, whatever other requests have.
    fn must_take_writes(_plan: &Plan<Self>, _life: &Life<Self::Role>) -> bool {
        false
    }

    /// True if something is known of what the disks hold when the process dies and they go on.
    fn may_be_killed(_known: Self::Known) -> bool {
        true
    }

    /// What a refusal to attach these disks comes to.
    fn refused(
        &self,
        refusal: &Self::Refusal,
        known: Self::Known,
        medium: &Medium<Self::Role>,
    ) -> Refused;

    /// What is tried after the last life instead of attaching its disks, if anything.
    fn exchanged(&self, _medium: &Medium<Self::Role>) -> Option<Exchanged<Self::Role>> {
        None
    }

    /// The disks behind the last life, in which bits have changed of what was durable before the volume was idle for some
    /// seconds. Attaching them must be refused, or reads must give errors or what was flushed.
    fn rotten(_plan: &Plan<Self>, _medium: &Medium<Self::Role>) -> Option<Medium<Self::Role>> {
        None
    }

    // Its own checkers.

    /// Who watches a disk in one life.
    fn watcher(&self, role: Self::Role, disks: &Each<Self::Role, Rc<Disk>>) -> Box<dyn Watcher>;

    /// A request of a disk ended, in a life in which the volume was `attached` before or not yet.
    fn ended(
        &self,
        known: &mut Self::Known,
        attached: bool,
        role: Self::Role,
        request: &Request,
        failed: bool,
    );

    /// A plain write took so long, while `ahead` bytes of writes at once were under way or came.
    ///
    /// # Errors
    /// If that was too long.
    fn waited(
        _plan: &Plan<Self>,
        _life: &Life<Self::Role>,
        _took: Duration,
        _ahead: u64,
    ) -> Result<(), Violation> {
        Ok(())
    }

    /// Looks at a volume that serves: once a second while it does.
    ///
    /// # Errors
    /// What must not be.
    fn check_serving(_volume: &Self::Volume, _known: &mut Self::Known) -> Result<(), Violation> {
        Ok(())
    }

    /// Looks at the accounts of a volume on which nothing failed and nobody is at work.
    ///
    /// # Errors
    /// What does not agree.
    fn check_accounts(
        _volume: &Self::Volume,
        _report: &Self::Report,
        _asked: &Asked,
    ) -> Result<(), Violation> {
        Ok(())
    }

    /// Looks at a volume that was drained.
    ///
    /// # Errors
    /// What it should not have any more.
    fn check_drained(_volume: &Self::Volume, _known: Self::Known) -> Result<(), Violation> {
        Ok(())
    }

    /// Compares the disks before an attach that succeeded with what the life after it left.
    ///
    /// # Errors
    /// What did not happen to them.
    fn check_lived(
        _before: &Medium<Self::Role>,
        _after: &Medium<Self::Role>,
    ) -> Result<(), Violation> {
        Ok(())
    }

    // What is tried in full.

    /// Runs that are looked at after every request, with their names; for scripts of `seed`.
    fn cut_everywhere(seed: u64) -> Vec<(String, Plan<Self>)>;

    /// The world in which requests of a kind fail, and bytes of its volume; none if a disk is never
    /// asked for them.
    fn failing(role: Self::Role, op: Op) -> Option<Self>;
}

/// Bytes of some ranges.
pub fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
