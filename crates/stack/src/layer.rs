//! What a volume that is in use can be asked, whatever layers it is made of.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

pub use forebay_dcd::{Place, PlaceExtent};
use forebay_device::{Device, DeviceError};
use forebay_dfs::Fs;
use forebay_placement::placement::Kind;
use forebay_units::ByteLen;

use crate::not_done::NotDone;
use crate::{Cause, Counted, Placing, Status};

/// What a layer answers, once it has.
pub type LayerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Why not everything is where it belongs, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotDrained(pub(crate) String);

/// A volume whose devices became longer, or that was to be longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resized {
    /// Its length before, in bytes; of a filesystem, how much fitted into it.
    pub before: u64,
    /// The same now.
    pub len: u64,
    /// What an administrator should know.
    pub notes: Vec<String>,
}

/// How a volume places data, and what is known for that choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// The placement before.
    pub before: Kind,
    /// The placement now.
    pub placement: Kind,
    /// True if the volume changes it where another is expected to cost less.
    pub auto: bool,
    /// What costs least by what its users write, and why; none before enough was written.
    pub reason: Option<String>,
    /// Looks at what users write so far, and the placement that the newest of them found better.
    pub looks: u64,
    /// See `looks`.
    pub leaning: Option<Kind>,
}

/// The uppermost layer of an attached volume: a device, and what there is to know and to do besides.
///
/// What a layer has no use for, it leaves as it is here.
pub trait Layer {
    /// The volume's name.
    fn name(&self) -> String;

    /// The volume's id.
    fn id(&self) -> String;

    /// The volume, to be served as a block device; none of a filesystem.
    fn device(&self) -> Option<Rc<dyn Device>> {
        None
    }

    /// The filesystem, to be mounted, and where to count what is asked of it; none of what is a block device.
    fn files(&self) -> Option<(Fs, Rc<Counted>)> {
        None
    }

    /// How much more data there is room for where none is yet, in bytes; none if there is room for all of it.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Whether zeroes cost the same whatever their length.
    fn fast_zeroes(&self) -> bool {
        false
    }

    /// Whether what was acknowledged is there after the process that serves the volume has died, flushed
    /// or not, as long as the system lives.
    fn survives_kill(&self) -> bool {
        false
    }

    /// The volume at a glance.
    fn status(&self) -> Status;

    /// Where the parts of a byte range lie, in order, as far as is known without reading; what is not known counts as at home.
    fn place(&self, range: Range<u64>) -> Vec<PlaceExtent>;

    /// The same, with what has to be read for it. Of what cannot be read, nothing is said: parts may be missing.
    fn look_up_places(&self, range: Range<u64>) -> LayerFuture<'_, Vec<PlaceExtent>> {
        Box::pin(async move { self.place(range) })
    }

    /// Brings everything that was acknowledged before the call where it is to stay, and keeps trying
    /// while a device fails: bound it by a timeout, and look at [`Layer::status`] for progress.
    ///
    /// # Errors
    /// If something cannot be brought there because it is lost.
    fn drain(&self) -> LayerFuture<'_, Result<(), NotDrained>>;

    /// Why a drain that does not end does not end; none if nothing is left.
    fn what_is_left(&self) -> Option<NotDrained>;

    /// True while there is something to give up: data that a device does not give back.
    fn has_to_give_up(&self) -> bool {
        false
    }

    /// Counts as lost, on an administrator's word, what cannot be read now.
    fn give_up(&self) {}

    /// True until what was to be given up is lost, or was read after all.
    fn gives_up(&self) -> bool {
        false
    }

    /// Looks at the lengths of the devices, takes what they have become longer, and makes the volume `size` bytes long if
    /// that is given. [`Layer::device`] has the new length from then on.
    ///
    /// # Errors
    /// If a device became shorter, or the volume cannot have that size. It keeps its length.
    fn resize(&self, size: Option<ByteLen>) -> LayerFuture<'_, Result<Resized, NotDone>> {
        let _ = size;
        Box::pin(async {
            let text = "volumes of this kind cannot be made longer";
            Err(NotDone::new(Cause::Usage, text))
        })
    }

    /// Has the volume place data like this from now on, or as it finds best; `None` changes nothing.
    ///
    /// # Errors
    /// If the volume places no data, is too full for that placement, or its device fails.
    fn tune(&self, placement: Option<Placing>) -> LayerFuture<'_, Result<Tuned, NotDone>> {
        let _ = placement;
        Box::pin(async { Err(NotDone::places_nothing()) })
    }

    /// Ends service: new requests fail, those under way end, and what was acknowledged becomes durable.
    /// Takes no longer than the devices, and for devices that fail no longer than was agreed.
    ///
    /// # Errors
    /// If what was acknowledged could not be made durable.
    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>>;

    /// How far the work on the devices is, by a measure of the layer's own that grows while any is done: for who waits
    /// long for [`Layer::close`]. Always the same where that takes no longer than was agreed.
    fn progress(&self) -> u64 {
        0
    }

    /// What to know before the devices are used otherwise, if there is anything. After
    /// [`Layer::close`] it is final.
    fn warning(&self) -> Option<String> {
        None
    }

    /// What requests may be waiting for now, in words.
    fn what_holds_up(&self) -> String;
}
