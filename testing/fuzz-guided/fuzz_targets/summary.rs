//! `cargo fuzz run summary`: what it does is in `testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::targets::give("summary", bytes));
