//! State of an attached volume, without any waiting.
//!
//! These types are plain data without I/O: the engine's operations ask them for decisions, carry these out, and report
//! the results. (`map.rs` has the location of each sector, and `format.rs` the state recorded in the log.)

mod activity;
mod clean_mark;
mod doing;
mod faults;
mod past_log;
mod refused;
mod rescue;
mod service;
mod speed;

pub(crate) use activity::ClientActivity;
pub(crate) use clean_mark::CleanMark;
pub(crate) use doing::DestageProgress;
pub(crate) use faults::{CacheFaults, DeviceFaultState};
pub(crate) use past_log::UnloggedChanges;
pub(crate) use refused::UnwritableBlocks;
pub(crate) use rescue::RescueState;
pub(crate) use service::BackgroundWork;
pub(crate) use speed::DeviceSpeeds;
