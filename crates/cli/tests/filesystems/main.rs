//! The program under real filesystems and real NBD clients.
//!
//! These tests check the guarantees of the program through all layers between its users and the log: a filesystem and
//! the kernel's block layer, a loop device, FUSE, the daemon, and real files below. `crash.rs` kills the daemon at
//! random moments under ext4, xfs and btrfs. After recovery it compares the files with the guarantees of `fsync`
//! (`users.rs`) and of the other requests for durability (`durably.rs`). `drop_in.rs` uses an existing image as data
//! device, and checks the image alone afterwards. `stops.rs` ends the daemon in other ways; `limits.rs` gives the
//! daemon and the writers little memory. `discards.rs` checks the allocation of an image after a filesystem freed space
//! in it. `volumes.rs` fills log-structured volumes, empties them, and fills them again. `clients.rs` runs common NBD
//! clients, `tries.rs` the demonstration.
//!
//! `mounts.rs` tests our own filesystem as `crash.rs` tests others.
//!
//! `FOREBAY_ROUNDS` sets the number of kills under each filesystem. The choices are always the same, though not their
//! timing, unless `FOREBAY_SEED` is another number, or `fresh`.

mod clients;
mod crash;
mod discards;
mod drop_in;
mod durably;
mod kinds;
mod limits;
mod mounts;
mod stops;
mod tries;
mod users;
mod volumes;

#[path = "../cli/system.rs"]
mod system;
#[path = "../cli/world.rs"]
mod world;
