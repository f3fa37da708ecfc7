//! The installed MariaDB, under sysbench.
//!
//! The server keeps its data on the measured filesystem, and its other files in a directory of its own. The server
//! disables the doublewrite buffer if the interface of FusionIO's filesystem is present: the file `/dev/fcta`, and
//! support for atomic writes. The server runs as the current user, so the path to its data need not be open to other
//! users. The server is killed when the handle is dropped or the parent process ends.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{TimeTaken, measured};

/// File whose presence makes the server test for atomic writes.
const CARD: &str = "/dev/fcta";
/// Required programs.
const PROGRAMS: [&str; 5] = [
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "sysbench",
    "setpriv",
];
const DATABASE: &str = "loads";
/// Longest time for a server to start or to stop, and for sysbench beyond its run time.
const PATIENCE: Duration = Duration::from_secs(300);
/// Interval of the checks for the end of a process.
const LOOKS: Duration = Duration::from_millis(20);

/// Returns the first missing program, if a program is missing.
pub fn missing() -> Option<&'static str> {
    let is_missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    PROGRAMS.into_iter().find(is_missing)
}

/// Sizes of the server and of its tables.
#[derive(Clone, Copy, Debug)]
pub struct MariadbSize {
    /// Buffer pool, in bytes.
    pub pool: u64,
    /// Log of the server, in bytes.
    pub log: u64,
    /// Number of tables.
    pub tables: u32,
    /// Rows in each table, of about 200 bytes.
    pub rows: u32,
    /// Concurrent connections.
    pub threads: u32,
}

/// Way in which pages are written in place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DoublewriteMode {
    /// First to the doublewrite buffer: the default of the server.
    Twice,
    /// Once, if the server detects atomic writes.
    AtomicIfFound,
    /// Once, without protection against a power failure.
    Unsafe,
}

/// The file `/dev/fcta`. Drop removes the file if this handle created it.
#[derive(Debug)]
pub struct FusionIoCard {
    is_ours: bool,
}

impl FusionIoCard {
    /// Creates the file, unless the file exists or cannot be created.
    #[must_use = "the file is removed with this"]
    pub fn make() -> FusionIoCard {
        let is_ours = File::create_new(CARD).is_ok();
        FusionIoCard { is_ours }
    }

    /// Returns true if the file exists.
    pub fn is_there() -> bool {
        Path::new(CARD).exists()
    }
}

impl Drop for FusionIoCard {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(CARD);
        }
    }
}

/// A directory for the socket, whose path must be short, and for the output of the programs.
struct MariadbScratch(PathBuf);

impl MariadbScratch {
    fn new() -> io::Result<MariadbScratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("forebay-mariadb-{}-{next}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(MariadbScratch(dir))
    }

    fn log(&self) -> io::Result<Stdio> {
        let mut options = File::options();
        let log = options.create(true).append(true);
        Ok(log.open(self.0.join("log"))?.into())
    }

    /// Returns an error with the end of the program's output.
    fn failed(&self, what: &str) -> io::Error {
        let said = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let end = lines[lines.len().saturating_sub(5)..].join("; ");
        io::Error::other(format!("{what}: {end}"))
    }
}

impl Drop for MariadbScratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when the handle is dropped or the parent process ends.
struct MariadbProcess(Child);

impl MariadbProcess {
    fn start(name: &str, more: &[String], scratch: &MariadbScratch) -> io::Result<MariadbProcess> {
        let mut program = Command::new("setpriv");
        program.args(["--pdeathsig=KILL", name]).args(more);
        program.stdin(Stdio::null());
        program.stdout(scratch.log()?).stderr(scratch.log()?);
        Ok(MariadbProcess(program.spawn()?))
    }

    /// Waits until the process ends. Fails at the end of the time limit, or when the stop flag is set.
    fn wait(
        &mut self,
        patience: Duration,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if is_to_stop() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if began.elapsed() > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOKS);
        }
    }
}

impl Drop for MariadbProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server. Its operations fail when the stop flag is set.
pub struct MariadbServer<'a> {
    // Declared first, so that the process ends first.
    process: MariadbProcess,
    _card: Option<FusionIoCard>,
    scratch: MariadbScratch,
    size: MariadbSize,
    is_to_stop: &'a dyn Fn() -> bool,
}

impl<'a> MariadbServer<'a> {
    /// Creates a server's data in a new directory, with tables that sysbench fills.
    ///
    /// # Errors
    /// If a program fails, or the stop flag is set.
    pub fn prepare(
        data: &Path,
        size: MariadbSize,
        is_to_stop: &'a dyn Fn() -> bool,
    ) -> io::Result<()> {
        let scratch = MariadbScratch::new()?;
        let mut install = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", data.display()),
            // Each server removes the temporary files of other servers at its start.
            format!("--tmpdir={}", scratch.0.display()),
            format!("--innodb-log-file-size={}", size.log),
            "--auth-root-authentication-method=normal".to_owned(),
            "--skip-test-db".to_owned(),
        ];
        install.extend(user());
        let mut install = MariadbProcess::start("mariadb-install-db", &install, &scratch)?;
        if !install.wait(PATIENCE, is_to_stop)?.success() {
            return Err(scratch.failed("mariadb-install-db"));
        }
        let server = MariadbServer::start(data, size, DoublewriteMode::Twice, is_to_stop)?;
        server.ask(&format!("create database {DATABASE}"))?;
        server.sysbench("prepare", PATIENCE)?;
        server.end()
    }

    /// Starts a server on prepared data, and waits until the server answers.
    ///
    /// # Errors
    /// If the server cannot be started or does not answer for minutes, or the stop flag is set.
    pub fn start(
        data: &Path,
        size: MariadbSize,
        pages: DoublewriteMode,
        is_to_stop: &'a dyn Fn() -> bool,
    ) -> io::Result<MariadbServer<'a>> {
        let scratch = MariadbScratch::new()?;
        let card = (pages == DoublewriteMode::AtomicIfFound).then(FusionIoCard::make);
        let mut options = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", data.display()),
            format!("--tmpdir={}", scratch.0.display()),
            format!("--socket={}", scratch.0.join("socket").display()),
            format!("--pid-file={}", scratch.0.join("pid").display()),
            format!("--innodb-log-file-size={}", size.log),
            format!("--innodb-buffer-pool-size={}", size.pool),
        ];
        options.extend(user());
        let fixed = [
            "--skip-networking",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-flush-log-at-trx-commit=1",
            // The buffer pool is not restored, so every run begins with an empty pool.
            "--innodb-buffer-pool-load-at-startup=0",
        ];
        options.extend(fixed.map(str::to_owned));
        options.extend(match pages {
            DoublewriteMode::Twice => Some("--innodb-use-atomic-writes=0".to_owned()),
            DoublewriteMode::AtomicIfFound => None,
            DoublewriteMode::Unsafe => Some("--skip-innodb-doublewrite".to_owned()),
        });
        let process = MariadbProcess::start("mariadbd", &options, &scratch)?;
        let mut server = MariadbServer {
            process,
            _card: card,
            scratch,
            size,
            is_to_stop,
        };
        server.answers()?;
        Ok(server)
    }

    fn answers(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while self.ask("select 1").is_err() {
            if let Some(status) = self.process.0.try_wait()? {
                return Err(self.scratch.failed(&format!("mariadbd ended, {status}")));
            }
            if (self.is_to_stop)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if began.elapsed() > PATIENCE {
                return Err(self.scratch.failed("mariadbd does not answer"));
            }
            std::thread::sleep(LOOKS);
        }
        Ok(())
    }

    /// Returns the output of a query.
    fn ask(&self, query: &str) -> io::Result<String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-N", "-uroot", "-e", query, "-S"]);
        client.arg(self.scratch.0.join("socket"));
        let output = client.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{query}: {}", said.trim())));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }

    /// Returns a counter of the server, such as `Innodb_dblwr_pages_written`.
    ///
    /// # Errors
    /// If the server does not answer, or has no counter of this name.
    pub fn count(&self, name: &str) -> io::Result<u64> {
        let said = self.ask(&format!("show global status like '{name}'"))?;
        let count = said.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        count.ok_or_else(|| io::Error::other(format!("no counter {name}")))
    }

    /// Runs sysbench's `oltp_read_write` for a time. Returns the number of transactions and the time they took.
    ///
    /// # Errors
    /// If sysbench fails, or the stop flag is set.
    pub fn load(&self, lasts: Duration) -> io::Result<(u64, TimeTaken)> {
        let (said, took) = measured(|| self.sysbench("run", lasts))?;
        let (count, rate) = transactions(&said)
            .filter(|(count, rate)| *count > 0 && *rate > 0.0)
            .ok_or_else(|| io::Error::other(format!("sysbench did nothing: {said}")))?;
        // The time of the transactions, without the start and the end of sysbench.
        let time = Duration::from_secs_f64(count as f64 / rate);
        let took = TimeTaken { time, ..took };
        Ok((count, took))
    }

    fn sysbench(&self, what: &str, lasts: Duration) -> io::Result<String> {
        let own = MariadbScratch::new()?;
        let options = [
            "oltp_read_write".to_owned(),
            "--db-driver=mysql".to_owned(),
            format!("--mysql-socket={}", self.scratch.0.join("socket").display()),
            "--mysql-user=root".to_owned(),
            format!("--mysql-db={DATABASE}"),
            format!("--tables={}", self.size.tables),
            format!("--table-size={}", self.size.rows),
            format!("--threads={}", self.size.threads),
            format!("--time={}", lasts.as_secs().max(1)),
            "--events=0".to_owned(),
            // Every run uses equal rows.
            "--rand-seed=1".to_owned(),
            what.to_owned(),
        ];
        let mut running = MariadbProcess::start("sysbench", &options, &own)?;
        if running.wait(lasts + PATIENCE, self.is_to_stop)?.success() {
            fs::read_to_string(own.0.join("log"))
        } else {
            Err(own.failed("sysbench"))
        }
    }

    /// Shuts the server down, and waits until its process has ended.
    ///
    /// # Errors
    /// If the server does not end within minutes or ends with an error, or the stop flag is set.
    pub fn end(mut self) -> io::Result<()> {
        if let Some(pid) = i32::try_from(self.process.0.id())
            .ok()
            .and_then(Pid::from_raw)
        {
            kill_process(pid, Signal::TERM)?;
        }
        if self.process.wait(PATIENCE, self.is_to_stop)?.success() {
            Ok(())
        } else {
            Err(self.scratch.failed("mariadbd ended badly"))
        }
    }
}

/// MariaDB refuses to run as root without this option.
fn user() -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| "--user=root".into())
}

/// Parses the number of transactions, and the number per second, from the output of sysbench.
fn transactions(said: &str) -> Option<(u64, f64)> {
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("transactions:"))?;
    let mut words = line.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let rate = words.next()?.trim_start_matches('(').parse().ok()?;
    Some((count, rate))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_output_of_sysbench_is_parsed() {
        let said = "SQL statistics:\n    transactions:                        1234   (308.42 per sec.)\n    queries: 5 (6 per sec.)\n";
        assert_eq!(transactions(said), Some((1234, 308.42)));
        assert_eq!(transactions("FATAL: no"), None);
    }

    #[test]
    fn a_server_is_prepared_loaded_and_ended_and_leaves_nothing() {
        if let Some(program) = missing() {
            let why = format!("SKIPPED: a server under a load: no {program}\n");
            std::io::stderr().write_all(why.as_bytes()).unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (data, on) = (dir.path().join("data"), || false);
        let size = MariadbSize {
            pool: 8 << 20,
            log: 8 << 20,
            tables: 1,
            rows: 100,
            threads: 2,
        };
        MariadbServer::prepare(&data, size, &on).unwrap();
        let server = MariadbServer::start(&data, size, DoublewriteMode::Twice, &on).unwrap();
        let scratch = server.scratch.0.clone();
        assert!(server.load(Duration::from_secs(1)).unwrap().0 > 0);
        assert!(server.count("Innodb_data_written").unwrap() > 0);
        server.end().unwrap();
        assert!(!scratch.exists());
    }

    #[test]
    fn a_wait_ends_when_a_stop_is_requested() {
        let scratch = MariadbScratch::new().unwrap();
        let Ok(mut sleeps) = MariadbProcess::start("sleep", &["1000".into()], &scratch) else {
            return;
        };
        let error = sleeps.wait(PATIENCE, &|| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
