//! The filesystem as a layer: it is on a log-structured space of its own, and is served as files, not as a device.
//!
//! `make.rs` creates a filesystem, `in_use.rs` attaches it, and `offline.rs` inspects a filesystem that is not in use.
//! `status.rs` collects its status, and `words.rs` formats its reports for people. Reports of the space below come from
//! `space/`.

mod in_use;
mod make;
mod offline;
mod status;
pub(crate) mod words;

pub(crate) use in_use::attach;
pub use make::FilesystemCreateSpec;
pub(crate) use make::make;
pub(crate) use offline::DumpError;
pub use offline::FilesCheck;
pub(crate) use offline::{check, dump};
pub use status::{FilesFacts, FilesystemCounters, FilesystemRequestKind};
