//! The encoding of the map's nodes and of its root. `docs/format/vsl.md` describes it in prose and tables.

mod node;
mod root;

pub(crate) use forebay_segments::{FormatError, VolumeId};
pub use node::{
    Child, Content, INNER_ENTRIES_MAX, LEAF_EXTENTS_MAX, LEVELS_MAX, NODE_BYTES, NODE_SECTORS,
    Node, run_bytes,
};
pub(crate) use node::{DELTA_MAX, LEAF_ENTRY_BYTES, Packed, bytes_behind};
pub use root::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
