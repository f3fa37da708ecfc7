//! Work on files, by which filesystems are compared: small random reads and writes, many small files, the applications
//! of the paper that `dfs` is from, written anew, and databases as they are.
//!
//! Each is done in a directory, says how long it took, and looks whether what came out is right: a filesystem that is fast
//! and wrong is no use. What is measured follows from the numbers in it and from a seed, so two filesystems get the same.
//!
//! Reading order: `machine.rs` (time, and the processors' time), `random.rs`, `names.rs`, then `apps/`,
//! `mariadb.rs` and `sqlite.rs`.

pub mod apps;
mod buffer;
mod machine;
mod mapped;
pub mod mariadb;
pub mod names;
pub mod random;
pub mod sqlite;

pub use machine::{TimeTaken, forget_caches, measured};
