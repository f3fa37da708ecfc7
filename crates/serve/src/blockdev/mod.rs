//! Kernel block devices on top of the front ends.
//!
//! The kernel determines the available kinds.
//! - [`attach_ublk`]: `/dev/ublkbN`, whose requests the kernel passes to our own ring. After its server was killed,
//!   another server can recover the device.
//! - [`attach_loop`]: a loop device over a FUSE file ([`crate::volume_file`]). Any kernel supports this.
//! - [`attach_nbd`]: `/dev/nbdN`, with the kernel as a client of our NBD server ([`crate::nbd`]).
//!
//! Mistakes with a block device are costly: a device torn down under a mounted filesystem loses data, and a device
//! whose server was killed stays behind without function. Hence two rules. First, detaching refuses, and names the
//! users of the device, before it changes anything. Second, everything made here can be recognised and removed by
//! [`cleanup_stale`], from the kernel's own data alone. The kernel shows too little about an nbd device, so a note file
//! describes it (`nbd/note.rs`); the kernel removes such a device itself after its last user closes it.
//!
//! No process keeps the loop device open while it is in use. If the process were killed, closing the device would write
//! back its page cache to a server that no longer exists. For this reason `LO_FLAGS_AUTOCLEAR` is of no use: without an
//! opener the device would be cleared at once.

mod cached;
mod held;
mod holders;
mod loop_volume;
mod loopdev;
mod marks;
mod nbd;
mod stale;
mod ublk;

pub use held::OwnBlockDevice;
pub use holders::{DeviceHolder, DeviceHolders};
pub use loop_volume::{LoopAttachError, LoopDetachError, LoopOptions, LoopVolume, attach_loop};
pub use marks::{VolumeMarks, is_of_volume};
pub use nbd::{
    NbdDevice, NbdError, NbdOptions, attach_nbd, clear_nbd_leftover, nbd_usable, no_nbd_leftover,
    waiting_nbd_device,
};
pub use stale::{CleanupError, LeftoverPolicy, RemovedLeftovers, cleanup_stale};
pub use ublk::{
    UblkDevice, UblkError, UblkOptions, attach_ublk, clear_ublk_leftover, ublk_usable,
    waiting_ublk_device,
};
