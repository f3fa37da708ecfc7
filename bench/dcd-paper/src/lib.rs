//! The experiments of the DCD paper, again: `forebay bench paper-dcd`.
//!
//! Nightingale, Hu and Yang, *The Design and Implementation of a DCD Device Driver for Unix* (USENIX
//! ATC 1999), section 4: figures 7 to 12, the maximum possible speedup, and what the paper leaves open
//! (the order of destaging, sizes, thresholds).
//!
//! What is asked of the engine and of the disk is measured on a virtual clock: the shipping cache over
//! emulated disks, under a model of the filesystem of that time. Such a run takes a second, and gives
//! the same figures on every machine. What is asked of a real filesystem takes a real clock; the
//! program does that with its own means, and hands what it measured to [`write_report`].
//!
//! Every figure stands beside that of the plain disk in the same run. Nothing here looks at what is
//! read: that it is right is the business of the tests and of the simulator.
//!
//! Reading order: `disks.rs` (what is compared), `arm.rs` (what a disk's time goes to), `ufs.rs` and
//! `users.rs` (what is done on it), `paper_cache.rs` (the paper's own cache, to destage in other orders than
//! ours), then what is asked: `bandwidth.rs`, `speedup.rs`, `effects.rs`; `report.rs`.

mod arm;
mod bandwidth;
mod disks;
mod effects;
mod measured;
mod office;
mod paper_cache;
mod report;
mod response;
mod scale;
mod speedup;
mod tree;
mod ufs;
mod users;

pub use forebay_report::Circumstances;
pub use measured::{PaperMeasurements, measure};
pub use report::{FilesystemRun, write_report};
pub use scale::PaperScale;
