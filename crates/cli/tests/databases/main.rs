//! Databases on a filesystem that `forebay mount` mounted: what they find there, and what is left of what they committed when
//! they, or the daemon beneath them, are killed at any moment.
//!
//! `FOREBAY_ROUNDS` sets how often something is killed.

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
