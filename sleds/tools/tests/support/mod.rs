//! Runs a tool and its GNU counterpart on the same input, and compares the results. Used by the tests of `wc`, `grep`
//! and `find`: `mod support` by `#[path]`.

#![allow(dead_code, reason = "each test program uses some of it")]

pub(crate) mod content;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise};

use forebay_rng::Rng;

/// Reports a skipped test. The test runner does not capture this output.
pub(crate) fn skip(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("SKIPPED: {test}: {why}\n").as_bytes());
}

/// Returns true if `program` is installed and is GNU's. Otherwise reports a skip.
pub(crate) fn is_gnu(test: &str, program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    let gnu = version.is_ok_and(|v| String::from_utf8_lossy(&v.stdout).contains("GNU"));
    if !gnu {
        skip(test, &format!("{program} is not there, or not GNU's"));
    }
    gnu
}

/// Makes a directory for one test, on the disk of the build. The directory is removed when dropped.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

/// User of [`GnuCase::by_nobody`].
const NOBODY: u32 = 65534;

/// Standard input of a case.
#[derive(Clone, Debug)]
pub(crate) enum CaseInput {
    Nothing,
    /// A file, opened separately for each program.
    File(PathBuf),
    /// A file, from this byte on.
    FileAt(PathBuf, u64),
    /// Bytes through a pipe.
    Pipe(Vec<u8>),
}

/// One command line, run with both programs.
#[derive(Clone, Debug)]
pub(crate) struct GnuCase {
    /// Name of GNU's program, and of our tool.
    pub(crate) tool: &'static str,
    /// Arguments for both.
    pub(crate) args: Vec<OsString>,
    /// Arguments for our tool only, before the others.
    pub(crate) ours: Vec<OsString>,
    /// Environment; `LC_ALL` and similar variables are otherwise unset.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) input: CaseInput,
    /// Working directory.
    pub(crate) dir: PathBuf,
    /// Output file that replaces the output in the [`ProgramOutcome`].
    pub(crate) output: Option<PathBuf>,
    /// True to run as the user nobody, which requires root.
    pub(crate) as_nobody: bool,
}

/// Outcome of a program.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProgramOutcome {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl GnuCase {
    pub(crate) fn new(tool: &'static str, dir: &Path) -> GnuCase {
        GnuCase {
            tool,
            args: Vec::new(),
            ours: Vec::new(),
            env: Vec::new(),
            input: CaseInput::Nothing,
            dir: dir.to_owned(),
            output: None,
            as_nobody: false,
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> GnuCase {
        let args = args.into_iter().map(|a| a.as_ref().to_owned());
        self.args.extend(args);
        self
    }

    pub(crate) fn ours<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> GnuCase {
        let args = args.into_iter().map(|a| a.as_ref().to_owned());
        self.ours.extend(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> GnuCase {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn output(mut self, path: impl Into<PathBuf>) -> GnuCase {
        self.output = Some(path.into());
        self
    }

    pub(crate) fn by_nobody(mut self) -> GnuCase {
        self.as_nobody = true;
        self
    }

    pub(crate) fn input(mut self, input: CaseInput) -> GnuCase {
        self.input = input;
        self
    }

    /// Runs our tool.
    pub(crate) fn run_ours(&self) -> ProgramOutcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
        command.arg(self.tool).args(&self.ours);
        self.run(command)
    }

    /// Runs GNU's program.
    pub(crate) fn run_gnu(&self) -> ProgramOutcome {
        self.run(Command::new(self.tool))
    }

    fn run(&self, mut command: Command) -> ProgramOutcome {
        for name in [
            "LC_ALL",
            "LC_CTYPE",
            "LC_MESSAGES",
            "LANG",
            "POSIXLY_CORRECT",
        ] {
            command.env_remove(name);
        }
        command.args(&self.args).current_dir(&self.dir);
        command.envs(self.env.iter().map(|(n, v)| (n, v)));
        command.stderr(Stdio::piped());
        command.stdout(match &self.output {
            None => Stdio::piped(),
            Some(path) => {
                let file = File::options().append(true).open(path);
                Stdio::from(file.expect("the output"))
            }
        });
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.stdin(match &self.input {
            CaseInput::Nothing => Stdio::null(),
            CaseInput::File(path) => Stdio::from(File::open(path).expect("the input")),
            CaseInput::FileAt(path, at) => {
                let mut file = File::open(path).expect("the input");
                file.seek(SeekFrom::Start(*at)).expect("seek");
                Stdio::from(file)
            }
            CaseInput::Pipe(_) => Stdio::piped(),
        });
        let mut child = command.spawn().expect("a program to start");
        let pipe = child.stdin.take();
        let bytes = match &self.input {
            CaseInput::Pipe(bytes) => bytes.clone(),
            _ => Vec::new(),
        };
        let feeder = std::thread::spawn(move || {
            // A program that stops early closes the pipe. Its output is checked below.
            pipe.map(|mut pipe| pipe.write_all(&bytes));
        });
        let output = child.wait_with_output().expect("a program to end");
        feeder.join().expect("the feeder");
        ProgramOutcome {
            code: output.status.code(),
            signal: output.status.signal(),
            out: output.stdout,
            err: output.stderr,
        }
    }

    /// Runs both programs, and returns the difference. `sleds TOOL` in our messages corresponds to `TOOL` in GNU's.
    pub(crate) fn difference(&self) -> Option<String> {
        self.difference_from(&self.run_gnu())
    }

    /// Runs our tool, and returns the difference from GNU's outcome.
    pub(crate) fn difference_from(&self, gnu: &ProgramOutcome) -> Option<String> {
        let mut ours = self.run_ours();
        let name = format!("sleds {}", self.tool);
        ours.err = replace(&ours.err, name.as_bytes(), self.tool.as_bytes());
        self.between(gnu, &ours)
    }

    /// Returns the difference between two outcomes of this case.
    pub(crate) fn between(&self, gnu: &ProgramOutcome, ours: &ProgramOutcome) -> Option<String> {
        if gnu == ours {
            return None;
        }
        Some(format!(
            "env {:?} sleds {} {:?} {:?}\n  in {}, input {}\n  ends:   {:?} {:?}\n  GNU's:  {:?} \
             {:?}\n  output: {}\n  errors: {}",
            self.env,
            self.tool,
            self.ours,
            self.args,
            self.dir.display(),
            match &self.input {
                CaseInput::Pipe(bytes) => format!("a pipe with {} bytes", bytes.len()),
                other => format!("{other:?}"),
            },
            ours.code,
            ours.signal,
            gnu.code,
            gnu.signal,
            first_difference(&gnu.out, &ours.out),
            first_difference(&gnu.err, &ours.err),
        ))
    }

    /// Panics with `seed` if the outcomes of both programs differ.
    pub(crate) fn check(&self, seed: u64) {
        if let Some(what) = self.difference() {
            panic!("seed {seed}: {what}");
        }
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
    out
}

/// Returns the first different line.
fn first_difference(gnu: &[u8], ours: &[u8]) -> String {
    if gnu == ours {
        return "the same".into();
    }
    let mut both = (gnu.split(|b| *b == b'\n'), ours.split(|b| *b == b'\n'));
    for number in 1.. {
        let (g, o) = (both.0.next(), both.1.next());
        if g != o {
            let show = |line: Option<&[u8]>| match line {
                Some(line) => format!(
                    "{:?}",
                    String::from_utf8_lossy(&line[..line.len().min(400)])
                ),
                None => "nothing".into(),
            };
            return format!("line {number}: GNU {}, ours {}", show(g), show(o));
        }
    }
    unreachable!()
}

/// Returns the seed of the random choices: from `FOREBAY_SEED`, from the clock if the variable is `fresh`, or a
/// constant. A fresh seed finds differences that are unrelated to the change under test. A failing test prints its
/// seed.
pub(crate) fn seed() -> u64 {
    match std::env::var("FOREBAY_SEED").as_deref() {
        Ok("fresh") => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("a clock after 1970").as_nanos() as u64
        }
        given => given
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or(1_795_247_192_078_744_827),
    }
}

/// Returns the number of cases of a random comparison: `FOREBAY_CASES`, or `usual`.
pub(crate) fn cases(usual: u64) -> u64 {
    let asked = std::env::var("FOREBAY_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Makes a locale in `dir`, for use with `LOCPATH`. `None` if a requirement is not installed.
pub(crate) fn make_locale(dir: &Path, source: &str, charset: &str) -> Option<String> {
    let name = format!("{source}.{charset}");
    let made = Command::new("localedef")
        .args(["--no-archive", "-c", "-i", source, "-f", charset])
        .arg(dir.join(&name))
        .output()
        .ok()?;
    // `localedef` warns about some sources, and its exit code then is not 0.
    let there = dir.join(&name).join("LC_CTYPE").exists();
    (made.status.code().is_some() && there).then_some(name)
}

/// Writes dirty pages of the filesystem of `dir`, so that they can be evicted from the page cache.
pub(crate) fn settle(dir: &Path) {
    let dir = File::open(dir).expect("the directory");
    rustix::fs::syncfs(&dir).expect("syncfs");
}

/// Leaves only `ranges` (first byte, a multiple of 4096, and length) of `path` in the page cache. Evicting ranges is
/// not sufficient: the kernel keeps pages in larger units, and evicts only whole units. Requires a previous call of
/// [`settle`].
pub(crate) fn cache_only(path: &Path, ranges: &[(u64, u64)]) {
    let file = File::open(path).expect("the file");
    fadvise(&file, 0, None, Advice::DontNeed).expect("fadvise");
    fadvise(&file, 0, None, Advice::Random).expect("fadvise");
    for (at, length) in ranges {
        for at in (*at..at + length).step_by(4096) {
            file.read_at(&mut [0; 4096], at).expect("read");
        }
    }
}

/// Puts `path` into a random cache state: unchanged, not cached, or cached in some places. Requires a previous call of
/// [`settle`].
pub(crate) fn cool(path: &Path, rng: &Rng) {
    let Ok(file) = File::open(path) else { return };
    let pages = file.metadata().map_or(0, |meta| meta.len()) / 4096 + 1;
    let ranges = match rng.below(4) {
        0 => return,
        1 => 0,
        _ => 1 + rng.below(4),
    };
    let range = |_| (4096 * rng.below(pages), 4096 * (1 + rng.below(pages)));
    let ranges: Vec<_> = (0..ranges).map(range).collect();
    cache_only(path, &ranges);
}
