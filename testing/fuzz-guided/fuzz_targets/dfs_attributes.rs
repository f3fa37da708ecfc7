//! `cargo fuzz run dfs_attributes`: runs the target of this name in `testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::targets::give("dfs_attributes", bytes));
