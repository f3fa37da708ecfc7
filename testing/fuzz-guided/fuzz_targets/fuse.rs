//! `cargo fuzz run fuse`: what it does is in `testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::targets::give("fuse", bytes));
