//! The log-structured volume as a layer. Callers know only its variants in `tree.rs`, `status.rs` and `error.rs`.
//!
//! - `make.rs` creates a volume; `measure.rs` measures the speed of its device.
//! - `attach.rs` attaches a volume as `in_use.rs`, over `served.rs`, which counts requests.
//! - `offline.rs` inspects a volume that is not in use, through an overlay that keeps the writes of recovery in memory.
//! - `resize.rs` extends a volume, and `tune.rs` changes its placement.
//! - `hint.rs` advises on a volume that is refused.
//! - `spare.rs` defines the share that is kept free.
//! - `status.rs` collects the status, and `words.rs` formats reports for people.

mod attach;
mod hint;
mod in_use;
mod make;
mod measure;
mod offline;
mod options;
mod resize;
mod served;
mod spare;
mod status;
mod tune;
pub(crate) mod words;

pub(crate) use attach::{attach, take_up};
pub(crate) use forebay_vsl::{SpaceDumpItem as SpaceItem, dump};
pub(crate) use hint::hint;
pub(crate) use make::{CreatedSpace, SpaceCreateSpec, SpaceLength, comfortable, layout_on, make};
pub use offline::{SpaceCheck, SpaceVerdict};
pub(crate) use offline::{check, erase, in_memory, inspect, is_of_files, look, superblocks};
pub(crate) use options::{NOT_OF_A_SPACE, NOT_OF_FILES, OF_A_SPACE};
pub use options::{NoSuchOption, RequestedPlacement, SpaceOptions};
pub(crate) use resize::resize_room;
pub use spare::{ParseSpareError, SpareShare};
pub(crate) use status::status_of;
pub use status::{SpaceMode, SpaceStatus};
pub(crate) use tune::tune;
