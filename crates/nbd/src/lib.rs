//! What is said between an NBD server and its clients, without a system call.
//!
//! Who listens and answers is `serve`.
//!
//! Invariants: bytes from strangers decode to something that is well formed, or to nothing, and nothing is
//! allocated by a length that was received.

pub mod format;
