//! From what an administrator writes to a device that can be served.
//!
//! A path, perhaps of a part of a device, is a [`Spec`]; a volume's description file is a
//! [`Description`] of a [`Tree`] of layers; both are only text until [`open`] opens the devices with
//! all the checks that keep the two from being mixed up, and [`attach`] puts the layers on
//! them. What comes of that is a [`Layer`]: commands and daemons ask it, and know none by name. Nor do
//! they where a volume is made ([`Wanted`]), or looked at while it is not in use ([`Own`]). The layers are
//! write caches (`cache/`) and log-structured volumes (`space/`); a cache may be over one of these (`over/`). A filesystem
//! (`files/`) is on a log-structured space of its own, and is no device but files.
//!
//! This crate reads no files but devices: the text of a description comes from the program and goes
//! back to it.
//!
//! Reading order: `backend.rs`, `spec.rs`, `model.rs`, `options.rs`, `tree.rs`, `description.rs`, `open.rs`,
//! `mounting.rs`, `volume.rs`, `make.rs`, `content.rs`; `layer.rs`, `status.rs`, `vitals.rs`, `cache/`, `space/`, `over/`, `files/`.

mod backend;
mod cache;
mod content;
mod description;
mod error;
mod files;
mod layer;
mod lines;
mod make;
mod model;
mod mounting;
mod not_done;
mod open;
mod option_texts;
mod options;
mod over;
mod space;
mod spec;
mod status;
mod text;
mod tree;
mod vitals;
mod volume;

pub use backend::{Backend, Identity};
pub use cache::{Accept, Attached, Held, Testimony, VolumeId, Witness};
pub use content::{Content, probe};
pub use description::{Description, DescriptionError, Name, NameError};
pub use error::{Cause, StackError};
pub use files::{Asked, Counted, FilesCheck, FilesFacts, FilesWanted};
pub use forebay_dcd::Acknowledge;
pub use forebay_dfs::{Clock, Fs, Time};
pub use layer::{Layer, LayerFuture, NotDrained, Place, PlaceExtent, Resized, Tuned};
pub use lines::{Around, Lines};
pub use make::{Blank, Made, Wanted};
pub use model::{Model, ModelError};
pub use mounting::{MountDir, MountOptionError, MountOptions};

pub use not_done::NotDone;
pub use open::{Pair, Part, open_one, open_pair};
pub use options::{
    Bypass, CacheOptions, Discard, Http, Listen, ListenError, Memory, Metrics, Options,
    ParseBypassError, ParseChoiceError, ParseMemoryError, Via,
};
pub use space::{
    NoSuchOption, ParseSpareError, Placing, SpaceCheck, SpaceMode, SpaceOptions, SpaceStatus,
    SpaceVerdict, SpareShare,
};
pub use spec::{Spec, SpecError};
pub use status::{
    CacheCheck, CacheStatus, CheckReport, DumpItem, FilesStatus, SalvageReport, Status, Verdict,
};
pub use tree::{Below, CacheTree, DEPTH_MAX, Kind, SpaceTree, Tree};
pub use vitals::{Flow, Latency, Room, Vitals};
pub use volume::{Info, Opened, Own, attach, named_by, open, salvage};
