//! Tests of a small `sleds bench`: it measures, gives the results of the plain programs, and leaves no files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "support/mod.rs"]
mod support;

use support::{is_gnu, scratch};

/// Prepares one experiment on a small file, within limits if the test runs as root.
fn bench(dir: &Path, runs: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command
        .args(["bench", "paper", "--only", "wc", "--sizes", "1.5"])
        .args(["--memory", "64", "--rate", "200", "--runs", runs])
        .arg("--dir")
        .arg(dir)
        .arg("--output")
        .arg(dir.join("report"));
    command
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str().unwrap().to_owned()
    });
    entries.collect()
}

/// Returns the number of control groups below `dir` with this name.
fn groups_called(name: &str, dir: &Path) -> usize {
    // Other processes create and remove groups in the meantime.
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .map(|entry| {
            usize::from(entry.file_name().to_str() == Some(name))
                + groups_called(name, &entry.path())
        })
        .sum()
}

#[test]
fn a_bench_leaves_only_a_report_with_its_figures() {
    if !is_gnu("a_bench_leaves_only_a_report_with_its_figures", "wc") {
        return;
    }
    let dir = scratch();
    let output = bench(dir.path(), "2").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names_in(dir.path()), ["report"]);
    let report = fs::read_to_string(dir.path().join("report/report.md")).unwrap();
    let row = report
        .lines()
        .find(|line| line.starts_with("| 96 | 1.50 |"));
    assert_eq!(row.expect("a row of the table").split('|').count(), 9);
    assert!(report.contains("| here: memory |"), "{report}");
    for figure in ["wc-time.svg", "wc-pages.svg", "wc-ratio.svg"] {
        assert!(report.contains(figure), "{report}");
        let drawn = fs::read_to_string(dir.path().join("report").join(figure)).unwrap();
        assert!(drawn.contains("with SLEDs") || figure == "wc-ratio.svg");
    }
}

#[test]
fn a_bench_ended_by_a_signal_removes_its_files() {
    if !is_gnu("a_bench_ended_by_a_signal_removes_its_files", "wc") {
        return;
    }
    let dir = scratch();
    let mut child = bench(dir.path(), "1000")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = format!("sleds-bench-{}", child.id());
    // Waits for the measurement: the sample for measuring the disk is removed, and the input exists.
    let begun = Instant::now();
    let measures = |name: &String| {
        let scratch = dir.path().join(name);
        scratch.join("table.toml").exists() && scratch.join("input").exists()
    };
    while !names_in(dir.path()).iter().any(measures) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(120), "it never began");
        // sleeps: another process makes the files
        std::thread::sleep(Duration::from_millis(20));
    }
    let root = rustix::process::geteuid().is_root();
    let made = groups_called(&group, Path::new("/sys/fs/cgroup"));
    if made == 0 {
        support::skip(
            "a_bench_ended_by_a_signal_removes_its_files: control groups",
            if root { "there are none" } else { "not root" },
        );
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("told to end by a signal"), "{said}");
    assert_eq!(names_in(dir.path()), ["report"]);
    assert_eq!(groups_called(&group, Path::new("/sys/fs/cgroup")), 0);
}
