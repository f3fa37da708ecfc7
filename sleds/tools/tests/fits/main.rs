//! Compares `sleds fits` with astropy and numpy, on images of every kind and on astropy's own samples. `check.py` makes
//! the comparisons, since astropy is a Python package.

mod order;
#[path = "../support/mod.rs"]
mod support;
mod unsigned;

use std::process::Command;

use support::{scratch, seed, skip};

/// Returns a Python interpreter with astropy.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let mut command = Command::new(python);
        let tried = command.args(["-c", "import astropy, numpy"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    })
}

/// Runs one group of comparisons in `check.py`. The group must contain at least `least` comparisons.
fn check(test: &str, what: &str, least: u64) {
    let Some(python) = python() else {
        return skip(
            test,
            "there is no Python with astropy (package python3-astropy)",
        );
    };
    let dir = scratch();
    let seed = seed();
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fits/check.py"))
        .arg(env!("CARGO_BIN_EXE_sleds"))
        .arg(dir.path())
        .args([&seed.to_string(), what])
        .output()
        .expect("Python to run");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && !out.contains("DIFFERENCE"),
        "seed {seed}:\n{out}\n{err}"
    );
    let made = out
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("compared "));
    let made: u64 = made.and_then(|n| n.parse().ok()).expect("a number");
    assert!(made >= least, "only {made} comparisons were made");
}

#[test]
fn histograms_equal_those_of_numpy() {
    check("histograms_equal_those_of_numpy", "hist", 150);
}

#[test]
fn rebinned_images_equal_those_of_numpy() {
    check("rebinned_images_equal_those_of_numpy", "bin", 200);
}

#[test]
fn the_sample_files_of_astropy_give_the_results_of_numpy() {
    check(
        "the_sample_files_of_astropy_give_the_results_of_numpy",
        "samples",
        40,
    );
}

#[test]
fn errors_are_reported_and_leave_no_file_behind() {
    check("errors_are_reported_and_leave_no_file_behind", "bad", 25);
}
