//! The log-structured volume as a layer. Who is above knows no more of it than its variant in `tree.rs`, `status.rs`
//! and `error.rs`.
//!
//! `make.rs` makes one (`measure.rs` tells how fast a device is), `attach.rs` takes it into use: `in_use.rs`, over
//! `served.rs`, which counts requests; `offline.rs` looks at one that is not in use, through an overlay, which
//! keeps what recovery writes in memory. `resize.rs` makes one longer, `tune.rs` changes how it places data. `hint.rs` says what to do about one that is refused. `spare.rs` is the share that is kept free. `status.rs` is what it says of itself, `words.rs` for people.

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
pub(crate) use forebay_vsl::{DumpItem as SpaceItem, dump};
pub(crate) use hint::hint;
pub(crate) use make::{Long, MadeSpace, NewSpace, comfortable, layout_on, make};
pub use offline::{SpaceCheck, SpaceVerdict};
pub(crate) use offline::{check, erase, in_memory, inspect, is_of_files, look, superblocks};
pub(crate) use options::{NOT_OF_A_SPACE, NOT_OF_FILES, OF_A_SPACE};
pub use options::{NoSuchOption, Placing, SpaceOptions};
pub(crate) use resize::resize_room;
pub use spare::{ParseSpareError, SpareShare};
pub(crate) use status::status_of;
pub use status::{SpaceMode, SpaceStatus};
pub(crate) use tune::tune;
