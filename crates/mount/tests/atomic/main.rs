//! Atomic updates of files on a mounted filesystem: by programs of one's own, and by databases as they are.

mod harness;
mod interface;
mod mariadb;
mod postgresql;
mod programs;
mod sqlite;

#[path = "../../examples/mount_ram.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod mount_ram;
