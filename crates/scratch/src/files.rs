//! The trial of Forebay's filesystem: users work on it, and on ext4 on the same disk. Its daemon is killed while users
//! write, and while a database runs transactions.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_volume::{FILESYSTEM, RequestedPlacement};

use super::context::TryContext;
use super::drive::ScratchVolume;
use super::filesystem::{check_promises, crash, fill, plain};
use super::phases::everyday;
use super::report::TryReport;
use super::setup::{StorageSetup, StorageShape};
use super::variant::FilesystemVariant;

/// Program of the database, which may be missing.
const DATABASE: &str = "sqlite3";
/// Transactions that the database acknowledges before the daemon is killed.
const TRANSACTIONS: u32 = 200;

/// Runs the trial. `as_root` is the reason if ext4 cannot be mounted.
pub(super) fn run(
    context: &TryContext,
    as_root: Result<(), String>,
    report: &mut TryReport,
) -> CommandResult {
    let at = context.scratch.subdir("mnt")?;
    report.table(vec![
        "ext4 with its journal and default options, as most machines of today have it, beside Forebay's filesystem on \
         a disk of the same kind."
            .into(),
    ]);
    match as_root {
        Ok(()) => {
            result_line!("ext4: {} users work on it", context.users);
            let setup = StorageSetup::new(
                context,
                StorageShape::Plain,
                Some(FilesystemVariant::Journal),
            )?;
            let times = plain(context, FilesystemVariant::Journal, report, &setup, &at)?;
            report.times("ext4", times);
            setup.remove(context);
        }
        Err(why) => result_line!("{why}: without ext4 beside it"),
    }
    let shape = StorageShape::Placed(RequestedPlacement::Auto);
    let setup = StorageSetup::new(context, shape, None)?;
    let kind = FILESYSTEM.to_string();
    let more = ["--volume", &kind, "--force"];
    let volume = ScratchVolume::create(
        &context.program,
        &context.scratch,
        "files",
        &setup.spec,
        &more,
    )?;
    let mounted = ScratchFilesystem {
        volume: &volume,
        at: at.clone(),
    };
    result_line!("Forebay's filesystem: {} users work on it", context.users);
    volume.mount(&at)?;
    if let Some(percent) = context.filled {
        fill(context, &at, percent)?;
    }
    let times = everyday(context, &at)?;
    report.times("forebay", times);
    let promised = crash(context, &volume, &at)?;
    again(report, &mounted)?;
    check_promises(report, "the filesystem, mounted again", &at, &promised);
    database(context, report, &mounted)?;
    volume.umount(&at)?;
    report.check(
        "`forebay check` reports the filesystem clean",
        volume.check(),
    );
    drop(mounted);
    setup.remove(context);
    Ok(())
}

/// A filesystem that may be mounted. Drop unmounts the filesystem.
struct ScratchFilesystem<'a> {
    volume: &'a ScratchVolume,
    at: PathBuf,
}

impl Drop for ScratchFilesystem<'_> {
    fn drop(&mut self) {
        // In most cases the filesystem is already unmounted.
        let _ = self.volume.umount(&self.at);
    }
}

/// Mounts a filesystem again after its daemon was killed.
fn again(report: &mut TryReport, mounted: &ScratchFilesystem<'_>) -> CommandResult {
    result_line!("mounting it again");
    let started = Instant::now();
    mounted.volume.mount(&mounted.at)?;
    let took = started.elapsed().as_secs_f64();
    report.note(format!("recovery took {took:.3} s"));
    Ok(())
}

/// Kills the daemon in the middle of a database's transactions.
fn database(
    context: &TryContext,
    report: &mut TryReport,
    mounted: &ScratchFilesystem<'_>,
) -> CommandResult {
    context.stop.check()?;
    let file = mounted.at.join("database");
    let Some(mut shell) = DatabaseShell::open(&file)? else {
        report.note(format!(
            "{DATABASE} is not installed: no database was tested"
        ));
        return Ok(());
    };
    result_line!("killing the daemon under a database");
    // By default, the removal of the journal's name, which commits a transaction, becomes durable only with the next
    // transaction.
    shell.ask("PRAGMA synchronous = EXTRA; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);")?;
    let started = Instant::now();
    let mut kept = 0;
    for n in 1..=TRANSACTIONS {
        context.stop.check()?;
        shell.ask(&insert(n))?;
        kept = n;
    }
    let took = started.elapsed().as_secs_f64();
    // One more transaction may be in progress.
    shell.say(&insert(kept + 1))?;
    mounted.volume.kill()?;
    drop(shell);
    result_line!("  killed; {kept} transactions were acknowledged by then, in {took:.3} s");
    again(report, mounted)?;
    let found = query(
        &file,
        "PRAGMA integrity_check; SELECT count(*), max(id) FROM t;",
    );
    let whole = |n: u32| format!("ok\n{n}|{n}");
    let found = found.unwrap_or_else(|failure| failure.text);
    report.expect(
        format!("the database is intact, with all of its {kept} transactions"),
        [whole(kept), whole(kept + 1)].contains(&found),
        &found,
    );
    Ok(())
}

fn insert(n: u32) -> String {
    format!("BEGIN; INSERT INTO t VALUES ({n}, hex(randomblob(500))); COMMIT;")
}

/// Shell of the database.
struct DatabaseShell {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl DatabaseShell {
    /// Starts the shell; `None` if the program is missing.
    fn open(file: &Path) -> CommandResult<Option<DatabaseShell>> {
        let mut command = Command::new(DATABASE);
        command.arg("-batch").arg(file);
        let spawned = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        match spawned {
            Ok(mut child) => {
                let answers = child.stdout.take().expect("a pipe");
                let answers = BufReader::new(answers);
                Ok(Some(DatabaseShell { child, answers }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CommandFailure::io(format!(
                "cannot run {DATABASE}: {error}"
            ))),
        }
    }

    fn say(&mut self, words: &str) -> CommandResult {
        let to = self.child.stdin.as_mut().expect("a pipe");
        let said = writeln!(to, "{words}").and_then(|()| to.flush());
        said.map_err(CommandFailure::io)
    }

    /// Runs statements, and waits until they are complete.
    fn ask(&mut self, words: &str) -> CommandResult {
        self.say(words)?;
        self.say("SELECT 'done';")?;
        let mut line = String::new();
        let read = self
            .answers
            .read_line(&mut line)
            .map_err(CommandFailure::io)?;
        match (read, line.trim()) {
            (_, "done") => Ok(()),
            (_, other) => Err(CommandFailure::general(format!(
                "{DATABASE} returned {other:?}"
            ))),
        }
    }
}

impl Drop for DatabaseShell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the database's answer to a query.
fn query(file: &Path, words: &str) -> CommandResult<String> {
    let output = Command::new(DATABASE).arg(file).arg(words).output();
    let output = output.map_err(CommandFailure::io)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(CommandFailure::general(
            String::from_utf8_lossy(&output.stderr).trim(),
        ))
    }
}
