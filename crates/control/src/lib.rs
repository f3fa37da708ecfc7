//! What is said between an attached volume and those who ask it: the control socket's requests and
//! replies, and the report that `status --json` prints.
//!
//! Nothing here knows of what layers a volume is made: what those say of themselves is the type `S` of a
//! [`Report`] and of the [`Reply`] that carries it. docs/control.md and docs/status.md are the pages for
//! users; a test of the program keeps the second true.
//!
//! Reading order: `protocol.rs`, `report.rs`.

mod protocol;
mod report;

pub use protocol::{
    Code, Left, MediumOf, PARTS_MAX, PlaceOf, Placed, Places, REPLY_BYTES_MAX, REQUEST_BYTES_MAX,
    Readiness, Reply, Request, ResizedTo, TunedTo,
};
pub use report::{Report, SCHEMA, Service};
