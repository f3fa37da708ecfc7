//! Programs that commit row after row while the daemon is killed under them.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use forebay_rng::Rng;

use crate::harness::{DatabaseMount, for_a_moment, rounds};

/// A running program that prints `row N` after each commit.
pub(crate) struct CommittingProgram {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl CommittingProgram {
    pub(crate) fn start(program: &mut Command) -> CommittingProgram {
        let piped = program.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = piped.spawn().expect("started");
        let lines = BufReader::new(program.stdout.take().expect("piped")).lines();
        CommittingProgram { program, lines }
    }

    /// Waits until the program has committed row `wanted`, and then for a moment. Returns the last row it printed.
    pub(crate) fn wait_beyond(&mut self, wanted: i64, rng: &Rng) -> i64 {
        let mut last = 0;
        while last < wanted {
            let line = self.lines.next().expect("it goes on").expect("read");
            last = row(&line).unwrap_or(last);
        }
        for_a_moment(rng);
        last
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.program.kill();
    }

    /// Kills the program, and returns the last row it printed; `before` if it printed no further row.
    pub(crate) fn last(mut self, before: i64) -> i64 {
        self.kill();
        self.program.wait().expect("gone");
        let rows = self.lines.map_while(Result::ok);
        rows.filter_map(|line| row(&line)).last().unwrap_or(before)
    }
}

/// Returns the number in a line `row N`, which may follow other text.
pub(crate) fn row(line: &str) -> Option<i64> {
    line.split_once("row ")?.1.parse().ok()
}

/// Kills and commits of a test.
pub(crate) struct KillTally {
    what: String,
    kills: u64,
    commits: i64,
}

impl KillTally {
    pub(crate) fn new(what: impl Into<String>) -> KillTally {
        let what = what.into();
        KillTally {
            what,
            kills: 0,
            commits: 0,
        }
    }

    /// Counts a kill, and commits that were acknowledged before it and found after it.
    pub(crate) fn add(&mut self, commits: i64) {
        self.kills += 1;
        self.commits += commits;
    }
}

impl Drop for KillTally {
    fn drop(&mut self) {
        let KillTally {
            what,
            kills,
            commits,
        } = self;
        eprintln!(
            "{what}: {kills} kills of the daemon, {commits} acknowledged commits found after them"
        );
    }
}

/// Repeatedly kills the daemon while the program of `start` commits rows, and mounts the filesystem again. `check`
/// returns the last row of a sound database. It must be the last acknowledged row, or the row after it.
pub(crate) fn daemon_killed(
    (what, mounted): (&str, &DatabaseMount),
    usual: u64,
    start: impl Fn(u64) -> Command,
    check: impl Fn() -> i64,
) {
    let (rng, mut tally, mut last) = (Rng::new(12), KillTally::new(what), 0);
    for round in 0..rounds(usual) {
        let before = last;
        let mut committing = CommittingProgram::start(&mut start(round));
        last = committing.wait_beyond(last + 1 + rng.below(100).cast_signed(), &rng);
        mounted.kill();
        let acknowledged = committing.last(last);
        mounted.mount_again(&rng);
        last = check();
        let may_be = acknowledged..=acknowledged + 1;
        assert!(
            may_be.contains(&last),
            "{what}, round {round}: row {last} is the last after {acknowledged} was acknowledged"
        );
        tally.add(acknowledged - before);
    }
}
