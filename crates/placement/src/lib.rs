//! Where a log-structured volume places data, which segments it cleans, and what that costs: everything that
//! decides, and nothing that does. All of it is plain state; nothing waits.
//!
//! Start with `cost.rs`, the model of costs that the rest leans on; then
//!
//! - `placement.rs`: which stream data goes to, or whether it is overwritten in place.
//! - `victim.rs`: which segments are cleaned.
//! - `wear.rs`: which free segment is taken, and what is moved for wear.
//! - `pace.rs`: when to clean, and how fast users may write meanwhile.

mod clock;
pub mod cost;
pub mod pace;
pub mod placement;
pub mod victim;
pub mod wear;

pub use clock::WriteClock;
