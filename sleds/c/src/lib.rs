//! The C library: `include/sleds.h`, `libsleds.so`, `libsleds.a`. The entry points are in `ffi.rs` and
//! `ffi_reader.rs`.

mod ffi;
mod ffi_reader;
mod reader;
mod state;
