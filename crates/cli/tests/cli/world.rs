//! A directory with images, and the program run in it.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use forebay_nbd::client::BlockingNbdClient;

pub(crate) const MIB: u64 = 1 << 20;
/// Time limit for any command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scratch directory that contains `FOREBAY_CONFIG_DIR` and the other directories. Kills the daemons it started when
/// dropped.
pub(crate) struct CliSandbox {
    dir: tempfile::TempDir,
}

/// The failure of a refused command.
pub(crate) struct RefusedCommand {
    pub(crate) code: i32,
    pub(crate) said: String,
}

/// Reports that a test did not run. Bypasses the test runner, which captures printed output.
pub(crate) fn skip(test: &str, why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
}

/// Runs a command to its end. A command that exceeds the time limit is killed, and is an error.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    let pid = child.id();
    let (sender, receiver) = mpsc::channel();
    // On a thread that can be abandoned: a process that hangs in the kernel cannot even be killed.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let waits = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        let _ = Command::new("kill")
            .args(["-s", "KILL", &pid.to_string()])
            .status();
        let text = format!("{command:?} hangs (in the kernel: {waits:?})");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

impl CliSandbox {
    pub(crate) fn new() -> CliSandbox {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        CliSandbox { dir }
    }

    /// Returns a world with `data.img` (64 MiB, with some data) and the volume `v` with the log `log.img` (40 MiB in
    /// segments of 1 MiB).
    pub(crate) fn with_volume() -> CliSandbox {
        CliSandbox::with_volume_named("v")
    }

    /// Returns the world of [`CliSandbox::with_volume`] with another name of the volume.
    pub(crate) fn with_volume_named(name: &str) -> CliSandbox {
        let world = CliSandbox::new();
        world.data("data.img", 64 * MIB);
        world.image("log.img", 40 * MIB);
        world.ok(&[
            "create", "--name", name, "--data", "data.img", "--log", "log.img",
        ]);
        world
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a sparse file of zeroes.
    pub(crate) fn image(&self, name: &str, len: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(len).unwrap();
        path
    }

    /// Makes a file with some data at its beginning and end.
    pub(crate) fn data(&self, name: &str, len: u64) -> PathBuf {
        let path = self.image(name, len);
        self.poke(name, 0, name.repeat(100).as_bytes());
        self.poke(name, len - 100, &[7; 100]);
        path
    }

    pub(crate) fn poke(&self, name: &str, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    pub(crate) fn peek(&self, name: &str, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let file = File::open(self.path(name)).unwrap();
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns a command that runs the program in the directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        self.set_up(&mut command);
        command.args(args);
        command
    }

    pub(crate) fn set_up(&self, command: &mut Command) {
        command
            .current_dir(self.dir())
            .env("FOREBAY_CONFIG_DIR", self.path("etc"))
            .env("FOREBAY_RUNTIME_DIR", self.path("run"))
            .env("FOREBAY_STATE_DIR", self.path("state"))
            .env("FOREBAY_DEV_DIR", self.path("dev"))
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        output(&mut self.command(args)).expect("the program runs")
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = texts(&output);
        assert!(
            output.status.success(),
            "{args:?}: {}\n{out}{err}",
            output.status
        );
        out
    }

    /// Unmounts a filesystem, which must succeed; returns the message. Retries while the filesystem is in use: a killed
    /// process takes time to release its files, and a child process that another test starts holds this process's files
    /// for a moment.
    pub(crate) fn unmount(&self, what: &str) -> String {
        let (mut said, mut output) = (String::new(), None);
        wait_until("it is unmounted", || {
            let done = output.insert(self.run(&["umount", what]));
            said = texts(done).1;
            done.status.success() || !said.contains("in use")
        });
        let output = output.expect("it was tried");
        assert!(output.status.success(), "{said}");
        texts(&output).0
    }

    /// Runs a command that must be refused. It must leave the images unchanged, unless a running daemon changes them.
    pub(crate) fn refused(&self, args: &[&str]) -> RefusedCommand {
        let before = self.images();
        let failed = failed(args, &self.run(args));
        assert!(
            self.images() == before || self.has_attached(),
            "{args:?} changed an image: {}",
            failed.said
        );
        failed
    }

    /// Returns true if a daemon serves a volume. The daemon may write to the volume's devices at any time.
    fn has_attached(&self) -> bool {
        let list = texts(&self.run(&["list", "--json"])).0;
        let is = |state| list.contains(&format!("\"state\": \"{state}\""));
        is("attached") || is("mounted")
    }

    /// Returns every file in the directory with its content.
    fn images(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.dir()).unwrap().flatten();
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut images: Vec<_> = files
            .map(|file| (file.path(), fs::read(file.path()).unwrap()))
            .collect();
        images.sort();
        images
    }

    /// Attaches `v` for NBD clients only.
    pub(crate) fn attach(&self) -> String {
        self.ok(&["attach", "v", "--via", "none"])
    }

    /// Attaches `v` as a loop device; returns the kernel's path of the device.
    pub(crate) fn attach_loop(&self) -> String {
        let link = self.ok(&["attach", "v", "--via", "loop"]);
        let device = fs::canonicalize(link.trim()).expect("a link to the device");
        device.display().to_string()
    }

    /// Detaches `v` once its NBD clients are gone: the server notices a disconnect a moment later.
    pub(crate) fn detach(&self) -> String {
        wait_until("the clients are gone", || {
            let status = self.ok(&["status", "v", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            status["nbd_connections"] == 0
        });
        self.ok(&["detach", "v"])
    }

    /// Returns a client of the attached volume `v`.
    pub(crate) fn client(&self) -> BlockingNbdClient {
        BlockingNbdClient::connect(&self.path("run/v.nbd.sock"), "v")
            .expect("the NBD server answers")
    }

    /// Leaves `v` with flushed data that is only in the log: `len` bytes of `byte` at `at`.
    pub(crate) fn dirty(&self, at: u64, byte: u8, len: usize) {
        self.attach();
        {
            let mut client = self.client();
            client.write(at, &vec![byte; len]).unwrap();
            client.flush().unwrap();
        }
        self.kill("v");
    }

    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        let text = fs::read_to_string(self.path("run").join(format!("{name}.lock"))).ok()?;
        text.trim().parse().ok()
    }

    /// Kills a daemon as a crash would, and waits until it has ended.
    pub(crate) fn kill(&self, name: &str) {
        let pid = self.pid(name).expect("it is attached");
        signal(pid, "KILL");
        wait_for_end(pid);
        // The kernel closes the files of the process a moment later, unless one of its threads waits in the kernel for
        // the killed process itself.
        let threads = std::path::PathBuf::from(format!("/proc/{pid}/task"));
        wait_until("the control socket is dead", || {
            let socket = self.path("run").join(format!("{name}.sock"));
            let connected = std::os::unix::net::UnixStream::connect(socket);
            let left = fs::read_dir(&threads).map_or(0, Iterator::count);
            let refused = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionRefused;
            connected.as_ref().is_err_and(refused) || left > 1
        });
    }
}

pub(crate) fn signal(pid: u32, signal: &str) {
    let killed = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
}

/// Waits until a process has ended, even if it is not our child. A zombie has ended.
pub(crate) fn wait_for_end(pid: u32) {
    wait_until(
        &format!("process {pid} ends"),
        || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.starts_with(" Z")),
            Err(_) => true,
        },
    );
}

/// Waits until a condition holds that another process brings about.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        // sleeps: another process gives no event to wait for
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited in vain until {what}");
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Checks that a command failed with a single line, as all commands do.
pub(crate) fn failed(args: &[&str], output: &Output) -> RefusedCommand {
    let (out, said) = texts(output);
    let code = output.status.code().unwrap_or(-1);
    assert!(
        code > 0,
        "{args:?} should be refused, but: {} {out}{said}",
        output.status
    );
    RefusedCommand { code, said }
}

impl RefusedCommand {
    /// Checks the exit code, and that the line contains all of `parts`.
    #[track_caller]
    pub(crate) fn with(&self, code: i32, parts: &[&str]) {
        let RefusedCommand { said, .. } = self;
        assert_eq!(self.code, code, "{said}");
        for part in parts {
            assert!(said.contains(part), "\"{part}\" is not in: {said}");
        }
        // Usage errors come from the argument parser, with a hint on a separate line.
        if !said.starts_with("error:") {
            assert_eq!(said.trim_end().lines().count(), 1, "{said}");
            assert!(said.starts_with("forebay: "), "{said}");
        }
    }
}

impl Drop for CliSandbox {
    fn drop(&mut self) {
        let entries = fs::read_dir(self.path("run"))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            let name = entry.file_name().into_string().unwrap_or_default();
            let Some(name) = name.strip_suffix(".lock") else {
                continue;
            };
            let Some(pid) = self.pid(name) else { continue };
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if comm.trim() == "forebay" {
                let _ = Command::new("kill")
                    .args(["-s", "KILL", &pid.to_string()])
                    .status();
                wait_for_end(pid);
            }
        }
        crate::system::clear_away(self.dir());
    }
}
