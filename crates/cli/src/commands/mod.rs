//! The commands, one file each. Code that several commands share is beside this directory.

pub(crate) mod adopt;
pub(crate) mod attach;
pub(crate) mod boot;
pub(crate) mod check;
pub(crate) mod clone_id;
pub(crate) mod create;
pub(crate) mod detach;
mod detached;
pub(crate) mod discard_unreadable;
pub(crate) mod documents;
pub(crate) mod drain;
pub(crate) mod dump;
pub(crate) mod freeze;
mod health_check;
pub(crate) mod list;
pub(crate) mod mount;
pub(crate) mod own_file;
pub(crate) mod remove;
pub(crate) mod replace_log;
pub(crate) mod resize;
pub(crate) mod scrub;
pub(crate) mod status;
pub(crate) mod tune;
pub(crate) mod udev;
pub(crate) mod umount;
