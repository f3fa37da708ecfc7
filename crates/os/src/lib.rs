//! The real world: disks, files, sockets and the clock, by io_uring.
//!
//! Everything above this crate is written against [`forebay_device::Device`] and
//! [`forebay_rt::Driver`]; here they meet Linux. There is one [`Ring`] per executor thread. Every
//! request that may wait (a read, a flush, an accept, a signal) is an entry on that ring, so the
//! thread only ever waits in one place, [`Ring`]'s `turn`, and a batch of requests costs one
//! system call.
//!
//! Invariants:
//! - The kernel may write to a request's memory until its completion is seen. So memory and file
//!   descriptor of a request belong to the ring from submission to completion, whatever happens to
//!   the future that waits for it.
//! - The executor thread never blocks in a system call that does I/O once a device is open.
//!   Opening, creating and identifying do block; they happen before service begins.
//! - A device that somebody else writes to is not opened for writing: `O_EXCL` on block devices, a
//!   lock on files, and a look at loop devices, whose backing files nothing else protects.
//!
//! Drivers that are told what to do by commands ([`driver_command`], [`Ring::command`]) and share memory
//! with who serves them ([`DriverMemory`]) are in `driver.rs`. FUSE's requests by io_uring are [`FuseEntries`] in
//! `ring/fuse_entries.rs`; what waits for what this process serves does so in a thread that is [`isolated`].
//!
//! Reading order: [`Ring`] in `ring/mod.rs`, what keeps memory alive in `ring/slot.rs`, the
//! requests in `ring/request.rs`; then [`open()`] in `storage/open.rs` and the devices in
//! `storage/disk.rs`; then `net`.

mod driver;
mod fuse;
mod isolated;
mod net;
mod poller;
mod process;
mod ring;
mod signals;
mod storage;
mod sys;

pub use driver::{DriverMemory, driver_command};
pub use fuse::{FUSE_TYPE, FuseMount};
pub use isolated::{Outcome, Report, isolated, promise};
pub use net::{Address, Listener, ParseAddressError, Stream};
pub use poller::Poller;
pub use process::{
    give_memory_back, hold_memory, io_flusher, lock_memory, outlive_file_limit, precise_timers,
    trim_memory,
};
pub use ring::{Fd, FuseEntries, FuseEntry, FuseRequest, Ring};
pub use signals::{Signal, Signals};
pub use storage::{
    CommonDisk, CreateError, DeviceIdentity, DeviceKind, Disks, Mount, NodeId, OpenError,
    OpenOptions, Opened, Users, create_file, identity, loop_devices_over, mounts, node_id, open,
    zero_fill,
};
