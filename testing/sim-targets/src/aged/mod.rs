//! Aged volumes of the virtual storage layer: hundreds of segments, nearly full, in use for hours of virtual time.
//!
//! A scenario is a seed. A *recipe* follows from it: a volume, and how it came to its age. The state that a recipe
//! leads to is made once on a thread, and many scenarios go on from copies of it. Each goes through a few
//! *incarnations*: the volume is opened, all of it is compared with its expected content, writers work through
//! phases while the disk has faults, and the volume is closed or the power goes.
//!
//! # Checks
//!
//! - Content (`content.rs`): after each crash all of the volume is as after a prefix of its batches that has all
//!   that was flushed; reads return what was written last.
//! - Liveness (`checks.rs`): no request takes longer than a minute and the faults, a close no longer than
//!   ten seconds and its data; a minute after the last request the disk is quiet; the disk is not asked without
//!   end while a request waits.
//! - Room: a batch is refused only if more would be mapped than may be, a trim never.
//! - Costs: checkpoints write at most a twentieth of all that is written; uniform overwrites in a plain log cost
//!   what the model says.
//! - Accounts (`checks.rs`): what the volume says of itself, after each recovery and at each end.
//!
//! # Reading order
//!
//! `plan.rs` (what happens), `recipe.rs` and `ageing.rs` (where it begins), `content.rs`, `volume.rs`, `world.rs`, `writer.rs` and
//! `phases.rs` (its happening), `checks.rs`.

mod ageing;
mod checks;
mod content;
mod phases;
mod plan;
mod recipe;
mod start;
mod volume;
mod world;
mod writer;

pub use plan::AgedPlan;
pub use world::{run, run_aloud};
