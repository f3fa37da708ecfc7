//! The program under real filesystems and real NBD clients.
//!
//! What is proven here is what users rely on, through everything that is between them and the log:
//! a filesystem and the kernel's block layer, a loop device, FUSE, the daemon, and real files below.
//! `crash.rs` kills the daemon at random moments under ext4, xfs and btrfs and holds what is found
//! after recovery against what `fsync` promised (`users.rs`), or what else programs ask for durability by (`durably.rs`). `drop_in.rs` takes an image that was
//! there before, and looks at it alone afterwards. `stops.rs` ends the daemon in other ways, `limits.rs`
//! gives it and the writers little memory. `discards.rs` looks at what is left of an image when a
//! filesystem gives its room up, and `volumes.rs` fills log-structured volumes, empties them, and fills them again.
//! `clients.rs` has the usual NBD clients, `tries.rs` the demonstration.
//!
//! `mounts.rs` does to a filesystem of our own what `crash.rs` does to others.
//!
//! `FOREBAY_ROUNDS` sets how often the daemon is killed under each filesystem. The choices are always
//! the same ones, though not their timing, unless `FOREBAY_SEED` is another number, or `fresh`.

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
