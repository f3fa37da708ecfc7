//! Unmodified MariaDB: it detects the features of FusionIO's filesystem, and writes no page twice.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use forebay_file_loads::mariadb::FusionIoCard;
use forebay_rng::Rng;

use crate::committing::KillTally;
use crate::harness::{DatabaseMount, for_a_moment, rounds};
use crate::system::installed;
use crate::world::skip;

/// The server refuses to run as root, so it runs as this unprivileged user.
const NOBODY: u32 = 65534;
/// Held while a test depends on the presence of the file by which MariaDB decides to ask for atomic writes.
static CARD_IS_MINE: Mutex<()> = Mutex::new(());

/// A database server, which is killed when dropped.
struct MariadbDaemon {
    process: Child,
    socket: PathBuf,
}

/// Returns a command that runs a MariaDB program as the unprivileged user, independent of the system's settings.
fn program(name: &str) -> Command {
    let mut program = Command::new("setpriv");
    program.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        name,
        "--no-defaults",
    ]);
    program.stdin(Stdio::null());
    program
}

fn log_to(path: &Path) -> Stdio {
    let mut options = File::options();
    let log = options.create(true).append(true).open(path);
    log.expect("opened").into()
}

impl MariadbDaemon {
    /// Makes the system databases.
    fn install(data: &Path, scratch: &Path) {
        let log = scratch.join("install.log");
        let mut install = program("mariadb-install-db");
        install.arg(format!("--datadir={}", data.display()));
        // Each installation removes leftovers of others in its temporary directory at the start.
        install.arg(format!("--tmpdir={}", scratch.display()));
        install.args([
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--innodb-log-file-size=16M",
            "--innodb-flush-method=O_DIRECT",
        ]);
        let done = install.stdout(log_to(&log)).stderr(log_to(&log)).status();
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(done.expect("started").success(), "{said}");
    }

    /// Starts the server, and waits until it answers.
    fn start(data: &Path, scratch: &Path) -> MariadbDaemon {
        let socket = scratch.join("socket");
        let _ = fs::remove_file(&socket);
        let log = scratch.join("server.log");
        let mut server = program("mariadbd");
        server.arg(format!("--datadir={}", data.display()));
        server.arg(format!("--tmpdir={}", scratch.display()));
        server.arg(format!("--socket={}", socket.display()));
        server.arg(format!("--pid-file={}", scratch.join("pid").display()));
        server.args([
            "--skip-networking",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-log-file-size=16M",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-max-dirty-pages-pct=1",
        ]);
        let started = server.stdout(log_to(&log)).stderr(log_to(&log)).spawn();
        let mut server = MariadbDaemon {
            process: started.expect("started"),
            socket,
        };
        while !server.ask("select 1").status.success() {
            let ended = server.process.try_wait().expect("known");
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{said}");
        }
        server
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-N", "-uroot", "-S"]);
        client.arg(&self.socket).stdin(Stdio::null());
        client
    }

    fn ask(&self, query: &str) -> Output {
        let asked = self.client().args(["-e", query]).output();
        asked.expect("started")
    }

    /// Returns the result of a query, by lines.
    fn get(&self, query: &str) -> String {
        let output = self.ask(query);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{query}: {error}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .into()
    }

    /// Returns a counter of the server.
    fn count(&self, name: &str) -> u64 {
        let said = self.get(&format!("show global status like '{name}'"));
        let count = said.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        count.expect("a number")
    }
}

impl Drop for MariadbDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a filesystem with databases for the unprivileged user, and a scratch directory; or skips the test with a
/// message.
fn databases(test: &str) -> Option<(DatabaseMount, PathBuf, tempfile::TempDir)> {
    let needed = ["mariadbd", "mariadb-install-db", "mariadb", "setpriv"];
    if !installed(test, &needed) {
        return None;
    }
    let mounted = DatabaseMount::new(test)?;
    // The path of a socket must be short, and the unprivileged user must have access.
    let scratch = tempfile::tempdir().expect("made");
    let data = mounted.dir().join("data");
    fs::create_dir(&data).expect("made");
    for mine in [data.as_path(), scratch.path()] {
        chown(mine, Some(NOBODY), Some(NOBODY)).expect("given");
    }
    let parent = data.ancestors().nth(2).expect("two above");
    rustix::fs::chmod(parent, 0o755.into()).expect("opened to all");
    MariadbDaemon::install(&data, scratch.path());
    Some((mounted, data, scratch))
}

const ROWS: &str = "create database d; use d;
    create table t (a int primary key auto_increment, b varchar(200), c int, key (c)) engine = innodb;
    insert into t (b, c) select repeat(char(65 + seq % 26), 150), seq * 7919 % 100003 from seq_1_to_20000;";

#[test]
fn mariadb_disables_its_doublewrite_buffer_where_it_detects_atomic_writes() {
    let test = "mariadb_disables_its_doublewrite_buffer_where_it_detects_atomic_writes";
    let Some((mounted, data, scratch)) = databases(test) else {
        return;
    };
    let _turn = CARD_IS_MINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut twice = Vec::new();
    for has_card in [true, false] {
        if !has_card && FusionIoCard::is_there() {
            skip(
                test,
                "there is a /dev/fcta, so no look at how it is without",
            );
            break;
        }
        let _card = has_card.then(FusionIoCard::make);
        let server = MariadbDaemon::start(&data, scratch.path());
        if has_card {
            server.get(ROWS);
        } else {
            server.get("update d.t set c = c + 1");
        }
        while server.count("Innodb_pages_written") < 100 {
            server.get("update d.t set c = c + 1 where a % 7 = 1");
        }
        assert_eq!(server.get("select @@innodb_doublewrite"), "1");
        twice.push(server.count("Innodb_dblwr_pages_written"));
    }
    assert_eq!(twice[0], 0);
    assert!(twice[1..].iter().all(|pages| *pages > 0), "{twice:?}");
    mounted.finish();
}

#[test]
fn rows_committed_by_mariadb_without_doublewrite_survive_a_kill_of_mariadb() {
    kills_under_load(
        "rows_committed_by_mariadb_without_doublewrite_survive_a_kill_of_mariadb",
        false,
    );
}

#[test]
fn rows_committed_by_mariadb_survive_a_daemon_kill() {
    kills_under_load("rows_committed_by_mariadb_survive_a_daemon_kill", true);
}

/// Kills the server, or first the daemon below it and then the server, while it commits; and checks the data.
fn kills_under_load(test: &str, of_daemon: bool) {
    let Some((mounted, data, scratch)) = databases(test) else {
        return;
    };
    let _turn = CARD_IS_MINE.lock().unwrap_or_else(PoisonError::into_inner);
    let _card = FusionIoCard::make();
    let (rng, mut tally) = (Rng::new(5), KillTally::new("mariadb"));
    let mut committed = HashSet::new();
    let mut server = MariadbDaemon::start(&data, scratch.path());
    server.get(ROWS);
    server.get("create table d.done (n int primary key) engine = innodb");
    for round in 1..=rounds(2) {
        let mut client = server.client();
        let mut client = client
            .args(["--unbuffered", "-e", &updates(round)])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let says = BufReader::new(client.stdout.take().expect("piped"));
        let mut lines = says.lines().map_while(Result::ok);
        let wanted = 5 + rng.below(30) as usize;
        let mut done: Vec<String> = lines.by_ref().take(wanted).collect();
        for_a_moment(&rng);
        if of_daemon {
            mounted.kill();
        }
        drop(server);
        done.extend(lines);
        let _ = client.wait();
        if of_daemon {
            mounted.mount_again(&rng);
        }
        server = MariadbDaemon::start(&data, scratch.path());
        assert_eq!(server.count("Innodb_dblwr_pages_written"), 0);
        let checked = server.get("check table d.t, d.done extended");
        assert_eq!(checked.matches("OK").count(), 2, "{checked}");
        let there = server.get("select n from d.done");
        let there: HashSet<&str> = there.lines().collect();
        if of_daemon {
            tally.add(done.len() as i64);
        }
        committed.extend(done);
        for one in &committed {
            let is_there = there.contains(one.as_str());
            assert!(is_there, "{one} was committed, round {round}");
        }
    }
    drop(server);
    mounted.finish();
}

/// Returns updates of many rows in one transaction each, with a row that records the transaction. After the commit, the
/// client prints its number.
fn updates(round: u64) -> String {
    let one = |n: u64| {
        let (number, some) = (round * 1000 + n, n % 97);
        format!(
            "begin; update d.t set c = (c * 31 + {n}) % 100003, b = repeat(char(65 + {n} % 26), 150) \
             where a % 97 = {some}; insert into d.done values ({number}); commit; select {number};"
        )
    };
    (1..200).map(one).collect()
}
