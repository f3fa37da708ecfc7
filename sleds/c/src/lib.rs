//! The C library: `include/sleds.h`, `libsleds.so`, `libsleds.a`. The entry points are in `ffi.rs`.

mod ffi;
mod state;
