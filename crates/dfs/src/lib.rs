//! DFS: a filesystem that leaves storage to the layer below it.
//!
//! DFS manages names, permissions and sizes. `forebay-vsl` manages the location of blocks, free space, atomicity and
//! crash recovery, so DFS has no bitmap, no tree of extents and no journal. Every operation passes one batch with all
//! of its changes to the space, so a crash leaves nothing to repair. (Josephson, Bongo, Flynn and Li, "DFS: A File
//! System for Virtualized Flash Storage", FAST 2010.)
//!
//! Guarantees:
//! - **Prefixes.** After a crash, the filesystem contains the effects of all operations up to some point in their
//!   order, which is not before the last completed [`Fs::sync`] or [`Fs::sync_file`]. Only the times of files whose
//!   data was overwritten in place may be older.
//! - **Atomic writes.** A crash leaves either all or nothing of a write of up to [`WRITE_MAX`]. The same holds for
//!   writes and holes of any number of files together: [`Fs::edit`].
//! - **A full volume fails** an operation before any of its changes are made.
//!
//! Reading order: `docs/design/dfs.md`; `format.rs` with `docs/format/dfs.md` (encoding); `geometry.rs` (locations of
//! all structures); `files.rs` and `change.rs` (files in memory, and changes of memory and space); `fs.rs`,
//! `directory.rs`, `names.rs`, `rename.rs`; `data.rs`, `accesses.rs`, `extent.rs`, `preallocated.rs`, `settle.rs`,
//! `places.rs`, `edits.rs`, `atomic.rs`; `attributes.rs`, `protect.rs`, `flags.rs`; `orphans.rs`; `census.rs`;
//! `check.rs`, `dump.rs`; `request_class.rs`.

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
mod paths;
mod places;
mod preallocated;
mod protect;
mod recent;
mod rename;
mod request_class;
mod settle;

pub use accesses::AccessTimes;
pub use attributes::{AttributeCondition, NewAttributes, WithAttributes};
pub use check::{FsCheckTotals, FsProblem};
pub use data::WRITE_MAX;
pub use directory::ListedEntry;
pub use dump::{FsDumpItem, UnreadableRange};
pub use edits::Edits;
pub use error::{FsError, FsOpenError, Result};
pub use extent::Fallocate;
pub use format::{
    DirectoryEntry, FS_VERSION, FileFlags, FileKind, FileTime, FormatError, FsSuperblock,
    INLINE_MAX, Inode, NAME_MAX, SYMLINK_MAX, VolumeId,
};
pub use fs::{Fs, FsCapacity, FsClock, FsSpec, create, look, open, read_superblock};
pub use geometry::{FsGeometry, ROOT};
pub use names::FileSpec;
pub use places::PlacedBytes;
pub use rename::RenameTarget;
pub use request_class::RequestClass;
