//! The map of a log-structured space: which extent of it lies where on the medium. A B+-tree that is copied
//! when it is changed, so that what a checkpoint has written stays as it is until the next one counts.
//!
//! Plain state: nothing waits. An operation that lacks a node says which, and has changed nothing. Start with
//! `extent.rs`, then `map.rs`; the bytes of nodes are in `format.rs` and `docs/format/vsl.md`.

mod extent;
mod format;
mod map;
mod place;

pub use extent::{
    Changes, Check, EXTENT_SECTORS_MAX, Extent, INLINE_SECTORS_MAX, LeafExtent, PAGE_SECTORS,
};
pub use format::{
    Child, Content, DETACHED_BYTES, DetachedRef, INNER_ENTRIES_MAX, LEAF_EXTENTS_MAX, LEVELS_MAX,
    NODE_BYTES, NODE_SECTORS, Node, ROOT_BYTES, RootRef, run_bytes,
};
pub use map::{Completed, Flaw, LeafView, LoadError, Map, Need, Pins, Shape, ToWrite, Visit, Walk};
pub use place::Place;
