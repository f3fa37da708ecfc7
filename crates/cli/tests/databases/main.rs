//! Databases on a filesystem that `forebay mount` mounted. The tests check the features that databases find there, and
//! the committed data after they, or the daemon beneath them, are killed at any moment.
//!
//! `FOREBAY_ROUNDS` sets the number of kills.

mod committing;
mod embedded;
mod harness;
mod mariadb;
mod postgresql;
mod redis;
mod sqlite;

#[path = "../cli/system.rs"]
mod system;
#[path = "../cli/world.rs"]
mod world;
