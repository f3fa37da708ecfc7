//! Parts of find that need no files.
