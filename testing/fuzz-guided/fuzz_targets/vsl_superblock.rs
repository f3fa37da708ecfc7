//! `cargo fuzz run vsl_superblock`: runs the target of this name in `testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::targets::give("vsl_superblock", bytes));
