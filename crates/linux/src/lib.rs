//! The operating system: disks, files, sockets and the clock, by io_uring.
//!
//! Everything above this crate is written against [`forebay_device::Device`] and [`forebay_rt::Driver`]; this crate
//! implements both on Linux. Each executor thread has one [`IoRing`]. Every request that may wait (a read, a flush, an
//! accept, a signal) is an entry on that ring. So the thread waits in one place only, [`IoRing`]'s `turn`, and a batch of
//! requests costs one system call.
//!
//! Invariants:
//! - The kernel may write to a request's memory until its completion is seen. So memory and file descriptor of a
//!   request belong to the ring from submission to completion, even if the future that waits for it is dropped.
//! - The executor thread never blocks in a system call that does I/O once a device is open. Opening, creating and
//!   identifying do block; they happen before service begins.
//! - A device that another process writes to is not opened for writing. This is ensured by `O_EXCL` on block devices, a
//!   lock on files, and a check for loop devices, whose backing files have no other protection.
//!
//! Drivers that take commands ([`driver_command`], [`IoRing::command`]) and share memory ([`DriverMemory`]) are in
//! `driver.rs`. FUSE requests by io_uring are [`FuseEntries`] in `ring/fuse_entries.rs`. Work that waits for storage
//! that this process serves runs in a thread that is [`isolated()`].
//!
//! Reading order: [`IoRing`] in `ring/mod.rs`, the ownership of request memory in `ring/slot.rs`, the requests in
//! `ring/request.rs`; then [`open()`] in `storage/open.rs` and the devices in `storage/disk.rs`; then `net`.

mod driver;
mod isolated;
mod net;
mod on_ring;
mod poller;
mod process;
mod ring;
mod signals;
mod storage;
mod sys;

pub use driver::{DriverMemory, driver_command};
pub use isolated::{IsolatedFuture, ResultSender, isolated, promise};
pub use net::{SocketAddress, SocketAddressError, SocketListener, SocketStream};
pub use on_ring::on_ring;
pub use poller::FdPoller;
pub use process::{
    give_memory_back, hold_memory, io_flusher, lock_memory, outlive_file_limit, own_mounts,
    precise_timers, trim_memory,
};
pub use ring::{FuseEntries, FuseEntry, FuseMessage, IoRing, SharedFd};
pub use signals::{SignalReader, StopSignal};
pub use storage::{
    CommonDisk, DeviceIdentity, DeviceKind, DeviceOpenError, DeviceOpenOptions, DeviceUsers,
    FileCreateError, LockedDevice, MountEntry, NodeId, UnderlyingDisks, create_file, identity,
    loop_devices_over, mounts, node_id, open, system_mounts, zero_fill,
};
