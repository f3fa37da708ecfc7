//! State of an attached volume, without any waiting.
//!
//! These types are plain data without I/O: the engine's operations ask them for decisions, carry these out, and report
//! the results. (`map.rs` has the location of each sector, and `format.rs` the state recorded in the log.)

mod activity;
mod doing;
mod faults;
pub(crate) mod pace;
mod past_log;
mod refused;
mod rescue;
mod service;
mod speed;

pub(crate) use activity::{Activity, Wanted};
pub(crate) use doing::Doing;
pub(crate) use faults::{Faults, Trouble};
pub(crate) use pace::Pace;
pub(crate) use past_log::PastLog;
pub(crate) use refused::Refused;
pub(crate) use rescue::Rescue;
pub(crate) use service::Service;
pub(crate) use speed::Speed;
