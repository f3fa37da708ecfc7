//! The map of a log-structured space, from extents of the space to places on the device. It is a copy-on-write B+-tree,
//! so nodes that a checkpoint has written stay unchanged until the next checkpoint is valid.
//!
//! The map is plain state without I/O or waiting. An operation that needs a node which is not in memory returns the
//! node's location, and has changed nothing. Start with `extent.rs`, then `map.rs`; the encoding of nodes is in
//! `format.rs` and `docs/format/vsl.md`.

mod extent;
mod format;
mod map;
mod place;

pub use extent::{
    EXTENT_SECTORS_MAX, ExtentCheck, INLINE_SECTORS_MAX, LeafExtent, MapChanges, MapExtent,
    PAGE_SECTORS,
};
pub use format::{
    ChildRef, DETACHED_BYTES, DetachedRef, INNER_ENTRIES_MAX, LEAF_EXTENTS_MAX, LEVELS_MAX,
    NODE_BYTES, NODE_SECTORS, NodeContent, ROOT_BYTES, RootRef, StoredNode, run_bytes,
};
pub use map::{
    CompletedCheckpoint, ExtentMap, LeafView, MapVisit, MapWalk, NeededNode, NodeCapacity,
    NodeFlaw, NodeLoadError, NodeWrite, RangePins,
};
pub use place::LogPlace;
