//! Disk models: how long would a named real disk take?
//!
//! A model is plain state: requests go in with the instant they arrive, completions come out with
//! the instant they are done. It does no waiting and holds no data. [`Emulated`] does the waiting and
//! has the data: a device that answers as the model says.
//!
//! Reading order: `disk`, the mechanical disk; `flash`, plain flash chips; `emulated.rs`
//! (which waits by `clockwork.rs`); `zoned.rs`, the zones of a shingled disk.

mod clockwork;
pub mod disk;
mod drive;
mod emulated;
mod even;
pub mod flash;
mod lateness;
mod zoned;

pub use drive::Drive;
pub use emulated::{Emulated, EmulatedError, Timing};
pub use even::Even;
pub use lateness::Lateness;
pub use zoned::{ZoneError, ZoneUsage, Zoned, ZonedError};
