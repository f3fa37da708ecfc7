//! What is known of an attached volume, apart from waiting.
//!
//! Plain data without I/O: the engine's operations ask it what to do, do that, and tell it what came of
//! it. (Where each sector lies is the map's business, and what is noted in the log `format.rs`'s.)

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
