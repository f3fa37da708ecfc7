//! LMDB and RocksDB, each in a small program in C.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::committing::{daemon_killed, row};
use crate::harness::DatabaseMount;
use crate::world::{output, skip, texts};

/// A library, with its header, and the ways in which its program commits rows.
struct DatabaseLibrary {
    name: &'static str,
    header: &'static str,
    ways: &'static [&'static str],
}

#[test]
fn rows_committed_by_lmdb_survive_a_daemon_kill() {
    let ways = &["write", "writemap"];
    daemon_killed_under(
        "rows_committed_by_lmdb_survive_a_daemon_kill",
        &DatabaseLibrary {
            name: "lmdb",
            header: "lmdb.h",
            ways,
        },
    );
}

#[test]
fn rows_committed_by_rocksdb_survive_a_daemon_kill() {
    let ways = &["write", "direct"];
    daemon_killed_under(
        "rows_committed_by_rocksdb_survive_a_daemon_kill",
        &DatabaseLibrary {
            name: "rocksdb",
            header: "rocksdb/c.h",
            ways,
        },
    );
}

fn daemon_killed_under(test: &str, library: &DatabaseLibrary) {
    let header = Path::new("/usr/include").join(library.header);
    if !header.exists() {
        return skip(test, &format!("no {}", header.display()));
    }
    let Some(mounted) = DatabaseMount::new(test) else {
        return;
    };
    let scratch = tempfile::tempdir().expect("made");
    let program = scratch.path().join(library.name);
    build(library, &program);
    for way in library.ways {
        let dir = mounted.dir().join(way);
        fs::create_dir(&dir).expect("made");
        let run = |task: &str| {
            let mut command = Command::new(&program);
            command.arg(&dir).arg(task);
            command
        };
        let what = format!("{}, {way}", library.name);
        daemon_killed(
            (&what, &mounted),
            2,
            |_| run(way),
            || checked(&mut run("check")),
        );
    }
    mounted.finish();
}

fn build(library: &DatabaseLibrary, program: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/databases");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(program);
    compiler.arg(sources.join(format!("{}.c", library.name)));
    compiler.arg(format!("-l{}", library.name));
    let built = output(&mut compiler).expect("a compiler");
    assert!(built.status.success(), "{}", texts(&built).1);
}

/// Runs a check of all rows, and returns the last of them.
fn checked(check: &mut Command) -> i64 {
    let checked = output(check).expect("started");
    let (said, error) = texts(&checked);
    assert!(checked.status.success(), "{said}{error}");
    row(said.trim()).expect("a row")
}
