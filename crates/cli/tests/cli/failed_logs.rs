//! A log device that really fails, and the record of the failure.
//!
//! The log begins far into its file. A limit on file lengths then makes writes to the log fail, and a truncated file
//! makes reads fail. Both work in the running daemon, and both can be undone.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit};

use crate::world::{CliSandbox, MIB, output, wait_until};

const LOG_AT: u64 = 128 * MIB;
const LOG_BYTES: u64 = 40 * MIB;
const LOG: &str = "log.img@128MiB+40MiB";

fn with_log_far_in() -> CliSandbox {
    let world = CliSandbox::new();
    world.data("data.img", 64 * MIB);
    world.image("log.img", LOG_AT + LOG_BYTES);
    world.ok(&["create", "--name", "v", "--data", "data.img", "--log", LOG]);
    world
}

/// Attaches `v` while ignoring the signal of the file length limit.
fn attach(world: &CliSandbox) {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_forebay");
    let script = "trap '' XFSZ; exec \"$0\" attach v --via none --patience 1s";
    world.set_up(command.args(["-c", script, program]));
    let attached = output(&mut command).expect("it runs");
    assert!(attached.status.success(), "{attached:?}");
}

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

/// Makes writes of a process beyond this file length fail, or removes the limit.
fn limit_writes(pid: u32, len: Option<u64>) {
    let limit = Rlimit {
        current: len,
        maximum: None,
    };
    let process = Pid::from_raw(pid as i32);
    rustix::process::prlimit(process, Resource::Fsize, limit).expect("one's own process");
}

fn set_len(world: &CliSandbox, len: u64) {
    let file = File::options().write(true).open(world.path("log.img"));
    file.unwrap().set_len(len).unwrap();
}

/// Leaves `v` attached, with 8 MiB of `7` flushed to a log that fails all reads and writes. Returns the content of the
/// log.
fn failed(world: &CliSandbox) -> Vec<u8> {
    attach(world);
    let mut client = world.client();
    for mib in 0..8 {
        client.write((8 + mib) * MIB, &[7; MIB as usize]).unwrap();
    }
    client.flush().unwrap();
    let pid = world.pid("v").expect("it is attached");
    // Nothing is destaged between here and the truncation of the file.
    crate::world::signal(pid, "STOP");
    limit_writes(pid, Some(LOG_AT / 2));
    let log = world.content("log.img");
    set_len(world, LOG_AT);
    crate::world::signal(pid, "CONT");
    let _ = client.write(0, &[8; 4096]);
    let _ = client.flush();
    drop(client);
    wait_until("what the log held cannot be read", || {
        status(world)["unreadable_bytes"].as_u64().unwrap() > 0
    });
    log
}

fn state_files(world: &CliSandbox) -> usize {
    fs::read_dir(world.path("state")).map_or(0, Iterator::count)
}

#[test]
fn data_of_a_failed_log_is_lost_only_on_command_and_the_failure_is_recorded_elsewhere() {
    let world = with_log_far_in();
    let log = failed(&world);
    let before = status(&world);
    assert_eq!(
        (&before["mode"], &before["damaged_bytes"]),
        (&"degraded".into(), &0.into())
    );
    let args = ["discard-unreadable", "v"];
    let warned = crate::world::failed(&args, &world.run(&args));
    warned.with(4, &["cannot be read", "would be lost", "--lose-unreadable"]);
    assert_eq!(status(&world)["damaged_bytes"], 0, "nothing was abandoned");
    let said = world.ok(&["discard-unreadable", "v", "--lose-unreadable"]);
    assert!(said.contains("are lost"), "{said}");
    let after = status(&world);
    assert_eq!(after["unreadable_bytes"], 0);
    let lost = after["damaged_bytes"].as_u64().unwrap();
    assert!(lost >= 4 * MIB, "{after}");
    assert!(world.client().read(8 * MIB, 4096).is_err(), "it is lost");
    // The log could not record the loss, so the state directory records it, and a flush is a guarantee again.
    assert_eq!(state_files(&world), 1);
    let mut client = world.client();
    client.write(8 * MIB, &[9; 4096]).unwrap();
    client.flush().unwrap();
    assert_eq!(client.read(8 * MIB, 4096).unwrap(), [9; 4096]);
    drop(client);
    world.kill("v");
    // The device works again, with all its data. Only the record shows that the log is no longer valid.
    fs::write(world.path("log.img"), &log).unwrap();
    let refused = world.refused(&["attach", "v", "--via", "none"]);
    refused.with(4, &["abandoned", "create --force"]);
    assert_eq!(world.peek("data.img", 8 * MIB, 4096), [9; 4096]);
    // A new log has a new id, and the record is no longer needed.
    world.ok(&[
        "create", "--force", "--name", "v", "--data", "data.img", "--log", LOG,
    ]);
    assert_eq!(state_files(&world), 0);
    world.attach();
    assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), [9; 4096]);
}

/// Nothing was abandoned, so the log still holds the data.
#[test]
fn a_volume_that_cannot_be_closed_cleanly_can_still_be_detached() {
    let world = with_log_far_in();
    let log = failed(&world);
    wait_until("the clients are gone", || {
        status(&world)["nbd_connections"] == 0
    });
    let pid = world.pid("v").expect("it is attached");
    let detached = world.refused(&["detach", "v", "--keep-dirty"]);
    detached.with(
        5,
        &[
            "v is detached, but was not closed cleanly",
            "cannot be read",
        ],
    );
    wait_until("the daemon has ended", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
    assert!(
        world
            .ok(&["list"])
            .lines()
            .all(|line| !line.contains("attached"))
    );
    fs::write(world.path("log.img"), log).unwrap();
    // The data written since went to the data device alone.
    let refused = world.refused(&["attach", "v", "--via", "none"]);
    refused.with(4, &["differs at byte 0", "--accept-changed"]);
    world.ok(&["attach", "v", "--via", "none", "--accept-changed"]);
    let read = world.client().read(8 * MIB, 8 * MIB as u32).unwrap();
    assert!(
        read.iter().all(|byte| *byte == 7),
        "all that was flushed is there"
    );
}

#[test]
fn data_of_an_abandoned_log_is_salvaged_when_its_device_works_again() {
    let world = with_log_far_in();
    let log = failed(&world);
    world.ok(&["discard-unreadable", "v", "--lose-unreadable"]);
    let lost = status(&world)["damaged_bytes"].as_u64().unwrap();
    let mut client = world.client();
    client.write(8 * MIB, &[9; 4096]).unwrap();
    client.flush().unwrap();
    drop(client);
    // The log accepts the record in the end, at the latest when the volume is closed.
    limit_writes(world.pid("v").unwrap(), None);
    set_len(&world, LOG_AT + LOG_BYTES);
    wait_until("the clients are gone", || {
        status(&world)["nbd_connections"] == 0
    });
    world.ok(&["detach", "v", "--keep-dirty"]);
    let segments = LOG_AT + MIB;
    world.poke("log.img", segments, &log[segments as usize..]);
    let check = world.run(&["check", "v"]);
    let said = crate::world::texts(&check).0;
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("--salvage would write them"), "{said}");
    world.image("log2.img", 40 * MIB);
    let another = ["replace-log", "v", "--log", "log2.img"];
    let refused = world.refused(&another);
    refused.with(4, &["was lost with the log", "--salvage"]);
    let salvaged = world.run(&["check", "v", "--salvage", "--json"]);
    assert!(salvaged.status.success(), "{salvaged:?}");
    let report: serde_json::Value = serde_json::from_slice(&salvaged.stdout).unwrap();
    assert_eq!(report["found_bytes"], lost - 4096, "{report}");
    assert_eq!(world.peek("data.img", 8 * MIB, 4096), [9; 4096]);
    let rest = world.peek("data.img", 8 * MIB + 4096, 8 * MIB as usize - 4096);
    assert!(
        rest.iter().all(|byte| *byte == 7),
        "all that was flushed is there"
    );
    let refused = world.refused(&["attach", "v", "--via", "none"]);
    refused.with(4, &["abandoned", "forebay replace-log"]);
    let said = world.ok(&another);
    assert!(said.contains("log2.img now"), "{said}");
    world.attach();
    let read = world.client().read(9 * MIB, MIB as u32).unwrap();
    assert!(read.iter().all(|byte| *byte == 7));
    world.detach();
}

fn volume_id(world: &CliSandbox) -> String {
    let json = world.run(&["check", "--log", LOG, "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    report["info"]["volume"].as_str().unwrap().to_owned()
}

/// Found by a user of the manual: only `attach` consulted the record. `check` called the log dirty or damaged, and
/// advised `--accept-changed`; `create` warned of unsaved data.
fn commands_name_the_abandoned_log(world: &CliSandbox) {
    for args in [&["check", "v"][..], &["check", "--log", LOG]] {
        let checked = world.run(args);
        let (out, err) = crate::world::texts(&checked);
        assert_eq!(checked.status.code(), Some(2), "{out}{err}");
        for part in [
            "abandoned",
            "failed-log record",
            "data.img",
            "Nothing is left to recover",
        ] {
            assert!(out.contains(part), "{part}: {out}");
        }
        for wrong in ["accept-changed", "dirty", "DAMAGED", "attaching recovers"] {
            assert!(!out.contains(wrong), "{wrong}: {out}");
        }
    }
    let json = world.run(&["check", "v", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (
            &report["verdict"],
            &report["recorded_as_failed"],
            &report["dirty_bytes"]
        ),
        (&"abandoned".into(), &true.into(), &0.into())
    );
    let dumped = crate::world::texts(&world.run(&["dump", "v"])).1;
    assert!(
        dumped.contains("abandoned") && dumped.contains("never applied"),
        "{dumped}"
    );
    let again = ["create", "--name", "w", "--data", "data.img", "--log", LOG];
    let refused = world.refused(&again);
    refused.with(
        4,
        &[
            "failed log of the Forebay volume",
            "nothing in it is needed",
            "--force",
        ],
    );
    assert!(!refused.said.contains("UNSAVED"), "{}", refused.said);
    // The data device needs nothing from the failed log, so another log for it is not refused.
    world.image("log2.img", 40 * MIB);
    let other = [
        "create", "--name", "w", "--data", "data.img", "--log", "log2.img",
    ];
    world.ok(&other);
    world.ok(&["remove", "w"]);
    let salvaged = crate::world::failed(&["check"], &world.run(&["check", "v", "--salvage"]));
    salvaged.with(3, &["could not be marked"]);
    assert!(!salvaged.said.contains("attaching"), "{}", salvaged.said);
    for command in ["resize", "tune"] {
        let refused = world.refused(&[command, "v"]);
        assert!(!refused.said.contains("accept-changed"), "{}", refused.said);
    }
    assert!(world.ok(&["list"]).contains("failed-log record"));
    let status = crate::world::failed(&["status"], &world.run(&["status", "v"]));
    status.with(3, &["not attached", "failed-log record", "forebay check v"]);
    let checked = world.run(&["status", "v", "--check"]);
    let out = crate::world::texts(&checked).0;
    assert!(
        out.starts_with("FOREBAY CRITICAL - v degraded: ") && out.contains("failed-log record"),
        "{out}"
    );
    assert_eq!(checked.status.code(), Some(2), "{out}");
    fs::remove_file(world.path("log2.img")).unwrap();
}

#[test]
fn the_volume_of_an_abandoned_log_is_removed_on_command() {
    let world = with_log_far_in();
    world.dirty(0, 3, 4096);
    let id = volume_id(&world);
    fs::create_dir_all(world.path("state")).unwrap();
    let note = world.path("state").join(format!("{id}.given-up"));
    let noted = format!("the log of volume {id} was given up in epoch 1\n");
    fs::write(&note, noted).unwrap();
    commands_name_the_abandoned_log(&world);
    let said = world.ok(&["remove", "v", "--force"]);
    assert!(said.contains("complete by itself"), "{said}");
    assert!(!note.exists() && world.ok(&["list"]).contains("no volumes"));
}

#[test]
fn a_failed_log_record_refuses_its_log_but_not_a_later_epoch() {
    let world = with_log_far_in();
    world.attach();
    world.client().write(0, &[3; 4096]).unwrap();
    world.ok(&["detach", "v"]);
    let id = volume_id(&world);
    let note = world.path("state").join(format!("{id}.given-up"));
    let noted = |epoch: u64| format!("the log of volume {id} was given up in epoch {epoch}\n");
    fs::create_dir_all(world.path("state")).unwrap();
    // The log is in epoch 1.
    for epoch in [1, 2] {
        fs::write(&note, noted(epoch)).unwrap();
        let refused = world.refused(&["attach", "v", "--via", "none"]);
        refused.with(4, &["abandoned", "create --force"]);
        let removed = world.refused(&["remove", "v"]);
        removed.with(4, &["abandoned", "moved to the data device", "--force"]);
        assert!(!removed.said.contains("LOSE"), "{}", removed.said);
        commands_name_the_abandoned_log(&world);
    }
    fs::write(&note, "what is this").unwrap();
    world
        .refused(&["remove", "v"])
        .with(4, &["remove the file"]);
    let checked = crate::world::failed(&["check"], &world.run(&["check", "v"]));
    checked.with(3, &["may have been abandoned", "remove the file"]);
    let refused = world.refused(&["attach", "v", "--via", "none"]);
    refused.with(
        4,
        &[
            "may have been abandoned",
            note.to_str().unwrap(),
            "remove the file",
        ],
    );
    fs::write(&note, noted(0)).unwrap();
    let listed = world.ok(&["list"]);
    assert!(!listed.contains("degraded"), "{listed}");
    world.attach();
    assert_eq!(world.client().read(0, 4096).unwrap(), [3; 4096]);
    world.ok(&["detach", "v"]);
    world.ok(&["remove", "v"]);
    assert!(!note.exists(), "there is no such log any more");
}

#[test]
fn a_detached_volume_gets_another_log_for_one_that_only_a_record_names() {
    let world = with_log_far_in();
    let named = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    fs::write(
        world.path("etc/v.toml"),
        format!("{named}max-delay = \"20ms\"\n"),
    )
    .unwrap();
    world.attach();
    world.client().write(0, &[3; 4096]).unwrap();
    world.ok(&["detach", "v"]);
    let id = volume_id(&world);
    let note = world.path("state").join(format!("{id}.given-up"));
    // The log is in epoch 1. Its device may have lost the superblocks of later epochs.
    let noted = format!("the log of volume {id} was given up in epoch 3\n");
    fs::create_dir_all(world.path("state")).unwrap();
    fs::write(&note, "what is this").unwrap();
    let another = [
        "replace-log",
        "v",
        "--log",
        "log2.img",
        "--log-size",
        "40MiB",
    ];
    world.refused(&another).with(4, &["remove the file"]);
    assert!(
        !world.path("log2.img").exists(),
        "a second attempt begins anew"
    );
    fs::write(&note, noted).unwrap();
    let output = world.run(&another);
    let (said, notes) = crate::world::texts(&output);
    assert!(said.contains("log2.img now"), "{said}{notes}");
    assert!(
        notes.contains("could not record data that was lost"),
        "{notes}"
    );
    let config = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    assert!(
        config.contains("log2.img") && config.contains("20ms"),
        "{config}"
    );
    // The record concerns the former log only.
    world.attach();
    assert_eq!(status(&world)["volume"], id.as_str());
    let mut client = world.client();
    assert_eq!(client.read(0, 4096).unwrap(), [3; 4096]);
    client.write(0, &[4; 4096]).unwrap();
    client.flush().unwrap();
    drop(client);
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(0, 4096).unwrap(), [4; 4096]);
    world.detach();
    let former = world.refused(&["attach", "--log", LOG, "--via", "none"]);
    former.with(4, &["abandoned"]);
}

#[test]
fn a_log_that_was_not_abandoned_is_not_salvaged() {
    let world = with_log_far_in();
    let refused = world.refused(&["check", "v", "--salvage"]);
    refused.with(3, &["log.img", "was not abandoned", "attaching recovers"]);
}
