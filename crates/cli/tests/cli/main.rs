//! The program from the outside: the built binary, real files, real sockets, and as root real block devices and
//! filesystems.
//!
//! Every refusal is held to the same standard ([`world::RefusedCommand`]): the documented exit code, a single line that names
//! the problem, and files that are byte for byte unchanged.

mod attach;
mod block_devices;
mod blocks;
mod by_ring;
mod clones;
mod control;
mod create;
mod detaching;
mod documents;
mod emulated;
mod failed_logs;
mod files;
mod files_in_trouble;
mod formats;
mod freezing;
mod grown;
mod health;
mod layers;
mod links;
mod logs;
mod memory;
mod mounting;
mod pairs;
mod preallocated;
mod remove;
mod replace_log;
mod scrub;
mod service;
mod silent;
mod spaces;
mod spans;
mod status_socket;
mod system;
mod tune;
mod watch;
mod web;
mod world;
mod writer;
