//! Links `sleds` for a short start time.
//!
//! On small files, the start of the program takes almost all of the time, and page faults of the dynamic loader take
//! most of that. GNU's programs are small; `sleds` is not. Linking for a fixed address would save another 4 %, but
//! address randomization is worth more.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    // The unwinder from the compiler's archive saves loading a shared library.
    if let Some(directory) = unwinder() {
        println!("cargo::rustc-link-search=native={directory}");
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Returns the directory of `libgcc_eh.a`, if the C compiler for this machine has it.
fn unwinder() -> Option<String> {
    if std::env::var("HOST") != std::env::var("TARGET") {
        return None;
    }
    let output = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // For a missing file, the compiler prints the bare name.
    let directory = Path::new(path.trim()).parent()?.to_str()?;
    (!directory.is_empty()).then(|| directory.to_owned())
}
