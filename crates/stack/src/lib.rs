//! From what an administrator writes to a device that can be served.
//!
//! A path, perhaps of a part of a device, is a [`Spec`]; a volume's description file is a
//! [`Description`]; both are only text until [`open_pair`] opens the log and the data device with
//! all the checks that keep the two from being mixed up, and [`cache::attach`] puts the write cache on
//! them. What comes of that is a [`Layer`]: commands and daemons ask it, and know none by name.
//!
//! This crate reads no files but devices: the text of a description comes from the program and goes
//! back to it.
//!
//! Reading order: `backend.rs`, `spec.rs`, `model.rs`, `options.rs`, `description.rs`, `open.rs`; `layer.rs`,
//! `status.rs`, `cache/`.

mod backend;
pub mod cache;
mod description;
mod error;
mod layer;
mod lines;
mod model;
mod open;
mod options;
mod spec;
mod status;
mod text;

pub use backend::{Backend, Identity};
pub use description::{Description, DescriptionError, Name, NameError};
pub use error::{Cause, StackError};
pub use layer::{Layer, LayerFuture, NotDrained, Place, PlaceExtent};
pub use lines::{Around, Lines};
pub use model::{Model, ModelError};
pub use open::{Pair, Part, open_one, open_pair};
pub use options::{
    Bypass, Durability, Listen, ListenError, Memory, Metrics, Options, ParseBypassError,
    ParseChoiceError, ParseMemoryError, Via,
};
pub use spec::{Spec, SpecError};
pub use status::{CheckReport, DumpItem, SalvageReport, Status, Verdict};
