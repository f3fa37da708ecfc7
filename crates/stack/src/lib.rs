//! From an administrator's configuration to a device that can be served.
//!
//! A path, perhaps of a part of a device, is a [`Spec`]. A volume's configuration file is a [`Description`] of a
//! [`Tree`] of layers. Both are only text until [`open()`] opens the devices, with all the checks that prevent mixing
//! them up. [`attach`] then puts the layers on the devices and returns a [`Layer`]. Commands and daemons use this
//! interface and do not depend on a particular kind of layer. The same holds for creating a volume ([`Wanted`]) and for
//! inspecting a volume that is not in use ([`Own`]). The layers are write caches (`cache/`) and log-structured volumes
//! (`space/`); a cache may be over a log-structured volume (`over/`). A filesystem (`files/`) is on a log-structured
//! space of its own, and offers files instead of a device.
//!
//! This crate reads devices only. The program reads and writes the text of configuration files.
//!
//! Reading order: `backend.rs`, `spec.rs`, `model.rs`, `options.rs`, `tree.rs`, `description.rs`, `open.rs`,
//! `mounting.rs`, `volume.rs`, `make.rs`, `content.rs`; `layer.rs`, `status.rs`, `vitals.rs`, `cache/`, `space/`,
//! `over/`, `files/`.

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
