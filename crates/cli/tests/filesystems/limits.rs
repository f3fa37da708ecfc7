//! A daemon and writers that may use little memory, with the kernel writing back to what is served.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_rng::Rng;

use crate::kinds::EXT4;
use crate::system::root;
use crate::world::{MIB, World, output, skip, texts};

/// What requests may take up: the least there can be.
const REQUESTS: u64 = 64 * MIB;
/// What else the daemon needs: segments (16 MiB), windows on their way home (three of 16 MiB), the map
/// and the program.
const BESIDES: u64 = 96 * MIB;
/// Fewer pages than are written, so that they are written back to make room for more.
const WRITER: u64 = 96 * MIB;
const WRITTEN: u64 = 200 * MIB;

/// A cgroup of its own with a limit on memory; whatever is still in it goes back above.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Beside this process's own, or a loud skip.
    fn new(test: &str, name: &str, limit: u64) -> Option<Cgroup> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.split_once(":memory:/"));
        let made = own.filter(|_| root()).and_then(|(_, own)| {
            let parent = Path::new("/sys/fs/cgroup/memory").join(own);
            let dir = parent.join(format!("forebay-{}-{name}", std::process::id()));
            fs::create_dir(&dir).ok()?;
            let cgroup = Cgroup(dir);
            fs::write(cgroup.0.join("memory.limit_in_bytes"), limit.to_string()).ok()?;
            Some(cgroup)
        });
        if made.is_none() {
            skip(test, "not root, or no memory cgroups of version 1");
        }
        made
    }

    /// A command that runs `program` in here.
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

impl Drop for Cgroup {
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
fn a_daemon_and_a_writer_under_limits_get_on_while_the_kernel_writes_back() {
    let test = "a_daemon_and_a_writer_under_limits_get_on";
    if !EXT4.can_test(test) {
        return;
    }
    let Some(daemons) = Cgroup::new(test, "daemon", REQUESTS + BESIDES) else {
        return;
    };
    let Some(writers) = Cgroup::new(test, "writer", WRITER) else {
        return;
    };
    let world = World::new();
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
    // Everything of it left the page cache with the mount.
    mount.unmount().expect("it unmounts");
    let mount = EXT4.mount(&device, &at);
    assert!(fs::read(&to).unwrap() == content, "the file is changed");
    mount.unmount().expect("it unmounts");
    EXT4.check(&device);
    // The writer was at its limit, or nothing is shown.
    assert!(writers.number("memory.failcnt") > 0);
    world.detach();
}
