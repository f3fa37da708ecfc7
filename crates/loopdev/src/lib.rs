//! `/dev/loopN`: a device as a loop device over a file that a FUSE server of this process serves. Any kernel supports
//! this.
//!
//! [`VolumeFile`] is the file: the handler of a filesystem with one file, over the server of the crate `fuse`.
//! [`attach_loop`] sets a loop device up over such a file.
//!
//! A loop device whose server was killed stays behind without function, and so does the mount below it.
//! [`cleanup_stale`] recognises both by the kernel's own data alone, and removes them.
//!
//! No process keeps the loop device open while it is in use. If the process were killed, closing the device would write
//! back its page cache to a server that no longer exists. For this reason `LO_FLAGS_AUTOCLEAR` is of no use: without an
//! opener the device would be cleared at once.
//!
//! Reading order: `volume_file/mod.rs`, `volume_file/file.rs`, `driver.rs`, `loop_volume.rs`, `stale.rs`.

mod driver;
mod loop_volume;
mod stale;
mod volume_file;

pub use loop_volume::{LoopAttachError, LoopDetachError, LoopOptions, LoopVolume, attach_loop};
pub use stale::{CleanupError, LeftoverPolicy, RemovedLeftovers, cleanup_stale, is_of_volume};
pub use volume_file::VolumeFile;
