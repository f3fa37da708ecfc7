//! The filesystem as a system under test: clients with a directory each, on a slightly too small or full volume on one
//! disk.
//!
//! Each client executes one operation after the other, sometimes two concurrently, and compares the results with a
//! model. After a crash, each directory has the state after one of its operations. This state is not older than the
//! last durable state, regardless of the client that requested the durability. `check` must report no problem.
//!
//! # Reading order
//!
//! `wrong.rs`, `bytes.rs`, `model.rs` and `protect.rs` (the model of a filesystem), `account.rs` and `known.rs` (the
//! permitted states after a crash), `user.rs`, `user_make.rs`, `user_data.rs`, `user_flags.rs`, `user_full.rs` and
//! `expected.rs` (operations and their comparison with the model), `act.rs`, `user_two.rs` and `user_crossing.rs`
//! (concurrent operations), `load.rs` (a directory of a real filesystem as a model), `plan.rs` and `scenario.rs`
//! (incarnations, cuts and checks).

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
mod scenario;
mod user;
mod user_crossing;
mod user_data;
mod user_flags;
mod user_full;
mod user_make;
mod user_two;
mod wrong;

pub use account::{DirectoryHistories, DirectoryHistory};
pub use known::FileObservations;
pub use model::{FilesModel, ModelId, TOP};
pub use plan::FilesScenario;
pub use scenario::{run, run_aloud};
pub use user::FilesUser;
