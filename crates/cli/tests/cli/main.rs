//! The program as users meet it: the built binary, real files, real sockets, and as root real block
//! devices and filesystems.
//!
//! Every refusal is held to the same standard ([`world::Failed`]): the documented exit code, one line
//! that names what is wrong, and files that are byte for byte what they were.

mod attach;
mod block_devices;
mod blocks;
mod by_ring;
mod control;
mod create;
mod detaching;
mod documents;
mod emulated;
mod failed_logs;
mod files;
mod files_in_trouble;
mod grown;
mod layers;
mod links;
mod logs;
mod memory;
mod mounting;
mod pairs;
mod preallocated;
mod remove;
mod service;
mod silent;
mod spaces;
mod system;
mod tune;
mod watch;
mod web;
mod world;
