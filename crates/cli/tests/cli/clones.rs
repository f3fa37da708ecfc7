//! `forebay clone-id`: copied devices as a volume of their own.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use forebay_nbd::client::BlockingNbdClient;

use crate::world::{CliSandbox, MIB, failed};

fn status(world: &CliSandbox, name: &str) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", name, "--json"])).unwrap()
}

fn client(world: &CliSandbox, name: &str) -> BlockingNbdClient {
    let socket = world.path("run").join(format!("{name}.nbd.sock"));
    BlockingNbdClient::connect(&socket, name).unwrap()
}

fn copy(world: &CliSandbox, from: &str, to: &str) {
    fs::copy(world.path(from), world.path(to)).unwrap();
}

/// Checks that the copy `c` is served beside the original `v`, has its data, and keeps its own writes and id.
fn check_both(world: &CliSandbox) {
    world.ok(&["attach", "c", "--via", "none"]);
    assert_eq!(client(world, "c").read(MIB, 4096).unwrap(), [1; 4096]);
    let id = status(world, "c")["volume"].clone();
    assert_ne!(id, status(world, "v")["volume"]);
    client(world, "v").write(2 * MIB, &[2; 4096]).unwrap();
    let mut copied = client(world, "c");
    copied.write(2 * MIB, &[3; 4096]).unwrap();
    copied.flush().unwrap();
    world.kill("c");
    world.ok(&["attach", "c", "--via", "none"]);
    assert_eq!(client(world, "c").read(2 * MIB, 4096).unwrap(), [3; 4096]);
    assert_eq!(client(world, "v").read(2 * MIB, 4096).unwrap(), [2; 4096]);
    assert_eq!(status(world, "c")["volume"], id);
}

#[test]
fn a_copy_of_a_log_structured_volume_is_attached_beside_the_original() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.ok(&[
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
    ]);
    world.attach();
    client(&world, "v").write(MIB, &[1; 4096]).unwrap();
    world.ok(&["freeze", "v"]);
    copy(&world, "data.img", "copy.img");
    world.ok(&["thaw", "v"]);
    let said = world.ok(&["clone-id", "--data", "copy.img", "--name", "c"]);
    assert!(said.contains("attach it with: forebay attach c"), "{said}");
    check_both(&world);
    // A copy of the copy gets an id of its own again.
    world.ok(&["detach", "c", "--keep-dirty"]);
    let checked = world.ok(&["check", "c"]);
    assert!(checked.contains("version 6"), "{checked}");
    copy(&world, "copy.img", "again.img");
    world.ok(&["clone-id", "--data", "again.img", "--name", "d"]);
    let ids = ["c", "d"].map(|name| {
        let text = fs::read_to_string(world.path("etc").join(format!("{name}.toml"))).unwrap();
        let line = text.lines().find(|line| line.starts_with("volume = "));
        line.unwrap().to_owned()
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_copy_of_a_write_cache_is_attached_beside_the_original() {
    let world = CliSandbox::with_volume();
    world.attach();
    client(&world, "v").write(MIB, &[1; 4096]).unwrap();
    world.ok(&["freeze", "v"]);
    copy(&world, "data.img", "copy.img");
    copy(&world, "log.img", "copylog.img");
    world.ok(&["thaw", "v"]);
    let alone = world.refused(&["clone-id", "--log", "copylog.img", "--name", "c"]);
    alone.with(2, &["--data PATH"]);
    let clone = [
        "clone-id",
        "--log",
        "copylog.img",
        "--data",
        "copy.img",
        "--name",
        "c",
    ];
    world.ok(&clone);
    check_both(&world);
}

#[test]
fn originals_and_dirty_logs_are_refused() {
    let world = CliSandbox::with_volume();
    world.dirty(MIB, 7, 4096);
    let original = [
        "clone-id", "--log", "log.img", "--data", "data.img", "--name", "c",
    ];
    world
        .refused(&original)
        .with(4, &["a device of the volume v", "not a copy"]);
    copy(&world, "data.img", "copy.img");
    copy(&world, "log.img", "copylog.img");
    let dirty = [
        "clone-id",
        "--log",
        "copylog.img",
        "--data",
        "copy.img",
        "--name",
        "c",
    ];
    world.refused(&dirty).with(4, &["copylog.img", "freeze"]);
    let taken = [
        "clone-id",
        "--log",
        "copylog.img",
        "--data",
        "copy.img",
        "--name",
        "v",
    ];
    world
        .refused(&taken)
        .with(4, &["a volume v exists already"]);
    world.image("blank.img", 64 * MIB);
    world
        .refused(&["clone-id", "--data", "blank.img", "--name", "c"])
        .with(3, &["blank.img"]);
}

#[test]
fn a_killed_clone_id_can_be_repeated() {
    for round in 0..8 {
        let world = CliSandbox::with_volume();
        copy(&world, "data.img", "copy.img");
        copy(&world, "log.img", "copylog.img");
        let clone = [
            "clone-id",
            "--log",
            "copylog.img",
            "--data",
            "copy.img",
            "--name",
            "c",
        ];
        let mut cloning = world.command(&clone);
        cloning.stdout(Stdio::null()).stderr(Stdio::null());
        let mut cloning = cloning.spawn().expect("the program runs");
        // sleeps: the kill hits another step in each round
        std::thread::sleep(Duration::from_millis(3 * round));
        let _ = cloning.kill();
        let _ = cloning.wait();
        if !world.path("etc/c.toml").exists() {
            let repeated = world.run(&clone);
            if !repeated.status.success() {
                // The copied log was empty.
                failed(&clone, &repeated).with(3, &["superblock is missing"]);
                let create = [
                    "create",
                    "--force",
                    "--log",
                    "copylog.img",
                    "--data",
                    "copy.img",
                    "--name",
                    "c",
                ];
                world.ok(&create);
            }
        }
        for name in ["v", "c"] {
            world.ok(&["attach", name, "--via", "none"]);
        }
        assert_ne!(status(&world, "c")["volume"], status(&world, "v")["volume"]);
    }
}
