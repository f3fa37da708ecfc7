//! The log-structured volume.
//!
//! - `create.rs` makes a space, and `plan.rs` a volume from its parameters; `measure.rs` measures the speed of its
//!   device.
//! - `attach.rs` attaches a volume as `attached.rs`, over `counted.rs`, which counts requests.
//! - `offline.rs` inspects a volume that is not attached, through an overlay that keeps the writes of recovery in memory.
//! - `resize.rs` extends a volume, and `tune.rs` changes its placement.
//! - `hint.rs` advises on a volume that is refused.
//! - `spec.rs` and `options.rs` declare the kind, and `kind.rs` implements it; `spare.rs` is the share that is kept
//!   free. `superblock.rs` also serves the filesystem.
//! - `status.rs` collects the report, and `render.rs` formats it for people.

mod attach;
mod attached;
mod counted;
mod create;
mod error;
mod hint;
mod kind;
mod measure;
mod offline;
pub(crate) mod options;
mod plan;
mod render;
mod report;
mod resize;
mod scrub;
mod spare;
mod spec;
mod status;
mod superblock;
mod tune;

pub(crate) use attach::{attach, open_space};
pub(crate) use create::{CreatedSpace, SpaceCreateSpec, SpaceLength, comfortable, layout_on, make};
pub(crate) use error::SpaceVolumeError;
pub(crate) use kind::SpaceKind;
pub(crate) use offline::{SpaceCheck, check, erase, find, in_memory, look, superblocks};
pub(crate) use options::SIZE;
pub(crate) use plan::{check_sizes, create_spec, fits, make_volume, open_for_space, unused_of};
pub(crate) use render::check as check_lines;
pub(crate) use resize::resize_room;
pub(crate) use scrub::scrub_targets;
pub use spare::{ParseSpareError, SpareShare};
pub(crate) use spec::{ROLES, SPEC};
pub(crate) use status::status_of;
pub use status::{SpaceMode, SpaceStatus};
pub(crate) use superblock::{dump_space, identify, renew_identity, space_tree};
pub(crate) use tune::tune;
