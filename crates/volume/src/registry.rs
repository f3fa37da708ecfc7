//! The kinds of volumes: one row each.

use crate::kind::{KindRef, VolumeKind};
use crate::kinds::cache::CacheKind;
use crate::kinds::files::FilesKind;
use crate::kinds::space::SpaceKind;

/// All kinds, in the order in which help texts name them. If several kinds are identified by a device in the same role,
/// a device that holds none of them is treated as the first.
static KINDS: &[&dyn VolumeKind] = &[&CacheKind, &SpaceKind, &FilesKind];

/// The write cache, which is the default of `create`, and of configuration files without a `kind`.
pub const DEFAULT_KIND: KindRef = KindRef(&CacheKind);
/// The log-structured volume.
pub const LOG_STRUCTURED: KindRef = KindRef(&SpaceKind);
/// The filesystem.
pub const FILESYSTEM: KindRef = KindRef(&FilesKind);

/// Reason why a text is not the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not a kind of volume; the kinds are {}", .0.escape_debug(), names())]
pub struct UnknownKind(String);

fn names() -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

/// Returns all kinds.
pub fn kinds() -> impl Iterator<Item = KindRef> {
    KINDS.iter().map(|kind| KindRef(*kind))
}

/// Returns the kind with this name.
///
/// # Errors
/// If no kind has the name.
pub(crate) fn kind_named(name: &str) -> Result<KindRef, UnknownKind> {
    let found = kinds().find(|kind| kind.name() == name);
    found.ok_or_else(|| UnknownKind(name.into()))
}

/// Returns the kind with this label in reports.
pub(crate) fn kind_labelled(label: &str) -> Option<KindRef> {
    kinds().find(|kind| kind.label() == label)
}
