//! The filesystem: it is on a log-structured space of its own, and is served as files, not as a device.
//!
//! `spec.rs` and `options.rs` declare the kind, and `kind.rs` implements it. `create.rs` creates a filesystem, `attached.rs` attaches it, and `offline.rs` inspects a filesystem that is not
//! attached. `status.rs` collects its report, and `render.rs` formats reports for people. Reports of the space below come
//! from `space/`.

mod attached;
mod create;
mod error;
mod kind;
mod offline;
mod options;
mod render;
mod report;
mod spec;
mod status;

pub(crate) use kind::FilesKind;
pub(crate) use spec::SPEC;
pub use status::FilesFacts;
