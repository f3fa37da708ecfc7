//! What is known of an attached volume, apart from waiting.
//!
//! Plain data without I/O: the engine's operations ask it what to do, do that, and tell it what came of
//! it. (Where each sector lies is the map's business, and what is noted in the log `format.rs`'s.)

pub(crate) mod pace;
mod refused;
mod speed;
mod trouble;

pub(crate) use pace::Pace;
pub(crate) use refused::Refused;
pub(crate) use speed::Speed;
pub(crate) use trouble::Trouble;
