//! The filesystem as a subject: users with a directory each, on a volume that is a little too small, or full, on one disk.
//!
//! Each user does one thing after the other, now and then two at once, and holds what comes against a model. What a crash leaves
//! of a directory is what it was like after some operation, and not before the last that was made durable, whoever asked for that; and
//! `check` finds nothing.
//!
//! # Reading order
//!
//! `wrong.rs`, `bytes.rs`, `model.rs` and `protect.rs` (a filesystem as it should be), `account.rs` and `known.rs` (what may be found after a crash),
//! `user.rs`, `user_make.rs`, `user_data.rs`, `user_flags.rs`, `user_full.rs` and `expected.rs` (what is done and held against the model), `act.rs`,
//! `user_two.rs` and `user_crossing.rs` (two things at once), `load.rs` (a directory of a real one as a model), `plan.rs` and `world.rs` (lives, cuts and looks).

mod account;
mod act;
mod bytes;
mod digest;
mod expected;
mod known;
mod load;
mod model;
mod plan;
mod protect;
mod remembered;
mod user;
mod user_crossing;
mod user_data;
mod user_flags;
mod user_full;
mod user_make;
mod user_two;
mod world;
mod wrong;

pub use account::{DirectoryHistories, DirectoryHistory};
pub use known::FileObservations;
pub use model::{FilesModel, ModelId, TOP};
pub use plan::FilesScenario;
pub use user::FilesUser;
pub use world::{run, run_aloud};
