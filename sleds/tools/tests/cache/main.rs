//! Tests of `sleds warm`, `evict` and `lock`, and of `sleds show` for processes and cgroups.

mod pages;
mod processes;
#[path = "../support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A user without any rights.
const NOBODY: u32 = 65_534;

/// Prepares `sleds` in `dir`.
fn sleds(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.env("SLEDS_TABLE", dir.join("table.toml"));
    command
}

/// Runs `sleds`. Returns its exit code, and what it wrote to standard output and standard error.
fn outcome(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    words(&sleds(dir, args).output().unwrap())
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Runs `sleds` with `--json`. Returns its exit code and the object.
fn json(dir: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let (code, out, err) = outcome(dir, &[args, &["--json"]].concat());
    let value = serde_json::from_str(&out);
    (
        code,
        value.unwrap_or_else(|_| panic!("{args:?}: {out} {err}")),
    )
}

/// A process of the test, which ends with the test.
struct TestProcess(Child);

impl TestProcess {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a copy of `sleep` with the name `napper` in `dir`, whose standard input is the file `input`.
fn napper(dir: &Path, input: &Path) -> TestProcess {
    let program = copy_program(Path::new("/bin/sleep"), &dir.join("napper"));
    let mut command = Command::new(program);
    command.arg("300").stdin(File::open(input).unwrap());
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let process = TestProcess(child);
    // Until the new program runs, the process has the files of the test.
    let link = format!("/proc/{}/exe", process.pid());
    while fs::read_link(&link).is_ok_and(|exe| !exe.ends_with("napper")) {
        std::thread::yield_now();
    }
    process
}

/// Copies a program by another process: a descriptor open for writing in this process may be inherited by a child of a
/// concurrent test, and the copy could then not be executed.
fn copy_program(from: &Path, to: &Path) -> PathBuf {
    let copied = Command::new("cp").arg("-L").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
    to.to_owned()
}

/// Runs `sleds` as the user nobody, started by a shell with a preparation. `None` without root.
fn by_nobody(dir: &Path, prepare: &str, args: &str) -> Option<(Option<i32>, String, String)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    all(dir);
    let program = dir.join("sleds");
    if !program.exists() {
        all(&copy_program(
            Path::new(env!("CARGO_BIN_EXE_sleds")),
            &program,
        ));
    }
    let script = format!("{prepare}\nexec ./sleds {args}");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(dir)
        .uid(NOBODY)
        .gid(NOBODY);
    Some(words(&shell.stdin(Stdio::null()).output().unwrap()))
}
