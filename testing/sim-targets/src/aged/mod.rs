//! Aged log-structured volumes: hundreds of segments, nearly full, in use for hours of virtual time.
//!
//! A scenario is a seed. The seed determines a *recipe*: a volume and its ageing. A thread makes the aged state of a
//! recipe once, and many scenarios continue from copies of the state. Each scenario has a few *incarnations*. In an
//! incarnation, the volume is opened and completely compared with its expected content. Writers then work through
//! phases while the disk has faults. At the end, the volume is closed or the power is cut.
//!
//! # Checks
//!
//! - Content (`content.rs`): after each crash, the volume equals a prefix of its batches that contains all flushed
//!   data. Reads return the last written data.
//! - Liveness (`checks.rs`): no request takes longer than a minute plus the time of the faults, and no close longer
//!   than ten seconds plus the time for its data. A minute after the last request the disk is quiet. The number of disk
//!   requests during one waiting request is bounded.
//! - Capacity: a batch is refused only if it would exceed the mappable bytes. A trim is never refused.
//! - Costs: checkpoints write at most a twentieth of all written bytes. Uniform overwrites in a plain log cost as much
//!   as in the model.
//! - Accounts (`checks.rs`): the counters of the volume, after each recovery and at each end.
//!
//! # Reading order
//!
//! `plan.rs` (the content of a scenario), `recipe.rs` and `ageing.rs` (its beginning), `content.rs`, `volume.rs`,
//! `scenario.rs`, `writer.rs` and `phases.rs` (its execution), `checks.rs`.

mod ageing;
mod checks;
mod content;
mod phases;
mod plan;
mod recipe;
mod scenario;
mod start;
mod volume;
mod writer;

pub use plan::AgedPlan;
pub use scenario::{run, run_aloud};
