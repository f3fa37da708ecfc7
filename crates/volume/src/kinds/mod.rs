//! The kinds of volumes, one directory each. Only `registry.rs` names all of them.

pub(crate) mod cache;
pub(crate) mod files;
pub(crate) mod space;
pub(crate) mod span;
