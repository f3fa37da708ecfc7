//! `sleds warm`, `evict` and `lock`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{cache_only, scratch, settle, skip};
use crate::{TestProcess, by_nobody, json, napper, outcome, sleds};

const LENGTH: u64 = 4 << 20;

/// Makes a file of which some pages are cached. Returns false and reports a skip if this filesystem does not evict
/// pages.
fn partly_cached(test: &str, dir: &Path, name: &str) -> bool {
    let path = dir.join(name);
    fs::write(&path, vec![b'x'; LENGTH as usize]).unwrap();
    settle(dir);
    cache_only(&path, &[(40_960, 40_960)]);
    let counts = sleds::cache_counts(&File::open(&path).unwrap()).unwrap();
    if counts.is_none_or(|counts| counts.cached >= LENGTH) {
        skip(
            test,
            "this filesystem does not evict pages, or does not count them",
        );
        return false;
    }
    true
}

fn cached(dir: &Path, name: &str) -> u64 {
    let counts = sleds::cache_counts(&File::open(dir.join(name)).unwrap());
    counts.unwrap().expect("counted before").cached
}

#[test]
fn warm_reads_exactly_the_missing_parts() {
    let dir = scratch();
    let dir = dir.path();
    if !partly_cached("warm_reads_exactly_the_missing_parts", dir, "file") {
        return;
    }
    let (code, report) = json(dir, &["warm", "file"]);
    assert_eq!(code, Some(0), "{report}");
    let number = |name: &str| report[name].as_u64().unwrap();
    assert!(
        number("read") > 0 && number("cached_before") > 0,
        "{report}"
    );
    assert_eq!(number("cached_before") + number("read"), LENGTH, "{report}");
    assert_eq!(number("cached"), LENGTH, "{report}");
    assert_eq!(cached(dir, "file"), LENGTH);
    // Nothing is left to read.
    let (code, out, err) = outcome(dir, &["warm", "file"]);
    assert_eq!(code, Some(0), "{err}");
    let expected = "1 file, 4MiB: read 0B in ";
    assert!(
        out.starts_with(expected) && out.contains("4MiB in memory (100 %)"),
        "{out}"
    );
}

#[test]
fn warm_stops_at_the_limit() {
    let dir = scratch();
    let dir = dir.path();
    if !partly_cached("warm_stops_at_the_limit", dir, "file") {
        return;
    }
    let before = cached(dir, "file");
    let (code, report) = json(dir, &["warm", "--limit", "1MiB", "file"]);
    assert_eq!(
        (code, report["read"].as_u64()),
        (Some(0), Some(1 << 20)),
        "{report}"
    );
    assert_eq!(
        report["left_out"].as_u64(),
        Some(LENGTH - before - (1 << 20)),
        "{report}"
    );
    // The page cache may read in larger units than asked for, but not everything.
    let after = cached(dir, "file");
    assert!(
        after >= before + (1 << 20) && after < LENGTH,
        "{before} {after}"
    );
}

#[test]
fn warm_and_evict_take_folders_and_lists_and_report_missing_files() {
    let dir = scratch();
    let dir = dir.path();
    let test = "warm_and_evict_take_folders_and_lists_and_report_missing_files";
    fs::create_dir_all(dir.join("tree/below")).unwrap();
    if !partly_cached(test, dir, "tree/below/file") || !partly_cached(test, dir, "a\nb") {
        return;
    }
    fs::hard_link(dir.join("tree/below/file"), dir.join("tree/link")).unwrap();
    fs::write(dir.join("list"), "a\nb\0").unwrap();
    let (code, report) = json(dir, &["warm", "tree", "-0", "--files-from", "list"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["files"], 2, "{report}");
    assert_eq!(
        (cached(dir, "a\nb"), cached(dir, "tree/link")),
        (LENGTH, LENGTH)
    );
    let (code, report) = json(
        dir,
        &["evict", "missing", "tree", "-0", "--files-from", "list"],
    );
    assert_eq!(
        (code, report["files"].as_u64()),
        (Some(1), Some(2)),
        "{report}"
    );
    assert_eq!((cached(dir, "a\nb"), cached(dir, "tree/link")), (0, 0));
    assert_eq!(report["evicted"].as_u64(), Some(2 * LENGTH), "{report}");
    assert!(
        report["errors"][0]
            .as_str()
            .unwrap()
            .starts_with("missing: No such file"),
        "{report}"
    );
    for tool in ["warm", "evict", "lock"] {
        assert_eq!(outcome(dir, &[tool]).0, Some(2), "{tool}");
        let (code, _, err) = outcome(dir, &[tool, "nowhere"]);
        assert_eq!(code, Some(1), "{tool}");
        assert!(
            err.contains(&format!("sleds {tool}: nowhere: No such file")),
            "{err}"
        );
    }
}

/// A loop device of a sparse file is larger than any memory.
#[test]
fn warm_and_lock_refuse_more_than_the_available_memory() {
    let test = "warm_and_lock_refuse_more_than_the_available_memory";
    let dir = scratch();
    let dir = dir.path();
    File::create(dir.join("sparse"))
        .unwrap()
        .set_len(1 << 43)
        .unwrap();
    let mut attach = Command::new("losetup");
    attach
        .args(["--find", "--show", "--read-only", "sparse"])
        .current_dir(dir);
    let device = match attach.output() {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        _ => return skip(test, "needs loop devices"),
    };
    let device = device.trim();
    let refused = outcome(dir, &["warm", device]);
    let locked = outcome(dir, &["lock", device]);
    let dropped = json(dir, &["warm", "--limit", "1MiB", device]);
    let user = File::open(device).unwrap();
    let limited = json(dir, &["warm", "--limit", "1MiB", device]);
    drop(user);
    let detached = Command::new("losetup").args(["--detach", device]).status();
    assert!(detached.unwrap().success());
    assert_eq!(refused.0, Some(1));
    let errors = dropped.1["errors"].to_string();
    assert!(errors.contains("when no process has it open"), "{errors}");
    assert_eq!(dropped.0, Some(1));
    let message = &refused.2;
    assert!(
        message.contains("8TiB do not fit into the available memory")
            && message.contains("--limit (")
            && message.contains("--force"),
        "{message}"
    );
    assert_eq!(locked.0, Some(1));
    assert!(locked.2.contains("so nothing is locked"), "{}", locked.2);
    assert_eq!(
        (limited.0, limited.1["read"].as_u64()),
        (Some(0), Some(1 << 20)),
        "{limited:?}"
    );
}

#[test]
fn evict_writes_dirty_data_first_on_request_and_otherwise_reports_it() {
    let dir = scratch();
    let dir = dir.path();
    let test = "evict_writes_dirty_data_first_on_request_and_otherwise_reports_it";
    if !partly_cached(test, dir, "file") {
        return;
    }
    let content = vec![b'y'; LENGTH as usize];
    fs::write(dir.join("file"), &content).unwrap();
    let (code, report) = json(dir, &["evict", "file"]);
    // The kernel may have written the data before.
    let remaining = report["remaining"].as_u64().unwrap();
    assert_eq!(code, Some(i32::from(remaining > 0)), "{report}");
    if remaining > 0 {
        let kept = &report["kept"][0];
        let unwritten = kept["dirty"].as_u64().unwrap() + kept["writeback"].as_u64().unwrap();
        assert!(unwritten > 0, "{report}");
    }
    fs::write(dir.join("file"), &content).unwrap();
    let (code, report) = json(dir, &["evict", "--sync", "file"]);
    assert_eq!(
        (code, report["remaining"].as_u64()),
        (Some(0), Some(0)),
        "{report}"
    );
    assert_eq!(cached(dir, "file"), 0);
    assert!(fs::read(dir.join("file")).unwrap() == content);
}

#[test]
fn evict_reports_files_that_exist_only_in_memory() {
    let test = "evict_reports_files_that_exist_only_in_memory";
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skip(test, "needs /dev/shm");
    };
    fs::write(dir.path().join("file"), [1; 8192]).unwrap();
    let (code, out, _) = outcome(dir.path(), &["evict", "file"]);
    assert_eq!(code, Some(1), "{out}");
    let expected = "  file: 8KiB: the filesystem keeps its data only in memory\n";
    assert!(out.ends_with(expected), "{out}");
}

#[test]
fn evict_names_the_processes_that_keep_data_in_memory() {
    let dir = scratch();
    let dir = dir.path();
    let test = "evict_names_the_processes_that_keep_data_in_memory";
    if !partly_cached(test, dir, "file") {
        return;
    }
    let process = napper(dir, &dir.join("file"));
    let (code, out, err) = outcome(dir, &["evict", "--sync", "napper", "file"]);
    assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
    let reason = format!(": mapped by {} (napper)\n", process.pid());
    assert!(out.contains("  napper: ") && out.contains(&reason), "{out}");
    // An open file is no obstacle.
    assert!(!out.contains("  file: "), "{out}");
    drop(process);
    assert_eq!(outcome(dir, &["evict", "napper"]).0, Some(0));
}

/// Starts `sleds lock`, and waits until it has locked the files.
fn locker(dir: &Path, args: &[&str]) -> (TestProcess, String) {
    let mut command = sleds(dir, &[&["lock"], args].concat());
    let mut process = TestProcess(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let output = process.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    (process, line)
}

#[test]
fn lock_keeps_files_in_memory_until_a_signal() {
    let dir = scratch();
    let dir = dir.path();
    let test = "lock_keeps_files_in_memory_until_a_signal";
    if !partly_cached(test, dir, "file") {
        return;
    }
    fs::create_dir(dir.join("tree")).unwrap();
    fs::rename(dir.join("file"), dir.join("tree/file")).unwrap();
    fs::write(dir.join("tree/empty"), "").unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut process, line) = locker(dir, &["tree"]);
        if line.is_empty() && !rustix::process::geteuid().is_root() {
            return skip(test, "the limit of locked memory is too small");
        }
        assert!(line.starts_with("2 files, 4MiB locked in memory"), "{line}");
        assert_eq!(cached(dir, "tree/file"), LENGTH);
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        assert!(status.contains("VmLck:\t    4096 kB"), "{status}");
        let (code, out, _) = outcome(dir, &["evict", "--sync", "tree"]);
        assert_eq!(code, Some(1), "{out}");
        let reason = format!("  tree/file: 4MiB: locked by {} (sleds)\n", process.pid());
        assert!(out.contains(&reason), "{out}");
        kill_process(Pid::from_child(&process.0), signal).unwrap();
        assert_eq!(process.0.wait().unwrap().code(), Some(0), "{signal:?}");
        let (code, out, _) = outcome(dir, &["evict", "tree"]);
        assert_eq!(code, Some(0), "{out}");
    }
}

#[test]
fn lock_reports_the_limit_of_locked_memory_and_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let test = "lock_reports_the_limit_of_locked_memory_and_the_remedy";
    fs::write(dir.path().join("file"), vec![0; 1 << 20]).unwrap();
    let Some((code, out, err)) = by_nobody(dir.path(), "ulimit -l 64", "lock file") else {
        return skip(test, "becoming another user needs root");
    };
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for part in [
        "1MiB exceed the limit of locked memory, 64KiB (RLIMIT_MEMLOCK)",
        "ulimit -l",
        "LimitMEMLOCK=",
        "nothing is locked",
    ] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn unknown_pages_are_reported_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let test = "unknown_pages_are_reported_and_not_counted";
    fs::write(dir.path().join("file"), vec![0; 1 << 20]).unwrap();
    let Some((code, out, err)) = by_nobody(dir.path(), ":", "evict file") else {
        return skip(test, "becoming another user needs root");
    };
    if err.is_empty() {
        return skip(test, "this kernel reports cached pages to every user");
    }
    let expected = "1 file, 1MiB: not told what remains in memory\n";
    assert_eq!((code, out.as_str()), (Some(1), expected), "{err}");
    assert!(
        err.contains("not known what remained in memory of 1 file"),
        "{err}"
    );
    let warmed = by_nobody(dir.path(), ":", "warm file").unwrap();
    assert_eq!(warmed.0, Some(0), "{}", warmed.2);
    assert!(warmed.1.contains("read 1MiB in "), "{}", warmed.1);
    assert!(
        warmed.1.ends_with(", not told what is in memory\n"),
        "{}",
        warmed.1
    );
}

#[test]
fn names_come_from_standard_input() {
    let dir = scratch();
    let dir = dir.path();
    fs::write(dir.join("file"), [7; 8192]).unwrap();
    settle(dir);
    for tool in ["evict", "warm"] {
        let mut command = sleds(dir, &[tool, "--files-from", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"file\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(out.starts_with("1 file, 8KiB: "), "{out}");
    }
}
