//! Processes of an unprivileged user that do random permitted operations: `caller.c`.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_rng::Rng;

use crate::world::{output, signal, texts};

const NOBODY: u32 = 65534;
/// Bytes of the file of counters before its slots, and of each slot: finished acts (8), thread (4), act under way (4).
const HEADER: usize = 16;
const SLOT: usize = 16;
const SOURCES: [&str; 6] = [
    "caller.c",
    "data.c",
    "names.c",
    "memory.c",
    "waiting.c",
    "atomic.c",
];

struct CallerProcess {
    child: Child,
    is_stopped: bool,
    has_ended: bool,
}

/// Processes with equally many threads, and one process that uses a file as a bystander does, in the last slot.
pub(crate) struct HostileCallers {
    scratch: tempfile::TempDir,
    dir: PathBuf,
    counters: File,
    threads: usize,
    processes: Vec<CallerProcess>,
    bystander: Child,
    /// Killed processes that the kernel has not yet ended.
    dying: Vec<Child>,
    rng: Rng,
}

/// A thread with the act that it has not finished.
pub(crate) struct UnfinishedAct {
    pub(crate) tid: u32,
    pub(crate) act: String,
}

impl HostileCallers {
    /// Starts processes in a directory, whose owner they become.
    pub(crate) fn start(dir: &Path, seed: u64, processes: usize, threads: usize) -> HostileCallers {
        let scratch = tempfile::tempdir().expect("made");
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("set");
        build(&scratch.path().join("caller"));
        std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).expect("given");
        let path = scratch.path().join("counters");
        let counters = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let counters = counters.expect("made");
        let length = HEADER + (processes * threads + 1) * SLOT;
        counters.set_len(length as u64).expect("set");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("set");
        let last = (processes * threads).to_string();
        let bystander = spawn(
            &scratch,
            dir,
            &["probe", path.to_str().expect("UTF-8"), &last],
        );
        let mut callers = HostileCallers {
            scratch,
            dir: dir.to_owned(),
            counters,
            threads,
            processes: Vec::new(),
            bystander,
            dying: Vec::new(),
            rng: Rng::new(seed),
        };
        for n in 0..processes {
            let started = callers.start_one(n);
            callers.processes.push(started);
        }
        callers
    }

    fn start_one(&self, n: usize) -> CallerProcess {
        let (seed, threads) = (self.rng.next().to_string(), self.threads.to_string());
        let (path, first) = (self.scratch.path().join("counters"), n * self.threads);
        let path = path.to_str().expect("UTF-8");
        let child = spawn(
            &self.scratch,
            &self.dir,
            &[&seed, &threads, path, &first.to_string()],
        );
        CallerProcess {
            child,
            is_stopped: false,
            has_ended: false,
        }
    }

    /// Now and then kills a process and starts another one in its place, or stops one, or continues one.
    pub(crate) fn disturb(&mut self) {
        let n = self.rng.below(self.processes.len() as u64) as usize;
        match self.rng.below(24) {
            0 if self.dying.is_empty() => {
                let started = self.start_one(n);
                let mut killed = std::mem::replace(&mut self.processes[n], started);
                killed.child.kill().expect("killed");
                self.dying.push(killed.child);
            }
            1..4 => self.stop(n, true),
            4..12 => self.stop(n, false),
            _ => {}
        }
        self.dying
            .retain_mut(|child| child.try_wait().expect("known").is_none());
    }

    fn stop(&mut self, n: usize, stops: bool) {
        let process = &mut self.processes[n];
        if process.is_stopped == stops || process.has_ended {
            return;
        }
        process.is_stopped = stops;
        signal(process.child.id(), if stops { "STOP" } else { "CONT" });
    }

    fn slots(&self) -> Vec<u8> {
        let mut bytes = vec![0; (self.processes.len() * self.threads + 1) * SLOT];
        self.counters
            .read_exact_at(&mut bytes, HEADER as u64)
            .expect("read");
        bytes
    }

    /// Returns the finished acts of each thread; `None` if its process has been stopped or has ended.
    pub(crate) fn done(&self) -> Vec<Option<u64>> {
        let slots = self.slots();
        let counts = slots.chunks(SLOT).map(u64_at);
        let runs = |n: usize| match self.processes.get(n / self.threads) {
            Some(process) => !process.is_stopped && !process.has_ended,
            None => true,
        };
        counts
            .enumerate()
            .map(|(n, count)| runs(n).then_some(count))
            .collect()
    }

    /// Returns the number of finished acts of all threads.
    pub(crate) fn total(&self) -> u64 {
        self.slots().chunks(SLOT).map(u64_at).sum()
    }

    /// Fails if the bystander ended, which a refusal makes it do. Restarts a caller that ended by a mistake of its own.
    pub(crate) fn check_alive(&mut self) {
        let ended = self.bystander.try_wait().expect("known");
        assert!(ended.is_none(), "the bystander was refused: {ended:?}");
        for n in 0..self.processes.len() {
            let ended = self.processes[n].child.try_wait().expect("known");
            if let Some(status) = ended {
                eprintln!("a caller ended by itself: {status}");
                self.processes[n] = self.start_one(n);
            }
        }
    }

    /// Tells all threads to end after the act under way.
    pub(crate) fn request_end(&mut self) {
        self.counters.write_all_at(&[1], 0).expect("written");
        for n in 0..self.processes.len() {
            self.stop(n, false);
        }
    }

    /// Returns true once all processes have ended.
    pub(crate) fn have_ended(&mut self) -> bool {
        self.dying
            .retain_mut(|child| child.try_wait().expect("known").is_none());
        for process in &mut self.processes {
            process.has_ended |= process.child.try_wait().expect("known").is_some();
        }
        let bystander = self.bystander.try_wait().expect("known").is_some();
        bystander && self.dying.is_empty() && self.processes.iter().all(|process| process.has_ended)
    }

    /// Returns the identifiers of all processes that have not ended.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let live = self.processes.iter().filter(|process| !process.has_ended);
        let live = live.map(|process| process.child.id());
        let dying = self.dying.iter().map(Child::id);
        live.chain(dying).chain([self.bystander.id()]).collect()
    }

    /// Returns the threads, and the acts that they do.
    pub(crate) fn threads(&self) -> Vec<UnfinishedAct> {
        let names = output(Command::new(self.scratch.path().join("caller")).arg("acts"));
        let names = texts(&names.expect("it runs")).0;
        let names: Vec<&str> = names.lines().collect();
        let all = self.slots();
        let slots = all.chunks(SLOT).map(|slot| {
            let number = |at: usize| u32::from_ne_bytes(slot[at..at + 4].try_into().expect("four"));
            let act = names.get(number(12) as usize).unwrap_or(&"?");
            UnfinishedAct {
                tid: number(8),
                act: (*act).to_owned(),
            }
        });
        slots.collect()
    }

    /// Kills all processes, without waiting for them.
    pub(crate) fn kill(&mut self) {
        let _ = self.bystander.kill();
        for process in &mut self.processes {
            let _ = process.child.kill();
        }
    }
}

impl Drop for HostileCallers {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            // A process that hangs in the kernel cannot be waited for.
            return;
        }
        let _ = self.bystander.wait();
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
    }
}

fn u64_at(slot: &[u8]) -> u64 {
    u64::from_ne_bytes(slot[..8].try_into().expect("eight"))
}

fn spawn(scratch: &tempfile::TempDir, dir: &Path, arguments: &[&str]) -> Child {
    let mut program = Command::new(scratch.path().join("caller"));
    program.arg(dir).args(arguments).current_dir("/");
    program.uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
    program.spawn().expect("started")
}

/// Builds `mapped_direct.c`.
pub(crate) fn build_mapped_direct(program: &Path) {
    compile(&["mapped_direct.c"], program);
}

fn build(program: &Path) {
    compile(&SOURCES, program);
}

fn compile(names: &[&str], program: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut compiler = Command::new("cc");
    compiler.args(["-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    compiler.args(["-Wno-unused-result", "-pthread", "-I"]);
    compiler
        .arg(sources.join("../../../atomic/include"))
        .arg("-o")
        .arg(program);
    compiler.args(names.iter().map(|name| sources.join(name)));
    let built = output(&mut compiler).expect("a compiler");
    assert!(built.status.success(), "{}", texts(&built).1);
}
