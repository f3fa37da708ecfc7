//! DFS: a filesystem that leaves storage to the layer below it.
//!
//! It knows names, permissions and sizes. Where blocks lie, which are free, what is atomic and what a crash leaves is the
//! business of `forebay-vsl`: there is no bitmap, no tree of extents and no journal here. Whoever changes something
//! hands the space one batch with all that belongs to it, so there is nothing to be repaired.
//! (Josephson, Bongo, Flynn and Li, "DFS: A File System for Virtualized Flash Storage", FAST 2010.)
//!
//! What users may rely on:
//! - **Prefixes.** A crash leaves the filesystem as it was after some operation, and all that came before it; not before the
//!   last completed [`Fs::sync`] or [`Fs::sync_file`]. Only the times of files whose data was overwritten in place may be older.
//! - **Writes are whole.** One write, of up to [`WRITE_MAX`], is done or, at a crash, not at all. So are writes and holes of any
//!   number of files together: [`Fs::edit`].
//! - **A full volume refuses** an operation before any of it is done.
//!
//! Reading order: `docs/design/dfs.md`; `format.rs` with `docs/format/dfs.md` (bytes); `geometry.rs` (where everything is);
//! `files.rs` and `change.rs` (what is in memory, and how both it and the space change); `fs.rs`, `directory.rs`, `names.rs`,
//! `rename.rs`; `data.rs`, `accesses.rs`, `extent.rs`, `preallocated.rs`, `settle.rs`, `places.rs`, `edits.rs`, `atomic.rs`; `attributes.rs`, `protect.rs`, `flags.rs`; `orphans.rs`; `census.rs`; `check.rs`, `dump.rs`.

mod accesses;
pub mod again;
mod atomic;
mod attributes;
mod census;
mod change;
mod check;
mod counted;
mod data;
mod directory;
mod dump;
mod edits;
mod error;
mod extent;
mod files;
mod flags;
mod format;
mod fs;
mod geometry;
mod names;
mod orphans;
mod places;
mod preallocated;
mod protect;
mod recent;
mod rename;
mod settle;

pub use accesses::AccessTimes;
pub use attributes::{Existing, NewAttributes, WithAttributes};
pub use check::{Checked, Problem};
pub use data::WRITE_MAX;
pub use directory::Listed;
pub use dump::DumpItem;
pub use edits::Edits;
pub use error::{FsError, OpenError, Result};
pub use extent::Fallocate;
pub use format::{
    Entry, FileFlags, FormatError, INLINE_MAX, Inode, Kind, NAME_MAX, SYMLINK_MAX, Superblock,
    Time, VolumeId,
};
pub use fs::{Clock, Fs, Making, Room, create, look, open, read_superblock};
pub use geometry::{Geometry, ROOT};
pub use names::New;
pub use places::PlacedBytes;
pub use rename::Target;
