//! The protocol between an attached volume and its clients: the requests and replies of the control socket, the
//! report that `status --json` prints, and the client.
//!
//! This crate does not depend on the layers of a volume. The type parameter `S` of a [`VolumeReport`], of the
//! [`ControlReply`] that carries it, and of a [`ControlClient`] is the status of the layers. docs/control.md and docs/status.md are the pages for users; a test of
//! the program checks the second.
//!
//! Reading order: `protocol.rs`, `activity.rs`, `report.rs`, `scrub.rs`, `client.rs`.

mod activity;
mod client;
mod process;
mod protocol;
mod report;
mod scrub;

pub use activity::VolumeActivity;
pub use client::{ANSWER_PATIENCE, ConnectError, ControlClient, ControlError};
pub use process::{ProcessHandle, process_state};
pub use protocol::{
    BackingDevice, ControlReply, ControlRequest, DaemonReadiness, FREEZE_LIMIT, FailureCode,
    LogReplacedReply, NewLogRequest, PARTS_MAX, PlaceReply, PlacedExtent, REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX, RemainingWork, ResizeReply, TuneReply,
};
pub use report::{DaemonStatus, SCHEMA, VolumeReport};
pub use scrub::{ScrubRange, ScrubStatus};
