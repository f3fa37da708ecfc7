//! The bytes on a medium. `docs/format/vsl.md` is the same in prose and tables.
//!
//! All integers are little-endian. Every block carries a magic, the version, the volume's id and a
//! CRC32C over its whole length with the CRC field taken as zero. Decoding never panics and allocates no
//! more than the bytes it was given justify.

mod envelope;
mod node;
mod root;

pub use envelope::{FormatError, VERSION, VolumeId};
pub use node::{Child, Content, INNER_ENTRIES_MAX, LEAF_ENTRIES_MAX, LEVELS_MAX, NODE_BYTES, Node};
pub(crate) use node::{check_of, kind_of};
pub use root::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
