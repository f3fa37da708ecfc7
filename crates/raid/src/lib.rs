//! Arrays of devices as one device.
//!
//! Start with `striped.rs`.

mod common;
mod error;
mod striped;

pub use error::ArrayError;
pub use striped::Striped;
