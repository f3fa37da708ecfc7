//! Workloads on files, for comparisons of filesystems: small random reads and writes, many small files, the
//! applications of the paper that describes DFS, rewritten, and unmodified databases.
//!
//! Each workload runs in a directory, returns its time, and verifies its results: a fast filesystem with wrong results
//! is useless. The work depends only on parameters and a seed, so two filesystems get equal work.
//!
//! Reading order: `machine.rs` (time, and processor time), `random.rs`, `names.rs`, then `apps/`, `mariadb.rs` and
//! `sqlite.rs`.

pub mod apps;
mod buffer;
mod machine;
mod mapped;
pub mod mariadb;
pub mod names;
pub mod random;
pub mod sqlite;

pub use machine::{TimeTaken, forget_caches, measured};
