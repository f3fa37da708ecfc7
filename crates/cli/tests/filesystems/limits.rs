//! A daemon and writers with little memory, while the kernel writes back to the served device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_rng::Rng;

use crate::kinds::EXT4;
use crate::system::root;
use crate::world::{CliSandbox, MIB, output, skip, texts};

/// Memory for requests: the allowed minimum.
const REQUESTS: u64 = 64 * MIB;
/// Other memory of the daemon: segments (16 MiB), windows being destaged (three of 16 MiB), the map and the program.
const BESIDES: u64 = 96 * MIB;
/// Less than is written, so that the kernel must write pages back to free memory.
const WRITER: u64 = 96 * MIB;
const WRITTEN: u64 = 200 * MIB;

/// A cgroup with a memory limit. When dropped, its remaining processes move to the parent.
struct MemoryCgroup(PathBuf);

impl MemoryCgroup {
    /// Makes a cgroup beside that of this process, or skips the test with a message.
    fn new(test: &str, name: &str, limit: u64) -> Option<MemoryCgroup> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.split_once(":memory:/"));
        let made = own.filter(|_| root()).and_then(|(_, own)| {
            let parent = Path::new("/sys/fs/cgroup/memory").join(own);
            let dir = parent.join(format!("forebay-{}-{name}", std::process::id()));
            fs::create_dir(&dir).ok()?;
            let cgroup = MemoryCgroup(dir);
            fs::write(cgroup.0.join("memory.limit_in_bytes"), limit.to_string()).ok()?;
            Some(cgroup)
        });
        if made.is_none() {
            skip(test, "not root, or no memory cgroups of version 1");
        }
        made
    }

    /// Returns a command that runs `program` in the cgroup.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$ > "$0" && exec "$@""#])
            .arg(self.0.join("cgroup.procs"))
            .arg(program);
        command
    }

    fn number(&self, file: &str) -> u64 {
        let text = fs::read_to_string(self.0.join(file)).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let above = self.0.parent().map(|above| above.join("cgroup.procs"));
        let left = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let _ = above.as_ref().map(|above| fs::write(above, pid));
        }
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// Runs a command to success; returns its standard output.
fn done(command: &mut Command) -> String {
    let output = output(command).expect("it runs");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

#[test]
fn a_daemon_and_a_writer_under_memory_limits_progress_during_kernel_writeback() {
    let test = "a_daemon_and_a_writer_under_memory_limits_progress_during_kernel_writeback";
    if !EXT4.can_test(test) {
        return;
    }
    let Some(daemons) = MemoryCgroup::new(test, "daemon", REQUESTS + BESIDES) else {
        return;
    };
    let Some(writers) = MemoryCgroup::new(test, "writer", WRITER) else {
        return;
    };
    let world = CliSandbox::new();
    world.image("data.img", 2 * EXT4.data_bytes);
    let create = [
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.ok(&[&create[..], &["--log-size", "40MiB"]].concat());
    let mut attach = daemons.command(env!("CARGO_BIN_EXE_forebay"));
    world.set_up(&mut attach);
    attach.args(["attach", "v", "--via", "loop", "--memory", "64MiB"]);
    let device = done(&mut attach).trim().to_owned();
    EXT4.make(&device);
    let at = world.path("mnt");
    let mount = EXT4.mount(&device, &at);
    let content = Rng::new(9).bytes(WRITTEN as usize);
    let (from, to) = (world.path("content"), at.join("file"));
    fs::write(&from, &content).unwrap();
    let mut copy = writers.command("dd");
    copy.arg(format!("if={}", from.display()));
    copy.arg(format!("of={}", to.display()));
    done(copy.args(["bs=1M", "conv=fsync", "status=none"]));
    // The unmount has removed all its data from the page cache.
    mount.unmount().expect("it unmounts");
    let mount = EXT4.mount(&device, &at);
    assert!(fs::read(&to).unwrap() == content, "the file is changed");
    mount.unmount().expect("it unmounts");
    EXT4.check(&device);
    // Without reaching the limit of the writer, the test shows nothing.
    assert!(writers.number("memory.failcnt") > 0);
    world.detach();
}
