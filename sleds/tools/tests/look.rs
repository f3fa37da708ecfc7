//! Tests of `sleds show`, `calibrate` and `watch`, as users and scripts see them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Prepares `sleds` with a separate table in `dir`.
fn sleds(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command
        .args(args)
        .current_dir(dir)
        .env("SLEDS_TABLE", dir.join("table.toml"));
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn output(dir: &Path, args: &[&str]) -> Output {
    sleds(dir, args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Makes a file of 100 pages, of which pages 10 to 19 are cached, if the test can control the page cache.
fn file(dir: &Path) {
    let path = dir.join("file");
    fs::write(&path, vec![b'x'; 100 << 12]).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for page in 10..20 {
        let _ = file.read_at(&mut [0; 4096], page << 12).unwrap();
    }
}

#[test]
fn show_prints_a_table_of_the_whole_file_and_both_delivery_times() {
    let dir = scratch();
    file(dir.path());
    let shown = output(dir.path(), &["show", "file"]);
    assert!(shown.status.success());
    let text = out(&shown);
    assert!(text.starts_with("file: 400KiB, "), "{text}");
    assert!(
        !text.contains('\x1b') && !text.contains('█'),
        "plain when piped: {text}"
    );
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((
            words.next()?.parse::<u64>().ok()?,
            words.next()?.parse::<u64>().ok()?,
        ))
    });
    let end = rows.fold(0, |at, (offset, length)| {
        assert_eq!(offset, at, "{text}");
        offset + length
    });
    assert_eq!(end, 100 << 12);
    assert!(text.contains("\n  linear  ") && text.contains("\n  best    "));
    // Without a table, the output contains one note, and the listing names the defaults.
    assert_eq!(err(&shown).lines().count(), 1);
    assert!(
        err(&shown).contains("run `sleds calibrate`"),
        "{}",
        err(&shown)
    );
    assert!(text.contains("default, not measured"), "{text}");
}

#[test]
fn show_prints_one_json_object_per_file() {
    let dir = scratch();
    file(dir.path());
    let shown = output(dir.path(), &["show", "--json", "file", "file"]);
    let text = out(&shown);
    assert_eq!(text.lines().count(), 2);
    let value: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["length"], 100 << 12);
    let sleds = value["sleds"].as_array().unwrap();
    let sum: u64 = sleds
        .iter()
        .map(|sled| sled["length"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 100 << 12);
    for key in [
        "offset",
        "length",
        "latency_s",
        "bandwidth_Bps",
        "linear_Bps",
        "level",
        "source",
    ] {
        assert!(sleds[0].get(key).is_some(), "{key}");
    }
    assert!(value["best"]["seconds"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn show_reports_files_that_it_cannot_examine_and_continues() {
    let dir = scratch();
    file(dir.path());
    let shown = output(
        dir.path(),
        &["show", "-s", ".", "missing", "/dev/null", "file"],
    );
    assert_eq!(shown.status.code(), Some(1));
    let said = err(&shown);
    for part in [
        "show: .: is a directory",
        "missing: No such file",
        "/dev/null: has no length",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(out(&shown).lines().count(), 1);
    assert_eq!(output(dir.path(), &["show"]).status.code(), Some(2));
    assert_eq!(
        output(dir.path(), &["show", "--nonsense"]).status.code(),
        Some(2)
    );
    assert_eq!(
        output(dir.path(), &["show", "--help"]).status.code(),
        Some(0)
    );
}

#[test]
fn show_draws_a_strip_on_request() {
    let dir = scratch();
    file(dir.path());
    let text = out(&output(dir.path(), &["show", "--color", "always", "file"]));
    assert!(text.contains('█') && text.contains("\x1b["), "{text}");
}

/// A file of 300 MiB with scattered pages in memory took 1,400 lines.
#[test]
fn show_of_scattered_pages_fits_on_a_screen_by_default() {
    let dir = scratch();
    let path = dir.path().join("scattered");
    fs::write(&path, vec![b'x'; 400 << 12]).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for page in (0..400).step_by(2) {
        let _ = file.read_at(&mut [0; 4096], page << 12).unwrap();
    }
    let parts = || {
        let json = out(&output(dir.path(), &["show", "--json", "scattered"]));
        let value: Value = serde_json::from_str(&json).unwrap();
        value["sleds"].as_array().unwrap().len()
    };
    let shown = |args: &[&str]| {
        let args = [&["show", "scattered"][..], args].concat();
        let text = out(&output(dir.path(), &args));
        (text.lines().count(), text)
    };
    // The kernel may evict pages at any time, and does so if memory is short. The comparison therefore uses a look with
    // equal states before and after it.
    let (parts, [brief, all, limited]) = (0..100)
        .find_map(|_| {
            let before = parts();
            let looks = [shown(&[]), shown(&["--all"]), shown(&["--limit", "3"])];
            (before == parts()).then_some((before, looks))
        })
        .expect("pages come and go between every two looks");
    let (lines, text) = brief;
    assert!(lines < 24, "{text}");
    assert_eq!(all.0, parts + 7);
    // If the page cache has the intended state, each page is a separate part.
    if parts == 400 {
        assert!(text.contains("largest of 400 parts"), "{text}");
        assert!(text.contains("memory") && text.contains("50 %"), "{text}");
        assert_eq!(limited.0, 7 + 3 + 1 + 3);
    }
}

#[test]
fn show_does_not_wait_for_a_fifo_without_a_writer() {
    let dir = scratch();
    let made = Command::new("mkfifo").arg(dir.path().join("fifo")).status();
    assert!(made.unwrap().success());
    let shown = output(dir.path(), &["show", "fifo"]);
    assert!(err(&shown).contains("has no length"), "{}", err(&shown));
}

#[test]
fn an_unusable_device_table_is_reported_and_ignored() {
    let dir = scratch();
    file(dir.path());
    for (table, said) in [
        ("nonsense", "is broken"),
        ("version = 9\nmachine = \"x\"\n", "version 9"),
        (
            "version = 1\nmachine = \"elsewhere\"\n",
            "of another machine (elsewhere",
        ),
    ] {
        fs::write(dir.path().join("table.toml"), table).unwrap();
        let shown = output(dir.path(), &["show", "-s", "file"]);
        assert!(shown.status.success());
        assert!(err(&shown).contains(said), "{}", err(&shown));
        // A broken table that the user names explicitly is an error.
        let named = output(dir.path(), &["show", "--table", "table.toml", "file"]);
        assert_eq!(named.status.code(), Some(2));
    }
}

#[test]
fn calibrate_fills_the_device_table_and_show_uses_it() {
    let dir = scratch();
    fs::write(dir.path().join("data"), vec![7; 16 << 20]).unwrap();
    let args = ["calibrate", "--time", "0.2", "--path", "data"];
    let done = output(dir.path(), &args);
    assert!(done.status.success(), "{}", err(&done));
    let text = fs::read_to_string(dir.path().join("table.toml")).unwrap();
    assert!(
        text.contains("[[device]]") && text.contains("[memory.latency_s]"),
        "{text}"
    );
    assert_eq!(text.matches("linear_Bps").count(), 2, "{text}");
    let shown = output(dir.path(), &["show", "data"]);
    assert_eq!(err(&shown), "");
    assert!(out(&shown).contains("measured"), "{}", out(&shown));
    assert!(!out(&shown).contains("default"), "{}", out(&shown));
    // A second calibration, of a directory: the table still contains the device once.
    let again = output(dir.path(), &["calibrate", "--time", "0.2", "--path", "."]);
    assert!(again.status.success(), "{}", err(&again));
    let text = fs::read_to_string(dir.path().join("table.toml")).unwrap();
    assert_eq!(text.matches("[[device]]").count(), 1, "{text}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn calibrate_reports_unmeasurable_paths_and_writes_the_rest() {
    let dir = scratch();
    fs::write(dir.path().join("tiny"), "x").unwrap();
    fs::write(dir.path().join("data"), vec![7; 16 << 20]).unwrap();
    let args = [
        "calibrate",
        "--time",
        "0.1",
        "--path",
        "data",
        "--path",
        "tiny",
        "--path",
        "missing",
    ];
    let done = output(dir.path(), &args);
    assert_eq!(done.status.code(), Some(1));
    assert!(
        err(&done).contains("tiny: has less than 4 MiB"),
        "{}",
        err(&done)
    );
    assert!(
        err(&done).contains("missing: No such file"),
        "{}",
        err(&done)
    );
    assert!(dir.path().join("table.toml").exists());
    let bad = output(dir.path(), &["calibrate", "--time", "0"]);
    assert_eq!(bad.status.code(), Some(2));
    let dry = [
        "calibrate",
        "--time",
        "0.1",
        "--path",
        "data",
        "--dry-run",
        "-o",
        "other.toml",
    ];
    assert!(out(&output(dir.path(), &dry)).contains("version = 1"));
    assert!(!dir.path().join("other.toml").exists());
}

#[test]
fn calibrate_writes_no_table_if_no_named_device_or_file_can_be_measured() {
    let dir = scratch();
    fs::write(dir.path().join("tiny"), "x").unwrap();
    for (option, name) in [
        ("--device", "/dev/nope"),
        ("--path", "missing"),
        ("--path", "tiny"),
    ] {
        let done = output(dir.path(), &["calibrate", "--time", "0.1", option, name]);
        assert_eq!(done.status.code(), Some(1));
        let err = err(&done);
        assert!(
            err.contains(name) && err.contains("no table is written"),
            "{err}"
        );
        assert!(!dir.path().join("table.toml").exists(), "{name}");
    }
}

#[test]
fn examining_a_file_leaves_its_time_of_access_alone() {
    let dir = scratch();
    file(dir.path());
    let path = dir.path().join("file");
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(old);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_times(times)
        .unwrap();
    for args in [
        &["show", "file"][..],
        &["watch", "--once", "file"],
        &["find", "file", "-latency", "-1"],
    ] {
        let done = output(dir.path(), args);
        assert!(done.status.success(), "{}", err(&done));
        assert_eq!(
            fs::metadata(&path).unwrap().accessed().unwrap(),
            old,
            "{args:?}"
        );
    }
}

#[test]
fn names_come_from_a_list() {
    let dir = scratch();
    for name in ["a", "b\nc", "d"] {
        fs::write(dir.path().join(name), "text").unwrap();
    }
    fs::write(dir.path().join("lines"), "a\n\nd\n").unwrap();
    fs::write(dir.path().join("zeros"), "b\nc\0a").unwrap();
    for tool in [&["show", "--summary"][..], &["watch", "--once"]] {
        let run = |more: &[&str]| output(dir.path(), &[tool, more].concat());
        let listed = run(&["--files-from", "lines"]);
        assert!(listed.status.success(), "{}", err(&listed));
        let shows = |name: &str| {
            let (first, last) = (format!("{name}:"), format!(" {name}"));
            let text = out(&listed);
            let mut lines = text.lines();
            lines.any(|line| line.starts_with(&first) || line.ends_with(&last))
        };
        assert!(shows("a") && shows("d"), "{}", out(&listed));
        let listed = run(&["-0", "--files-from=zeros", "d"]);
        assert!(out(&listed).contains("b\nc"), "{}", out(&listed));
        let piped = sleds(dir.path(), tool)
            .args(["--files-from", "-"])
            .stdin(File::open(dir.path().join("lines")).unwrap())
            .output()
            .unwrap();
        assert!(piped.status.success(), "{}", err(&piped));
        let missing = run(&["--files-from", "none"]);
        assert_eq!(missing.status.code(), Some(1));
        assert!(
            err(&missing).contains("none: No such file"),
            "{}",
            err(&missing)
        );
        assert_eq!(run(&[]).status.code(), Some(2));
        assert_eq!(run(&["-0", "a"]).status.code(), Some(2));
    }
}

#[test]
fn dirty_data_is_counted_until_it_is_written() {
    let dir = scratch();
    let path = dir.path().join("f");
    fs::write(&path, vec![1; 40_000]).unwrap();
    let file = File::open(&path).unwrap();
    let unwritten = |file: &File| {
        let counts = sleds::cache_counts(file).unwrap();
        counts.map_or(0, |counts| counts.dirty + counts.writeback)
    };
    if unwritten(&file) == 0 {
        return eprintln!("SKIPPED: the kernel counts no dirty pages here");
    }
    let look = |tool: &[&str]| -> Value {
        let done = output(dir.path(), &[tool, &["--json", "f"]].concat());
        serde_json::from_slice(&done.stdout).unwrap()
    };
    file.sync_all().unwrap();
    let shown = look(&["show"]);
    assert_eq!(
        (&shown["dirty"], &shown["writeback"]),
        (&0.into(), &0.into())
    );
    let sum = |of: &Value| of["dirty"].as_u64().unwrap() + of["writeback"].as_u64().unwrap();
    // The kernel may write the data before the look.
    let write = || {
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[2; 40_000], 0).unwrap();
        look(&["watch", "--once"])
    };
    let mut looks = (0..20).map(|_| write());
    let watched = looks.find(|watched| sum(watched) > 0).unwrap();
    assert!(sum(&watched) <= 40_960, "{watched}");
    assert_eq!(sum(&watched), sum(&watched["files"][0]));
}

#[test]
fn watch_shows_files_and_folders_once() {
    let dir = scratch();
    file(dir.path());
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/cached"), vec![1; 8192]).unwrap();
    let seen = output(dir.path(), &["watch", "--once", "."]);
    assert!(seen.status.success(), "{}", err(&seen));
    let text = out(&seen);
    assert!(text.starts_with("2 files, 408KiB"), "{text}");
    let cached = text
        .lines()
        .find(|line| line.contains("sub/cached"))
        .unwrap();
    assert!(cached.trim_start().starts_with("100 %"), "{text}");
    let json = out(&output(
        dir.path(),
        &["watch", "--once", "--json", "sub/cached"],
    ));
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["files"][0]["cached"], 8192);
    let missing = output(dir.path(), &["watch", "--once", "missing", "file"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(out(&missing).contains("file"));
    assert_eq!(
        output(dir.path(), &["watch", "-n", "0", "."]).status.code(),
        Some(2)
    );
}

#[test]
fn watch_continues_and_reports_changes() {
    let dir = scratch();
    let place = dir.path().join("growing");
    fs::write(&place, vec![1; 4096]).unwrap();
    let mut watch = sleds(dir.path(), &["watch", "--json", "-n", "0.05", "growing"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut sum = 0;
    for (index, line) in lines.enumerate() {
        let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
        sum += value["files"][0]["change"].as_i64().unwrap();
        if index == 0 {
            // Written in place, not from the beginning: a look in between would see a shorter file.
            let file = File::options().write(true).open(&place).unwrap();
            file.write_all_at(&[1; 8192], 4096).unwrap();
        }
        if sum == 8192 {
            break;
        }
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(sum, 8192);
}

/// Once, files beyond the first 100,000 were missing without a message.
#[test]
fn watch_reports_the_number_of_files_that_it_leaves_out() {
    let dir = scratch();
    fs::create_dir(dir.path().join("sub")).unwrap();
    for name in ["a", "b", "sub/c", "sub/d", "sub/e"] {
        fs::write(dir.path().join(name), "text").unwrap();
    }
    let watch = |more: &[&str]| {
        let args = [&["watch", "--once", "--json"], more, &["sub", ".", "a"]].concat();
        let seen = output(dir.path(), &args);
        let value: Value = serde_json::from_slice(&seen.stdout).unwrap();
        let files = value["files"].as_array().unwrap().len();
        let errors = value["errors"].to_string();
        (
            seen.status.code(),
            files,
            value["left_out"].as_u64(),
            errors,
        )
    };
    let all = (Some(0), 9, Some(0), "[]".to_owned());
    assert_eq!(watch(&[]), all);
    assert_eq!(watch(&["--max-files", "8"]), all);
    let (code, files, left_out, errors) = watch(&["--max-files", "3"]);
    assert_eq!((code, files, left_out), (Some(1), 4, Some(5)), "{errors}");
    assert!(
        errors.contains("5 files are left out") && errors.contains("--max-files (3)"),
        "{errors}"
    );
}
