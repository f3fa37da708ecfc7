//! The encoding of the map's nodes and of its root. `docs/format/vsl.md` describes it in prose and tables.

mod node;
mod root;

pub(crate) use forebay_segment_log::{FormatError, VolumeId};
pub use node::{
    ChildRef, INNER_ENTRIES_MAX, LEAF_EXTENTS_MAX, LEVELS_MAX, NODE_BYTES, NODE_SECTORS,
    NodeContent, StoredNode, run_bytes,
};
pub(crate) use node::{DELTA_MAX, LEAF_ENTRY_BYTES, PackedExtent, bytes_behind};
pub use root::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
