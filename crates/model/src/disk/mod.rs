//! The mechanical disk.
