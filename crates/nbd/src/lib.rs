//! What is said between an NBD server and its clients ([`mod@format`]), and to the kernel's nbd driver, which is
//! a client ([`netlink`]), without a system call.
//!
//! Who listens and answers is `serve`, which tells the driver as well.
//!
//! Invariants: bytes from strangers decode to something that is well formed, or to nothing, and nothing is
//! allocated by a length that was received.

pub mod format;
pub mod netlink;
