//! Atomic updates of files on a mounted filesystem, by programs of one's own. Databases as they are: `crates/cli/tests/databases`.

mod flags;
mod harness;
mod interface;
mod linux;
mod mapped;
mod programs;
mod users;

#[path = "../../examples/mount_ram.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod mount_ram;
