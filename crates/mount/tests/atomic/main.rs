//! Atomic updates of files on a mounted filesystem, by programs written for this interface. Tests with unmodified
//! databases are in `crates/cli/tests/databases`.

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
