//! Members of a group see the status of root's volumes, and can do nothing else.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use crate::system::root;
use crate::world::{CliSandbox, failed, output, skip, texts, wait_until};

/// The number of a group without files on any system.
const GROUP: &str = "63217";
/// A user that can become a member of the group.
const USER: &str = "65534";

/// Returns a world with the attached volume `v`, whose status the group may see; or skips the test with a message.
fn world(test: &str) -> Option<CliSandbox> {
    if !root() || Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "not root, or no setpriv");
        return None;
    }
    let world = CliSandbox::with_volume();
    fs::set_permissions(world.dir(), Permissions::from_mode(0o711)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_forebay"));
    let readable = |dir: &Path| fs::metadata(dir).is_ok_and(|dir| dir.mode() & 0o001 != 0);
    if !program
        .ancestors()
        .skip(1)
        .chain(world.dir().ancestors())
        .all(readable)
    {
        skip(test, "other users cannot reach the target directory");
        return None;
    }
    let mut attach = world.command(&["attach", "v", "--via", "none"]);
    let attached = output(attach.env("FOREBAY_GROUP", GROUP)).unwrap();
    assert!(attached.status.success(), "{}", texts(&attached).1);
    Some(world)
}

/// Runs a command as a user of this group, with directories of the user's own.
fn as_member(world: &CliSandbox, group: &str, args: &[&str]) -> Output {
    let shared = world.path("user-run-status");
    if !shared.exists() {
        // All users share the directory of the status sockets.
        symlink(world.path("run-status"), shared).unwrap();
    }
    let mut command = Command::new("setpriv");
    world.set_up(&mut command);
    command
        .env("FOREBAY_CONFIG_DIR", world.path("user-etc"))
        .env("FOREBAY_RUNTIME_DIR", world.path("user-run"));
    command.args(["--reuid", USER, "--regid", group, "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_forebay")).args(args);
    output(&mut command).unwrap()
}

#[test]
fn a_member_sees_the_status_and_is_refused_everything_else() {
    let Some(world) = world("a_member_sees_the_status_and_is_refused_everything_else") else {
        return;
    };
    let socket = fs::metadata(world.path("run-status/v.sock")).unwrap();
    assert_eq!(
        (socket.mode() & 0o777, socket.gid().to_string()),
        (0o660, GROUP.to_owned())
    );
    assert_eq!(
        fs::metadata(world.path("run")).unwrap().mode() & 0o777,
        0o700
    );
    for args in [
        &["list"][..],
        &["status"],
        &["status", "v"],
        &["status", "--check"],
    ] {
        let (out, err) = texts(&as_member(&world, GROUP, args));
        assert!(
            out.contains("v ") && out.contains("ok") && err.is_empty(),
            "{args:?}: {out}{err}"
        );
    }
    for args in [
        &["drain", "v"][..],
        &["detach", "v"],
        &["detach", "v", "--keep-dirty"],
        &["resize", "v"],
        &["tune", "v", "--placement", "lfs"],
        &["discard-unreadable", "v", "--lose-unreadable"],
        &["freeze", "v"],
        &["thaw", "v"],
        &["scrub", "v"],
        &["scrub", "v", "--stop"],
    ] {
        let refused = failed(args, &as_member(&world, GROUP, args));
        assert!(
            refused.said.contains("only see its status"),
            "{args:?}: {}",
            refused.said
        );
        assert_eq!(refused.code, 4, "{args:?}");
    }
    // Other users see nothing.
    let (out, err) = texts(&as_member(&world, USER, &["list"]));
    assert!(
        out.starts_with("no volumes") && err.is_empty(),
        "{out}{err}"
    );
    let other = failed(&["status"], &as_member(&world, USER, &["status", "v"]));
    assert_eq!(other.code, 3, "{}", other.said);
    world.ok(&["detach", "v"]);
    assert!(!world.path("run-status/v.sock").exists());
}

#[test]
fn the_status_socket_accepts_only_status_requests_and_its_clients_cost_only_their_connection() {
    let test =
        "the_status_socket_accepts_only_status_requests_and_its_clients_cost_only_their_connection";
    let Some(world) = world(test) else { return };
    let connect = || UnixStream::connect(world.path("run-status/v.sock")).unwrap();
    let mut stream = connect();
    for request in [
        "drain",
        "detach",
        "hand-over",
        "discard-unreadable",
        "resize",
        "tune",
        "thaw",
        "stop-scrub",
    ] {
        writeln!(stream, "{{\"command\":\"{request}\"}}").unwrap();
    }
    writeln!(stream, r#"{{"command":"place","start":0,"end":4096}}"#).unwrap();
    writeln!(stream, r#"{{"command":"freeze","timeout_ms":1000}}"#).unwrap();
    writeln!(stream, r#"{{"command":"scrub","rate":0}}"#).unwrap();
    writeln!(stream, r#"{{"command":"status"}}"#).unwrap();
    let lines: Vec<String> = BufReader::new(stream)
        .lines()
        .take(12)
        .map(Result::unwrap)
        .collect();
    for line in &lines[..11] {
        assert!(
            line.contains("\"refused\"") && line.contains("only requests for the status"),
            "{line}"
        );
    }
    assert!(
        lines[11].starts_with("{\"reply\":\"status\""),
        "{}",
        lines[11]
    );
    // Garbage, and more idle clients than the socket serves at a time.
    let mut garbage = connect();
    garbage.write_all(b"\xff\x00 garbage\n").unwrap();
    let mut answer = String::new();
    garbage.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"usage\""), "{answer}");
    let idle: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = connect();
            let _ = stream.write_all(b"{\"comm");
            stream
        })
        .collect();
    world.client().write(0, &[1; 512]).unwrap();
    world.ok(&["drain", "v"]);
    world.ok(&["status", "v"]);
    // The idle clients are disconnected after some seconds, even if they stay.
    wait_until("there is room again", || {
        let (out, _) = texts(&as_member(&world, GROUP, &["status", "v"]));
        out.starts_with("v (")
    });
    drop(idle);
    world.kill("v");
    let (out, _) = texts(&as_member(&world, GROUP, &["list"]));
    assert!(out.contains("dead"), "{out}");
    world.attach();
    // The removal of a killed volume removes its status, too.
    world.kill("v");
    world.ok(&["remove", "v", "--force"]);
    let (out, err) = texts(&as_member(&world, GROUP, &["list"]));
    assert!(out.starts_with("no volumes"), "{out}{err}");
}

#[test]
fn a_user_without_a_session_has_a_private_runtime_directory() {
    let test = "a_user_without_a_session_has_a_private_runtime_directory";
    let Some(world) = world(test) else { return };
    // No system has a user with this number.
    let user = "63219";
    let dir = std::path::PathBuf::from(format!("/tmp/forebay-{user}"));
    let _ = fs::remove_dir_all(&dir);
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .current_dir("/")
            .env_clear()
            .env("HOME", world.dir())
            .args(["--reuid", user, "--regid", user, "--clear-groups"])
            .arg(env!("CARGO_BIN_EXE_forebay"))
            .args(args);
        output(&mut command).unwrap()
    };
    let listed = run(&["list"]);
    assert!(listed.status.success(), "{}", texts(&listed).1);
    let found = fs::symlink_metadata(&dir).unwrap();
    assert_eq!(
        (found.mode() & 0o777, found.uid().to_string()),
        (0o700, user.to_owned())
    );
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    let refused = failed(&["list"], &run(&["list"]));
    refused.with(
        4,
        &[
            "/tmp/forebay-63219",
            "other users have access",
            "XDG_RUNTIME_DIR",
        ],
    );
    fs::remove_dir_all(&dir).unwrap();
    world.ok(&["detach", "v"]);
}
