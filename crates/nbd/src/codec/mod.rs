//! Messages between an NBD server and its clients ([`mod@format`]), and to the kernel's nbd driver, which is a client
//! ([`netlink`]). This module makes no system call and uses nothing outside the standard library.
//!
//! Invariants: untrusted bytes decode either to a well-formed value or to nothing, and nothing is allocated by a
//! received length.

pub mod format;
pub mod netlink;
