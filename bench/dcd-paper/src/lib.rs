//! The experiments of the DCD paper, repeated: `forebay-bench paper-dcd`.
//!
//! Nightingale, Hu and Yang, *The Design and Implementation of a DCD Device Driver for Unix* (USENIX ATC 1999), section
//! 4: figures 7 to 12, the maximum possible speedup, and the questions that the paper leaves open (order of destaging,
//! sizes, thresholds).
//!
//! Experiments on the engine and the disk run on a virtual clock: the shipping cache over emulated disks, under a model
//! of the filesystem of that time. Such a run takes a second and gives equal figures on every machine. Experiments on a
//! real filesystem need a real clock; the program runs them itself and passes the results to [`write_report`].
//!
//! Every figure is compared with the figure of the plain disk in the same run. The experiments do not verify the data
//! that they read; the tests and the simulator do.
//!
//! Reading order: `disks.rs` (compared setups), `arm.rs` (time of a disk), `ufs.rs` and `users.rs` (workload),
//! `paper_cache.rs` (the paper's own cache, for destage orders that ours does not have), then the experiments
//! `bandwidth.rs`, `speedup.rs`, `effects.rs`; `report.rs`.

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
