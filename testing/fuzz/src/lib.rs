//! Hostile bytes for every decoder: what they are given to, and how they are made.
//!
//! A [`FuzzTarget`] takes any bytes and panics if a promise does not hold:
//! - Decoding gives a value or an error. It never panics, and it allocates no more than the bytes it
//!   was given justify ([`cap`] counts).
//! - What decodes is encoded to the same bytes again, where the format has one form only.
//! - A whole log that was tampered with by somebody who knows the checksums is refused, and then
//!   nothing is changed; or it is taken up, and then the volume works ([`targets::image`]).
//!
//! Where bytes carry a checksum, a target looks at them twice: as they are, and with the checksum
//! made right, or nothing would get past it.
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
