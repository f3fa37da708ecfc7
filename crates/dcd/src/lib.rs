//! DCD, the disk caching disk: a write cache in front of a slower device.
//!
//! After Nightingale, Hu and Yang, *The Design and Implementation of a DCD Device Driver for Unix* (USENIX ATC 1999).
//! Small writes are gathered in a segment buffer in memory and appended to a log in large transfers. They are destaged
//! to their addresses on the data device when this device is idle. `docs/design/dcd.md` describes which parts of the
//! paper are kept, which are changed, and why.
//!
//! Invariants (each has a test of its name in `tests/volume/invariants.rs`):
//! - **I1** Recovery applies a record only if it applied every record before it, back to the tail.
//! - **I2** A segment is reused only when all its data is durable on the data device, or superseded by durable data,
//!   and the tail that excludes the segment is durable.
//! - **I3** The tail is durable before any segment that it excludes is overwritten.
//! - **I4** Recovery changes none of the data that it recovers, until it has succeeded.
//! - **I5** A flush completes only after the records it covers are on the device, and a flush of the device that was
//!   issued after them has completed. Alternatively, these records were written with FUA, if no other data on the
//!   device needs the flush.
//! - **I6** Writes of one sector to the data device are totally ordered.
//! - **I7** After the log fails, no acknowledgement relies on it; after the data device fails, dirty data stays in the
//!   log. No failure ends with a false acknowledgement or a hang.
//!
//! Reading order: `map.rs` (the location of every sector), `engine.rs` (shared by the operations) with `state.rs`
//! (other state), `write.rs` with `admission` (which decides when writers wait), `read.rs`, `policy.rs`, `noting.rs`,
//! `destage.rs` with `yielding.rs` (which decides when destaging waits), `recover.rs` with `pairing.rs`.
//! Then the handling of device failures: `past_log.rs`, `trouble.rs`, `refused.rs`, `degraded.rs`, and `salvage.rs`
//! long after a failure. `volume.rs` is the public interface. (`marks.rs` carries out zeroes and discards on the data
//! device, `resize.rs` lengthens the volume with its data device, `still.rs` with `reopening.rs` holds both devices
//! still for a copy, `replacement.rs` with `succession.rs` replaces the log, `former.rs` replaces one that is out of
//! use while the volume is not attached, `scrub.rs` verifies the log.)
//!
//! Terms: a *line* in the code is a block of 4 KiB of the volume. A *piece* is a fragment: the sectors of one block
//! that one write put into the log. *Home* is a sector's address on the data device. A *mark* is a range without data:
//! a pending zero, a pending discard, or a lost range.

mod admission;
mod degraded;
mod destage;
mod drive_while_waiting;
mod engine;
mod error;
mod fingerprint;
mod format;
mod former;
mod home;
mod inspect;
mod map;
mod marks;
mod noting;
mod options;
mod pairing;
mod past_log;
mod piece;
mod policy;
mod ranges;
mod read;
mod recover;
mod refused;
mod reopening;
mod replacement;
mod resize;
mod running;
mod salvage;
mod scrub;
mod state;
mod stats;
mod still;
mod succession;
mod table;
mod trouble;
mod volume;
mod witness;
mod write;
mod yielding;

pub use error::{DcdAttachError, DcdCreateError};
pub use fingerprint::{BLOCKS as FINGERPRINT_BLOCKS, Fingerprint};
pub use forebay_ring_log::{OffsetPolicy, VolumeId};
pub use format::{DataIdentity, SuperblockPayload};
pub use former::{FormerLog, SuccessorError};
pub use inspect::{
    DcdCheckReport, InspectError, LogDumpEntry, LogDumpItem, check, check_witnessed, dump, erase,
    inspect,
};
pub use options::AttachOptions;
pub use recover::{AttachReport, CreateOptions, SuperblockContents, create};
pub use replacement::{LogReplacement, ReplacementError, ReplacementReport};
pub use resize::{DcdResizeReport, ResizeError};
pub use salvage::{LogSalvageReport, SalvageError, salvage, salvageable};
pub use scrub::{LogScrub, LogSuperblockScrub};
pub use stats::{CacheMode, DcdStatus, DestageActivity};
pub use still::HoldError;
pub use volume::{DcdVolume, DrainError, StaleLog};
pub use witness::{FailedLogFuture, FailedLogRegistry, is_recorded};
