//! DCD, the disk caching disk: a write cache in front of a slower device.
//!
//! After Nightingale, Hu and Yang, *The Design and Implementation of a DCD Device Driver for Unix*
//! (USENIX ATC 1999). Small writes are gathered in a segment buffer in memory, appended to a log in
//! large transfers, and destaged to their home addresses when the data device is idle.
//! `docs/design/dcd.md` says what is kept of the paper, what is changed, and why.
//!
//! Invariants (each has a test of its name in `tests/invariants.rs`):
//! - **I1** A record is applied at recovery only if every record before it, back to the tail, was.
//! - **I2** A segment is reused only when all it holds is durably home, or superseded by what is
//!   itself durable, and the tail that excludes it is durable.
//! - **I3** The tail is durable before anything it excludes is overwritten.
//! - **I4** Recovery changes nothing that it would itself recover, until it has succeeded.
//! - **I5** A flush completes only after the records it covers are on the device and a flush of the
//!   device issued after them has completed; or after they were written with FUA, where they are all
//!   that is not durable there.
//! - **I6** Home writes of one sector are totally ordered.
//! - **I7** After the log fails nothing is acknowledged on its word; after the data device fails,
//!   dirty data stays in the log. No failure ends with a lie or a hang.
//!
//! Reading order: `map.rs` (where every sector lies), `engine.rs` (what the operations share) with
//! `state.rs` (what else is known), `write.rs`, `read.rs`, `policy.rs`, `noting.rs` and `destage.rs`, `recover.rs` with
//! `pairing.rs`; then what happens when devices fail: `past_log.rs`, `trouble.rs`, `refused.rs`, `degraded.rs`, and `salvage.rs`
//! long after. `volume.rs` is the door. (`room.rs` and `pacing.rs` say when writers wait, `marks.rs`
//! takes zeroes and discards home, `resize.rs` lengthens the volume with its data device.)

mod beside;
mod degraded;
mod destage;
mod engine;
mod error;
mod fingerprint;
mod format;
mod home;
mod inspect;
mod map;
mod marks;
mod noting;
mod options;
mod pacing;
mod pairing;
mod past_log;
mod piece;
mod policy;
mod ranges;
mod read;
mod recover;
mod refused;
mod resize;
mod room;
mod salvage;
mod state;
mod stats;
mod table;
mod trouble;
mod volume;
mod witness;
mod write;

pub use error::{AttachError, CreateError};
pub use fingerprint::{BLOCKS as FINGERPRINT_BLOCKS, Fingerprint};
pub use forebay_log::{Gaps, VolumeId};
pub use format::{DataIdentity, Payload};
pub use inspect::{
    CheckReport, CheckVerdict, DumpExtent, DumpItem, InspectError, check, dump, erase, inspect,
};
pub use options::{Acknowledge, AttachOptions, ParseAcknowledgeError};
pub use recover::{AttachReport, CreateOptions, VolumeInfo, create};
pub use resize::{ResizeError, Resized};
pub use salvage::{SalvageError, SalvageReport, salvage, salvageable};
pub use stats::{Destaging, Latencies, Latency, Mode, Status};
pub use volume::{DrainError, Place, PlaceExtent, StaleLog, Volume};
pub use witness::{Testimony, Witness};
