//! Hostile bytes for every decoder: the targets, and the generation of inputs.
//!
//! A [`FuzzTarget`] takes any bytes and panics if a guarantee does not hold:
//! - Decoding returns a value or an error. It never panics, and the memory that it allocates is proportionate to the
//!   input ([`cap`] counts).
//! - A decoded value is encoded to equal bytes again, if the format has only one form.
//! - A whole log that an attacker with correct checksums changed is either refused, and then
//!   nothing is changed; or it is attached, and then the volume works ([`targets::image`]).
//!
//! If bytes carry a checksum, a target decodes them twice: unchanged, and with a corrected checksum. Otherwise nearly
//! all inputs would fail at the checksum.
//!
//! Two engines feed the targets, from one corpus (`testing/fuzz-guided/corpus`, a directory for each target):
//! - [`mutate`]: seeded, on stable Rust, in `cargo test` and by `cargo run -p forebay-fuzz`;
//! - `cargo fuzz run TARGET`, which is guided by coverage (`testing/fuzz-guided/`, not part of the workspace).
//!
//! Reading order: `targets.rs`, any file below it, `mutate.rs`, `corpus.rs`.

pub mod cap;
pub mod corpus;
pub mod mutate;
mod seal;
pub mod targets;

pub use targets::{FuzzTarget, TARGETS};
