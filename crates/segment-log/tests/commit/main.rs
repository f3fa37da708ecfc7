//! Group commit over a disk that fails on command, on a virtual clock.

mod disk;
mod latch;
mod retry;
mod rig;
mod soak;
