//! Links `sleds` so that it starts quickly.
//!
//! On small files nearly all of the time goes into the start of the program, and most of that into
//! page faults of the dynamic loader. GNU's programs are small; this one is not. Linked for a fixed
//! address it would take another 4 % less; that its address is random is worth more.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    // The unwinder from the compiler's archive is one library less to load.
    if let Some(directory) = unwinder() {
        println!("cargo::rustc-link-search=native={directory}");
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// The directory of `libgcc_eh.a`, if the C compiler for this machine has it.
fn unwinder() -> Option<String> {
    if std::env::var("HOST") != std::env::var("TARGET") {
        return None;
    }
    let output = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // The bare name comes back if there is no such file.
    let directory = Path::new(path.trim()).parent()?.to_str()?;
    (!directory.is_empty()).then(|| directory.to_owned())
}
