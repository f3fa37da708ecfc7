//! `sleds show --pid` and `--cgroup`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{scratch, skip};
use crate::{by_nobody, json, napper, outcome};

/// Returns the row of a file whose path ends with `name`.
fn row<'v>(report: &'v Value, name: &str) -> &'v Value {
    let files = report["files"].as_array().unwrap();
    let mut found = files
        .iter()
        .filter(|file| file["path"].as_str().unwrap().ends_with(name));
    let row = found.next().unwrap_or_else(|| panic!("{name}: {report}"));
    assert!(found.next().is_none(), "{name} twice: {report}");
    row
}

fn input(dir: &Path) -> PathBuf {
    let path = dir.join("input");
    fs::write(&path, [1; 8192]).unwrap();
    path
}

#[test]
fn show_lists_the_mapped_and_open_files_of_a_process() {
    let dir = scratch();
    let dir = dir.path();
    let process = napper(dir, &input(dir));
    let (code, report) = json(dir, &["show", "--pid", &process.pid()]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["processes"][0]["command"], "napper");
    let open = row(&report, "/input");
    assert_eq!(
        (&open["length"], &open["cached"]),
        (&8192.into(), &8192.into()),
        "{report}"
    );
    assert_eq!(
        (&open["open"], &open["mapped"]),
        (&1.into(), &0.into()),
        "{report}"
    );
    assert_eq!(open["deleted"], false);
    let mapped = row(&report, "/napper");
    assert!(mapped["mapped"].as_u64().unwrap() > 0 && mapped["cached"].as_u64() > Some(0));
    assert_eq!(mapped["open"], 0);
    // The C library.
    row(&report, "libc.so.6");
    let sum = |name: &str| -> u64 {
        let files = report["files"].as_array().unwrap();
        files.iter().map(|file| file[name].as_u64().unwrap()).sum()
    };
    assert_eq!(report["length"].as_u64(), Some(sum("length")));
    assert_eq!(report["cached"].as_u64(), Some(sum("cached")));

    let (code, out, err) = outcome(dir, &["show", "--pid", &process.pid(), "--limit", "1"]);
    assert_eq!((code, out.lines().count()), (Some(0), 4), "{out}{err}");
    assert!(
        out.starts_with(&format!("process {} (napper): ", process.pid())),
        "{out}"
    );
    assert!(out.contains(" more\n"), "{out}");
    let (_, out, _) = outcome(dir, &["show", "-s", "--pid", &process.pid()]);
    assert_eq!(out.lines().count(), 1, "{out}");
}

#[test]
fn show_finds_deleted_files_of_a_process() {
    let dir = scratch();
    let dir = dir.path();
    let process = napper(dir, &input(dir));
    fs::remove_file(dir.join("input")).unwrap();
    fs::remove_file(dir.join("napper")).unwrap();
    // A new file with the old name is another file.
    fs::write(dir.join("napper"), "short").unwrap();
    let (code, report) = json(dir, &["show", "--pid", &process.pid()]);
    let open = row(&report, "/input");
    assert_eq!(
        (&open["deleted"], &open["length"]),
        (&true.into(), &8192.into()),
        "{report}"
    );
    if !rustix::process::geteuid().is_root() {
        assert_eq!(code, Some(1), "{report}");
        assert!(report["errors"].to_string().contains("napper"), "{report}");
        return;
    }
    assert_eq!(code, Some(0), "{report}");
    let mapped = row(&report, "/napper");
    assert_eq!(mapped["deleted"], true, "{report}");
    assert!(mapped["length"].as_u64() > Some(5), "{report}");
    let (_, out, _) = outcome(dir, &["show", "--pid", &process.pid(), "--all"]);
    assert!(
        out.contains("open         ") && out.contains("/input (deleted)\n"),
        "{out}"
    );
}

#[test]
fn show_explains_processes_that_it_cannot_examine() {
    let dir = scratch();
    let dir = dir.path();
    let process = napper(dir, &input(dir));
    let pid = process.pid();
    drop(process);
    let (code, _, err) = outcome(dir, &["show", "--pid", &pid, "--pid", "4194305"]);
    assert_eq!(code, Some(1));
    let gone = format!("sleds show: process {pid} does not exist, or has ended\n");
    assert!(
        err.contains(&gone) && err.contains("process 4194305 does not exist"),
        "{err}"
    );
    for wrong in ["0", "-1", "x", "99999999999"] {
        let pid = format!("--pid={wrong}");
        assert_eq!(outcome(dir, &["show", &pid]).0, Some(2), "{wrong}");
    }
    // A process that has ended, until its parent collects it.
    let mut zombie = std::process::Command::new("true").spawn().unwrap();
    let pid = zombie.id().to_string();
    let status = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    while !status().contains("State:\tZ") {
        std::thread::yield_now();
    }
    let (code, _, err) = outcome(dir, &["show", "--pid", &pid]);
    zombie.wait().unwrap();
    assert_eq!(code, Some(1));
    assert!(err.contains("has ended, and holds no files"), "{err}");
}

#[test]
fn show_takes_the_number_of_a_thread_for_its_process() {
    let dir = scratch();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        wait.recv().ok();
    });
    let tid = receiver.recv().unwrap().as_raw_nonzero().to_string();
    let (_, out, err) = outcome(dir.path(), &["show", "-s", "--pid", &tid]);
    drop(stop);
    thread.join().unwrap();
    let pid = std::process::id();
    assert!(
        err.contains(&format!("{tid} is a thread of process {pid} (")),
        "{err}"
    );
    assert!(out.starts_with(&format!("process {pid} (")), "{out}");
}

#[test]
fn show_warns_of_processes_of_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let process = napper(dir.path(), &input(dir.path()));
    let args = format!("show --json --pid {} input", process.pid());
    let Some((code, out, err)) = by_nobody(dir.path(), ":", &args) else {
        return skip("show_warns_of_processes_of_other_users", "needs root");
    };
    // The other result is complete.
    assert_eq!((code, out.lines().count()), (Some(1), 2), "{out}{err}");
    for what in ["mapped files", "open files"] {
        let line = format!(
            "process {} (napper): {what}: Permission denied (run as root, or as the user of the \
             process)\n",
            process.pid()
        );
        assert!(err.contains(&line), "{err}");
    }
}

/// The directory has the files of a cgroup. Thus the test needs no memory controller.
#[test]
fn show_lists_the_files_of_a_cgroup_and_the_figures_of_the_kernel() {
    let dir = scratch();
    let dir = dir.path();
    fs::create_dir(dir.join("other")).unwrap();
    let first = napper(dir, &input(dir));
    let second = napper(&dir.join("other"), &dir.join("input"));
    fs::create_dir_all(dir.join("group/below")).unwrap();
    for (name, content) in [
        ("group/cgroup.controllers", "memory\n"),
        ("group/cgroup.procs", &format!("{}\n0\n", first.pid())),
        (
            "group/below/cgroup.procs",
            &format!("{}\n4194305\n", second.pid()),
        ),
        (
            "group/memory.stat",
            "anon 1\nfile 40960\nfile_mapped 8192\nfile_dirty 4096\nfile_writeback 0\n",
        ),
    ] {
        fs::write(dir.join(name), content).unwrap();
    }
    let (code, report) = json(dir, &["show", "--cgroup", "group"]);
    assert_eq!(code, Some(1), "{report}");
    let errors = report["errors"].to_string();
    assert!(
        errors.contains("process 4194305 does not exist"),
        "{errors}"
    );
    assert!(errors.contains("another PID namespace"), "{errors}");
    assert_eq!(report["processes"].as_array().unwrap().len(), 2, "{report}");
    let shared = row(&report, "/input");
    assert_eq!(
        (
            &shared["open"],
            shared["processes"].as_array().unwrap().len()
        ),
        (&2.into(), 2)
    );
    row(&report, "other/napper");
    assert_eq!(report["memory"]["file"], 40_960);
    assert_eq!(report["memory"]["file_dirty"], 4096);
    let (_, out, _) = outcome(dir, &["show", "-s", "--cgroup", "group"]);
    let figures =
        "  memory.stat: file 40KiB, file_mapped 8KiB, file_dirty 4KiB, file_writeback 0B\n";
    assert!(
        out.starts_with("cgroup group: 2 processes, ") && out.ends_with(figures),
        "{out}"
    );

    fs::remove_file(dir.join("group/memory.stat")).unwrap();
    let (code, report) = json(dir, &["show", "--cgroup", "group"]);
    assert_eq!(code, Some(1), "{report}");
    row(&report, "/input");
    assert!(
        report["errors"]
            .to_string()
            .contains("memory controller is not enabled"),
        "{report}"
    );
    for (name, why) in [("other", "is not a cgroup"), ("none", "no such cgroup")] {
        let (code, _, err) = outcome(dir, &["show", "--cgroup", name]);
        assert_eq!(code, Some(1));
        assert!(err.contains(why), "{err}");
    }
}

/// A cgroup that the test makes.
struct TestGroup(PathBuf);

impl Drop for TestGroup {
    fn drop(&mut self) {
        // The kernel removes the last process of the group a moment after its end.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            // sleeps: the kernel reports the removal of a process to nobody.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn show_finds_a_cgroup_by_its_path_in_the_hierarchy() {
    let test = "show_finds_a_cgroup_by_its_path_in_the_hierarchy";
    let dir = scratch();
    let dir = dir.path();
    let mounts = sleds::mounts();
    let Some(mount) = mounts.iter().find(|mount| mount.kind == "cgroup2") else {
        return skip(test, "needs cgroups of version 2");
    };
    let name = format!("sleds-test-{}", std::process::id());
    let path = mount.point.join(&name);
    if fs::create_dir(&path).is_err() {
        return skip(test, "needs the right to make a cgroup");
    }
    let group = TestGroup(path);
    let process = napper(dir, &input(dir));
    if fs::write(group.0.join("cgroup.procs"), process.pid()).is_err() {
        return skip(test, "needs the right to move a process");
    }
    let has_memory = group.0.join("memory.stat").exists();
    for name in [format!("/{name}"), name, group.0.display().to_string()] {
        let (code, report) = json(dir, &["show", "--cgroup", &name]);
        assert_eq!(code, Some(i32::from(!has_memory)), "{report}");
        assert_eq!(report["memory"]["file"].is_u64(), has_memory, "{report}");
        let processes = report["processes"].as_array().unwrap();
        assert_eq!(processes.len(), 1, "{report}");
        assert_eq!(processes[0]["pid"].to_string(), process.pid());
        row(&report, "/input");
    }
}
