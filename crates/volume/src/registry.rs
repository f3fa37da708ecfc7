//! The kinds of volumes: one row each.

use crate::kind::VolumeKind;
use crate::kind_spec::KindSpec;
use crate::kinds::{cache, files, space, span};

/// All kinds, in the order in which help texts name them. If several kinds are identified by a device in the same role,
/// a device that holds none of them is treated as the first.
static KINDS: &[&dyn VolumeKind] = &[
    &cache::CacheKind,
    &space::SpaceKind,
    &files::FilesKind,
    &span::SpanKind,
];

/// The write cache, which is the default of `create`, and of configuration files without a `kind`.
pub static DEFAULT_KIND: &KindSpec = &cache::SPEC;
/// The log-structured volume.
pub static LOG_STRUCTURED: &KindSpec = &space::SPEC;
/// The filesystem.
pub static FILESYSTEM: &KindSpec = &files::SPEC;

/// Reason why a text is not the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not a kind of volume; the kinds are {}", .0.escape_debug(), names())]
pub struct UnknownKind(String);

fn names() -> String {
    let names: Vec<&str> = kind_specs().map(|kind| kind.name).collect();
    names.join(", ")
}

/// Returns the implementations of all kinds.
pub(crate) fn kinds() -> impl Iterator<Item = &'static dyn VolumeKind> {
    KINDS.iter().copied()
}

/// Returns the facts about all kinds.
pub fn kind_specs() -> impl Iterator<Item = &'static KindSpec> {
    kinds().map(VolumeKind::spec)
}

/// Returns the implementation of a kind.
pub(crate) fn kind_of(spec: &KindSpec) -> &'static dyn VolumeKind {
    let found = kinds().find(|kind| kind.spec() == spec);
    found.expect("only registered kinds have specs")
}

/// Returns the kind with this name.
///
/// # Errors
/// If no kind has the name.
pub fn kind_named(name: &str) -> Result<&'static KindSpec, UnknownKind> {
    let found = kind_specs().find(|kind| kind.name == name);
    found.ok_or_else(|| UnknownKind(name.into()))
}

/// Returns the implementation of the kind with this label in reports.
pub(crate) fn kind_labelled(label: &str) -> Option<&'static dyn VolumeKind> {
    kinds().find(|kind| kind.spec().label == label)
}
