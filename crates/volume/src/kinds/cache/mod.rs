//! The write cache: a log in front of a data device, or in front of a log-structured volume.
//!
//! - `spec.rs` and `options.rs` declare the kind, and `kind.rs` implements it.
//! - `devices.rs` has the opened devices of a cache; `opened.rs` checks, attaches and salvages them.
//! - `create.rs` creates a cache, and `log.rs` formats its log. `successor.rs` makes another log when that log is out of
//!   use.
//! - `attach.rs` attaches a cache, as `attached.rs`. `over_volume/` does the same over a log-structured volume.
//! - `offline.rs` inspects the log of a cache that is not attached; `data_name.rs` has the names of data in a log.
//! - `report.rs`, `render.rs` and `vitals.rs` make reports for programs, people and the screen.

mod attach;
mod attached;
mod create;
mod data_name;
mod devices;
mod error;
mod kind;
mod log;
mod offline;
mod opened;
mod options;
mod over_volume;
mod render;
mod report;
mod settings;
mod spec;
mod successor;
mod vitals;

pub use forebay_dcd::{FailedLogFuture, FailedLogRegistry, FormerLog, VolumeId};
pub(crate) use kind::CacheKind;
pub(crate) use log::LOG_SEGMENT;
pub(crate) use spec::SPEC;
pub(crate) use successor::make_successor;
