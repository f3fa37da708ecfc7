//! Caches over log-structured volumes, from `create` to `remove`, with invalid input.

use std::fs;

use forebay_nbd::client::BlockingNbdClient;

use crate::world::{CliSandbox, MIB, failed, texts, wait_until};

fn create(world: &CliSandbox, more: &[&str]) -> String {
    let args = [
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.ok(&[&args[..], more].concat())
}

/// Returns a world with the volume `v`: a log of 40 MiB over a log-structured volume on `data.img` of 64 MiB.
fn world() -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    create(&world, &["--placement", "lfs"]);
    world
}

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

fn check(world: &CliSandbox, args: &[&str]) -> (i32, String) {
    let output = world.run(&[&["check"], args].concat());
    let (out, err) = texts(&output);
    (output.status.code().unwrap_or(-1), out + &err)
}

#[test]
fn flushed_data_of_a_cache_over_a_volume_survives_kill_detach_and_remove() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    let said = create(&world, &["--size", "1GiB"]);
    for part in ["log.img in front of", "log-structured on", "1GiB long"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    assert!(
        description.contains("[data]\nkind = \"vsl\""),
        "{description}"
    );
    assert_eq!(check(&world, &["v"]).0, 0);
    world.dirty(700 * MIB, 7, 1 << 20);
    let (code, said) = check(&world, &["v"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("1MiB not on the data device yet"), "{said}");
    assert!(said.contains("log-structured volume"), "{said}");
    assert_eq!(check(&world, &["--log", "log.img"]).0, 1);
    // By its devices alone: the log records the volume below it.
    world.ok(&[
        "attach",
        "--log",
        "log.img",
        "--via",
        "none",
        "--discard",
        "on",
    ]);
    assert_eq!(
        world.client().read(700 * MIB, 1 << 20).unwrap(),
        [7; 1 << 20]
    );
    assert!(world.ok(&["list"]).contains("log.img"));
    assert_eq!(status(&world)["below"]["discards"], true);
    let text = world.ok(&["status"]);
    assert!(text.contains("below") && text.contains("mapped"), "{text}");
    world.ok(&["drain", "v"]);
    assert_eq!(status(&world)["below"]["mapped_bytes"], 1 << 20);
    world.client().write(0, &[1; 4096]).unwrap();
    let said = world.detach();
    assert!(said.contains("its log is empty"), "{said}");
    let (code, said) = check(&world, &["v"]);
    assert_eq!(code, 0, "{said}");
    world.dirty(8192, 2, 4096);
    let said = world.ok(&["remove", "v"]);
    assert!(said.contains("the log-structured volume on"), "{said}");
    world.ok(&["attach", "--data", "data.img", "--via", "none"]);
    let socket = world.path("run/data.nbd.sock");
    let mut alone = BlockingNbdClient::connect(&socket, "data").unwrap();
    assert_eq!(alone.read(700 * MIB, 1 << 20).unwrap(), [7; 1 << 20]);
    assert_eq!(
        alone.read(0, 12288).unwrap(),
        [[1; 4096], [0; 4096], [2; 4096]].concat()
    );
    drop(alone);
    wait_until("it is detached", || {
        world.run(&["detach", "data"]).status.success()
    });
    // Once more, keeping the data of the volume.
    let said = world.ok(&[
        "create", "--name", "v", "--data", "data.img", "--log", "log.img", "--force",
    ]);
    assert!(said.contains("the log-structured volume on"), "{said}");
    world.attach();
    assert_eq!(
        world.client().read(700 * MIB, 1 << 20).unwrap(),
        [7; 1 << 20]
    );
    world.detach();
}

#[test]
fn writes_beyond_the_free_space_of_the_lower_volume_are_refused_until_a_trim() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    create(&world, &["--placement", "lfs", "--size", "1GiB"]);
    world.attach();
    let mut client = world.client();
    let room = status(&world)["below"]["mappable_bytes"].as_u64().unwrap();
    let mut at = 0;
    while at <= 2 * room && client.write(at, &vec![3; 1 << 20]).is_ok() {
        at += MIB;
    }
    // The reported capacity is for extents of any size; with large extents, more data fits.
    assert!(at > room / 2 && at < room / 4 * 5, "{at} of {room}");
    client.flush().unwrap();
    // Existing data can be overwritten.
    client.write(0, &vec![4; 1 << 20]).unwrap();
    let now = world.ok(&["status", "v"]);
    assert!(now.contains("FULL"), "{now}");
    client.trim(0, 8 << 20).unwrap();
    client.write(at, &vec![5; 1 << 20]).unwrap();
    client.flush().unwrap();
    drop(client);
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(0, 4096).unwrap(), [0; 4096]);
    assert_eq!(world.client().read(at, 4096).unwrap(), [5; 4096]);
    assert_eq!(world.client().read(at - MIB, 4096).unwrap(), [3; 4096]);
    world.detach();
    assert_eq!(check(&world, &["v"]).0, 0);
}

#[test]
fn a_log_over_a_volume_is_not_attached_to_its_device_or_to_another_volume() {
    let world = world();
    world.dirty(0, 6, 8192);
    let toml = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let data = world.path("data.img");
    let flat = toml.split("\n[data]").next().unwrap().replace(
        "kind = \"cache\"\n",
        &format!("kind = \"cache\"\ndata = \"{}\"\n", data.display()),
    );
    fs::write(world.path("etc/v.toml"), flat).unwrap();
    let refused = world.refused(&["attach", "v", "--via", "none"]);
    refused.with(4, &["belongs to the log-structured volume", "device"]);
    fs::write(world.path("etc/v.toml"), toml).unwrap();
    world.attach();
    world.kill("v");
    fs::copy(&data, world.path("kept.img")).unwrap();
    world.ok(&[
        "create", "--volume", "vsl", "--name", "w", "--data", "data.img", "--force",
    ]);
    let args = ["attach", "v", "--via", "none"];
    failed(&args, &world.run(&args)).with(4, &["belongs to the log-structured volume"]);
    fs::copy(world.path("kept.img"), &data).unwrap();
    world.attach();
    assert_eq!(world.client().read(0, 8192).unwrap(), [6; 8192]);
    world.detach();
}

#[test]
fn both_devices_are_checked_for_content_before_they_are_overwritten() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    let args = [
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.poke("data.img", 0x438, b"\x53\xef");
    world
        .refused(&args)
        .with(4, &["data.img", "ext4", "--force"]);
    world.poke("data.img", 0x438, &[0; 2]);
    world.poke("log.img", 0x438, b"\x53\xef");
    world
        .refused(&args)
        .with(4, &["log.img", "ext4", "--force"]);
    world.ok(&[&args[..], &["--force"]].concat());
    world
        .refused(&[
            "create", "--name", "w", "--data", "log.img", "--log", "data.img",
        ])
        .with(4, &["log-structured Forebay volume", "which would be lost"]);
}
