//! `status --watch`: on a terminal, made by `script`, and in a pipe.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::world::{CliSandbox, signal, skip, wait_until};

/// Escape sequences that switch to the alternate screen and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// Watches `v` on a terminal of 80 columns and 24 rows; `None` if no terminal can be made.
fn on_a_terminal(world: &CliSandbox, test: &str) -> Option<Child> {
    if let Err(error) = Command::new("script").arg("--version").output() {
        skip(test, &format!("script cannot be started: {error}"));
        return None;
    }
    // A test that waits for output that never comes must not wait forever.
    let mut script = Command::new("timeout");
    world.set_up(&mut script);
    let line = format!(
        "stty rows 24 cols 80; echo $$ >pid; exec {} status v --watch",
        env!("CARGO_BIN_EXE_forebay")
    );
    let started = script
        .args([
            "--foreground",
            "60",
            "script",
            "-q",
            "-e",
            "-c",
            &line,
            "/dev/null",
        ])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    Some(started.unwrap())
}

/// Reads the output of a terminal until it contains this text.
fn shown_until(out: &mut impl Read, what: &str) -> String {
    let mut shown = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&shown).contains(what) {
        let n = out.read(&mut byte).unwrap();
        assert!(
            n > 0,
            "ended without {what:?}: {}",
            String::from_utf8_lossy(&shown)
        );
        shown.push(byte[0]);
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn watch_restores_the_terminal_screen_when_a_key_ends_it() {
    let name = "watch_restores_the_terminal_screen_when_a_key_ends_it";
    let world = CliSandbox::with_volume();
    world.attach();
    let Some(mut child) = on_a_terminal(&world, name) else {
        return;
    };
    let mut out = child.stdout.take().unwrap();
    let before = shown_until(&mut out, ENTER);
    assert!(!before.contains("caching"), "{before:?}");
    // Blanks that do not change are not sent.
    let screen = shown_until(&mut out, "quit");
    for part in ["caching", "64MiB", "dirty", "writes"] {
        assert!(screen.contains(part), "{part}: {screen:?}");
    }
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"q").unwrap();
    shown_until(&mut out, LEAVE);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("forebay:"), "{rest:?}");
    assert!(child.wait().unwrap().success());
    drop(keys);
}

#[test]
fn watch_restores_the_terminal_screen_when_a_signal_ends_it() {
    let name = "watch_restores_the_terminal_screen_when_a_signal_ends_it";
    let world = CliSandbox::with_volume();
    world.attach();
    let Some(mut child) = on_a_terminal(&world, name) else {
        return;
    };
    let mut out = child.stdout.take().unwrap();
    shown_until(&mut out, ENTER);
    let pid = fs::read_to_string(world.path("pid")).unwrap();
    signal(pid.trim().parse().unwrap(), "TERM");
    shown_until(&mut out, LEAVE);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    // Then the signal ends it as it ends any program, which `script` reports as 128 plus its number.
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15), "{rest:?}");
}

#[test]
fn watch_reports_a_detached_volume_and_continues() {
    let name = "watch_reports_a_detached_volume_and_continues";
    let world = CliSandbox::with_volume();
    world.attach();
    let Some(mut child) = on_a_terminal(&world, name) else {
        return;
    };
    let mut out = child.stdout.take().unwrap();
    shown_until(&mut out, "caching");
    world.ok(&["detach", "v"]);
    shown_until(&mut out, "attached;");
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    shown_until(&mut out, LEAVE);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn watch_prints_successive_reports_without_terminal_codes_to_a_pipe() {
    let world = CliSandbox::with_volume();
    world.attach();
    let mut child = world
        .command(&["status", "v", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reports = 0;
    for line in lines {
        let line = line.unwrap();
        assert!(!line.contains('\x1b'), "{line:?}");
        reports += usize::from(line.starts_with("v ("));
        if reports == 2 {
            break;
        }
    }
    assert_eq!(reports, 2);
    child.kill().unwrap();
    child.wait().unwrap();
    // A volume that is not attached is an error before anything is shown.
    world.ok(&["detach", "v"]);
    wait_until("it is gone", || !world.path("run/v.sock").exists());
    let failed = crate::world::failed(&["status"], &world.run(&["status", "v", "--watch"]));
    failed.with(3, &["not attached"]);
}
