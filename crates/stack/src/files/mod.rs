//! The filesystem as a layer: on a log-structured space of its own, and served as files, not as a device.
//!
//! `make.rs` makes one, `in_use.rs` takes it into use, `offline.rs` looks at one that is not, `status.rs` is what it says
//! of itself, `words.rs` for people. What the space below it says is `space/`'s.

mod in_use;
mod make;
mod offline;
mod status;
pub(crate) mod words;

pub(crate) use in_use::attach;
pub use make::FilesWanted;
pub(crate) use make::make;
pub(crate) use offline::DumpError;
pub use offline::FilesCheck;
pub(crate) use offline::{check, dump};
pub use status::{Asked, Counted, FilesFacts};
