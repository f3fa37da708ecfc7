//! `forebay try`, as a new user runs it, but without emulated disks, which take minutes.

use std::fs;
use std::process::Command;

use crate::system::{installed, root};
use crate::world::{skip, texts};

/// Runs the command with `more`, and checks that its output contains all of `parts`.
fn shows(more: &[&str], parts: &[&str]) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["try", "--users", "1", "--disk", "none", "--dir"])
        .arg(dir.path())
        .args(more)
        .output()
        .expect("the program runs");
    let (out, err) = texts(&output);
    if err.contains("are needed") {
        return skip("try", "no room for its images");
    }
    assert!(output.status.success(), "{out}{err}");
    for part in parts.iter().chain(&["recovery took", "checks, 0 failed"]) {
        assert!(out.contains(part), "\"{part}\" is not in: {out}{err}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{out}{err}");
}

/// Returns the way in which the demonstration shows block devices.
fn way() -> &'static str {
    if root() {
        "an ext4 filesystem on a loop device"
    } else {
        "at block level over NBD"
    }
}

#[test]
fn try_compares_all_cache_layouts_and_leaves_nothing_behind() {
    let conditions = if root() {
        "ext4 with its journal and default options"
    } else {
        "without a filesystem"
    };
    shows(
        &[],
        &[way(), conditions, "disk alone", "log on disk", "log on 2nd"],
    );
}

#[test]
fn try_measures_the_filesystem_and_a_database_and_leaves_nothing_behind() {
    if !root() {
        return skip("try --fs", "it needs a mount");
    }
    if !installed("try --fs", &["sqlite3"]) {
        return;
    }
    shows(
        &["--fs"],
        &[
            "ext4 with its journal and default options",
            "database, commit each",
            "forebay",
            "all of its 200 transactions",
            "reports the filesystem clean",
        ],
    );
}

#[test]
fn try_compares_log_structured_volumes_and_leaves_nothing_behind() {
    shows(
        &["--volume", "vsl"],
        &[
            way(),
            "disk alone",
            "lfs",
            "hylog",
            "reports the volume clean",
        ],
    );
}

#[test]
fn try_filled_fills_filesystems_before_it_measures() {
    if !root() {
        return skip("try --filled", "it needs a filesystem");
    }
    shows(
        &["--volume", "vsl", "--placement", "auto", "--filled", "50"],
        &["filling it to 50 %", "auto", "reports the volume clean"],
    );
}
