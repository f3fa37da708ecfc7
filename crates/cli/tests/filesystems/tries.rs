//! `forebay try`, as a newcomer runs it, but on the images as they are: an emulated disk takes minutes.

use std::fs;
use std::process::Command;

use crate::system::root;
use crate::world::{skip, texts};

#[test]
fn try_shows_all_shapes_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["try", "--users", "1", "--disk", "none", "--dir"])
        .arg(dir.path())
        .output()
        .expect("the program runs");
    let (out, err) = texts(&output);
    if err.contains("are needed") {
        return skip("try_shows_all_shapes", "no room for its images");
    }
    assert!(output.status.success(), "{out}{err}");
    let way = match root() {
        true => "an ext4 filesystem on a loop device",
        false => "at block level over NBD",
    };
    for part in [
        way,
        "plain disk",
        "logical DCD",
        "physical DCD",
        "recovery took",
        "checks, 0 failed",
    ] {
        assert!(out.contains(part), "\"{part}\" is not in: {out}{err}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{out}{err}");
}
