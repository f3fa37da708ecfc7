//! `cargo fuzz run sleds_ioctls`: runs the target of this name in `testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::targets::give("sleds_ioctls", bytes));
