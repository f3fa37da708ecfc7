//! PostgreSQL without full pages in its log: a checksum would detect a torn page.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_rng::Rng;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::committing::KillTally;
use crate::harness::{DatabaseMount, for_a_moment, rounds};
use crate::world::skip;

/// The server refuses to run as root, so it runs as this unprivileged user.
const NOBODY: u32 = 65534;

/// The methods to make its log durable: one round each. The first two use direct writes.
const METHODS: [&str; 4] = ["open_datasync", "open_sync", "fdatasync", "fsync"];

/// Returns the directory of PostgreSQL's programs, of the newest installed version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let places = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    places.filter(|place| place.join("postgres").exists()).max()
}

/// A server and its processes, which are killed when it is dropped.
struct PostgresServer {
    process: Child,
    programs: PathBuf,
    scratch: PathBuf,
}

/// Returns a command that runs a PostgreSQL program as the unprivileged user.
fn program(path: &Path, scratch: &Path) -> Command {
    let mut program = Command::new("setpriv");
    program.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    program.arg(path).current_dir(scratch).stdin(Stdio::null());
    program.env("HOME", scratch).env("LC_ALL", "C");
    program
}

impl PostgresServer {
    /// Starts the server, which makes its log durable by `method`, and waits until it answers.
    fn start(programs: &Path, data: &Path, scratch: &Path, method: &str) -> PostgresServer {
        let log = scratch.join("log");
        let to_log = fs::File::options().create(true).append(true).open(&log);
        let to_log = to_log.expect("opened");
        let mut server = program(&programs.join("postgres"), scratch);
        server.arg("-D").arg(data).arg("-k").arg(scratch);
        for setting in [
            "listen_addresses=",
            "full_page_writes=off",
            "shared_buffers=4MB",
            "bgwriter_delay=10ms",
            // PostgreSQL 15 writes its log by O_DIRECT only with these two settings, and with an `open_…` method.
            "wal_level=minimal",
            "max_wal_senders=0",
        ] {
            server.args(["-c", setting]);
        }
        server.args(["-c", &format!("wal_sync_method={method}")]);
        let server = server
            .process_group(0)
            .stdout(to_log.try_clone().expect("again"))
            .stderr(to_log)
            .spawn();
        let mut server = PostgresServer {
            process: server.expect("started"),
            programs: programs.to_owned(),
            scratch: scratch.to_owned(),
        };
        while server.ask(&["-c", "select 1"]).is_err() {
            let ended = server.process.try_wait().expect("known");
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{said}");
        }
        server
    }

    fn client(&self) -> Command {
        let mut client = program(&self.programs.join("psql"), &self.scratch);
        client.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
        ]);
        client.arg("-h").arg(&self.scratch).arg("postgres");
        client
    }

    fn ask(&self, query: &[&str]) -> Result<String, String> {
        let output = self.client().args(query).output().expect("started");
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().into())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into())
        }
    }

    fn get(&self, query: &str) -> String {
        let got = self.ask(&["-c", query]);
        got.unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Returns updates of rows all over the table in one transaction each, with a row that records the transaction. After
/// the commit, the client prints its number. An occasional checkpoint makes sure that pages change whose full content
/// is not in the log.
fn updates(round: u64) -> String {
    let one = |n: u64| {
        let (number, some) = (round * 1000 + n, n % 97);
        let checkpoint = if n.is_multiple_of(8) {
            "checkpoint;"
        } else {
            ""
        };
        format!(
            "begin; update t set c = (c * 31 + {n}) % 100003 where a % 97 = {some}; \
             insert into done values ({number}); commit; select {number}; {checkpoint}\n"
        )
    };
    (1..200).map(one).collect()
}

#[test]
fn rows_committed_by_postgresql_without_full_page_writes_survive_a_daemon_kill() {
    let test = "rows_committed_by_postgresql_without_full_page_writes_survive_a_daemon_kill";
    let Some(programs) = programs() else {
        return skip(test, "no PostgreSQL");
    };
    let Some(mounted) = DatabaseMount::new(test) else {
        return;
    };
    // The path of a socket must be short, and the unprivileged user must have access.
    let scratch = tempfile::tempdir().expect("made");
    let (scratch, data) = (scratch.path(), mounted.dir().join("data"));
    fs::create_dir(&data).expect("made");
    rustix::fs::chmod(&data, 0o700.into()).expect("its own");
    for mine in [data.as_path(), scratch] {
        chown(mine, Some(NOBODY), Some(NOBODY)).expect("given");
    }
    let parent = data.ancestors().nth(2).expect("two above");
    rustix::fs::chmod(parent, 0o755.into()).expect("opened to all");
    let mut make = program(&programs.join("initdb"), scratch);
    make.args(["--data-checksums", "--no-sync", "-U", "postgres", "-D"]);
    let made = make.arg(&data).output().expect("started");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    let mut server = PostgresServer::start(&programs, &data, scratch, METHODS[0]);
    server.get("create table t (a int primary key, b text, c int); create table done (n int)");
    server.get("insert into t select n, repeat('x', 150), n from generate_series(1, 20000) n");
    server.get("create index on t (c)");
    let (rng, mut tally) = (Rng::new(6), KillTally::new("postgresql"));
    let mut committed = HashSet::new();
    for round in 1..=rounds(2) {
        let script = scratch.join("script");
        fs::write(&script, updates(round)).expect("written");
        let mut client = server.client();
        let mut client = client
            .arg("-f")
            .arg(&script)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let says = BufReader::new(client.stdout.take().expect("piped"));
        let mut lines = says.lines().map_while(Result::ok);
        let wanted = 5 + rng.below(40) as usize;
        let mut done: Vec<String> = lines.by_ref().take(wanted).collect();
        for_a_moment(&rng);
        mounted.kill();
        drop(server);
        done.extend(lines);
        let _ = client.wait();
        mounted.mount_again(&rng);
        let method = METHODS[round as usize % METHODS.len()];
        server = PostgresServer::start(&programs, &data, scratch, method);
        assert_eq!(server.get("show full_page_writes"), "off");
        // Reads all pages, and checks their checksums.
        assert_eq!(
            server.get("select count(b), count(c) from t"),
            "20000|20000"
        );
        let by_index = "set enable_seqscan = off; select count(*) from t where c >= 0";
        assert_eq!(server.get(by_index), "20000");
        let there = server.get("select n from done");
        let there: HashSet<&str> = there.lines().collect();
        tally.add(done.len() as i64);
        committed.extend(done);
        for one in &committed {
            let is_there = there.contains(one.as_str());
            assert!(is_there, "{one} was committed, round {round}");
        }
    }
    drop(server);
    mounted.finish();
}
