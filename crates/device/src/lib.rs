//! The common interface of the whole stack: a [`Device`].
//!
//! A disk, a file, memory, and a write cache over two devices all implement a few async methods. So layers are devices
//! made of devices, and front ends serve any of them.
//!
//! The stack assumes no more of real devices than this: a write of one physical block is atomic; a larger write may
//! tear at block boundaries in any order; unflushed writes may be lost or kept in any combination; bits may rot.
//!
//! Reading order: the contract in `device.rs`; [`Buf`] in `buf.rs`, and its memory in `block.rs`, which contain the
//! unsafe code of this crate; then [`CheckedDevice`], which guards every layer boundary and enforces the contract.

mod ack;
mod block;
mod buf;
mod checked;
mod described;
mod device;
mod error;
mod latency;
mod location;
mod one_disk;
mod overlay;
mod ram;
mod scrub;
mod slice;
mod stamps;
mod tap;
mod under_way;
mod verdict;
mod zeroes;

pub use ack::{AckMode, ParseAckModeError};
pub use block::ALIGN;
pub use buf::{Buf, BufMut, BufPool};
pub use checked::CheckedDevice;
pub use described::{FieldKind, ReportField};
pub use device::{Device, DeviceGeometry, Durability, IoFuture, PlacementHandle, ZeroedSpace};
pub use error::{DeviceError, DeviceOp, Result};
pub use latency::{LATENCY_BOUNDS_US, LatencyHistogram, LatencySummary};
pub use location::{DataLocation, LocatedExtent};
pub use one_disk::OneDisk;
pub use overlay::MemoryOverlay;
pub use ram::RamDevice;
pub use scrub::{
    SCRUB_BYTES, ScrubArea, ScrubFault, ScrubFaultKind, ScrubFuture, ScrubStep, ScrubTarget,
};
pub use slice::DeviceSlice;
pub use stamps::{StampStore, StampUsage};
pub use tap::{Tap, TapHooks, TapRequest};
pub use under_way::{DurableRequest, DurableRequests};
pub use verdict::CheckVerdict;
pub use zeroes::is_zero;
