//! The C library: `include/sleds.h`, `libsleds.so`, `libsleds.a`. Start in `ffi.rs`.

mod ffi;
mod state;
