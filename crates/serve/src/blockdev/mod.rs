//! Kernel block devices made of what the front ends serve.
//!
//! Which way there is depends on the kernel.
//! - [`attach_ublk`]: `/dev/ublkbN`, whose requests the kernel hands to our own ring. It can be taken up
//!   again when its server was killed.
//! - [`attach_loop`]: a loop device over a FUSE file ([`crate::volume_file`]). Any kernel has that.
//! - [`attach_nbd`]: `/dev/nbdN`, the kernel as a client of our NBD server ([`crate::nbd`]).
//!
//! A block device outlives mistakes badly: one that is torn down under a mounted filesystem takes
//! the data with it, and one whose server was killed stays behind dead. Hence the two rules here:
//! detaching refuses, with the names of who uses the device, before it undoes anything; and
//! everything made here can be recognised and cleared away by [`cleanup_stale`] without any record
//! but what the kernel itself shows. An nbd device shows too little, so there is a note of it
//! (`nbd_note.rs`); the kernel clears it away itself once nobody uses it.
//!
//! Nobody here keeps the loop device open while it is in use. If the process were killed, closing
//! it would write back the device's page cache to a server that is already gone. For the same
//! reason `LO_FLAGS_AUTOCLEAR` is of no use: without an opener the device would be cleared at once.

mod cached;
mod held;
mod holders;
mod loop_volume;
mod loopdev;
mod marks;
mod nbd;
mod stale;
mod ublk;

pub use held::Held;
pub use holders::{Holder, Holders};
pub use loop_volume::{AttachError, DetachError, LoopOptions, LoopVolume, attach_loop};
pub use marks::{VolumeMarks, is_of_volume};
pub use nbd::{
    NbdDevice, NbdError, NbdOptions, attach_nbd, clear_nbd_leftover, nbd_usable, no_nbd_leftover,
    waiting_nbd_device,
};
pub use stale::{Cleaned, CleanupError, InUse, cleanup_stale};
pub use ublk::{
    UblkDevice, UblkError, UblkOptions, attach_ublk, clear_ublk_leftover, ublk_usable,
    waiting_ublk_device,
};
