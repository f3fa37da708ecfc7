//! `forebay tune`: the placement of attached and detached volumes.

use std::process::Stdio;

use crate::control::answer;
use crate::world::{CliSandbox, MIB};

/// Returns a world with the volume `v` on `data.img`, which has this placement.
fn world(placement: &str) -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.ok(&[
        "create",
        "--volume",
        "vsl",
        "--name",
        "v",
        "--data",
        "data.img",
        "--placement",
        placement,
    ]);
    world
}

fn json(world: &CliSandbox, args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&world.ok(args)).unwrap()
}

#[test]
fn the_placement_can_be_changed_attached_or_detached_and_persists() {
    let world = world("lfs");
    let said = world.ok(&["tune", "v"]);
    assert!(said.contains("v places data by lfs"), "{said}");
    assert!(said.contains("too few overwrites"), "{said}");
    let said = world.ok(&["tune", "v", "--placement", "sepbit"]);
    assert!(said.contains("by sepbit now, by lfs before"), "{said}");
    world.attach();
    let before = json(&world, &["status", "v", "--json"]);
    assert_eq!(before["placement"], "sepbit");
    assert_eq!(before["placement_auto"], false);
    let mut client = world.client();
    for n in 0..200u8 {
        client.write(u64::from(n) * 65536, &[n; 4096]).unwrap();
        if n == 100 {
            let tuned = json(
                &world,
                &["tune", "v", "--placement", "hylog+sepbit", "--json"],
            );
            assert_eq!(tuned["before"], "sepbit");
            assert_eq!(tuned["placement"], "hylog+sepbit");
        }
    }
    client.flush().unwrap();
    world.ok(&["tune", "v", "--placement", "auto"]);
    world.kill("v");
    world.attach();
    let after = json(&world, &["status", "v", "--json"]);
    assert_eq!(after["placement"], "hylog+sepbit");
    assert_eq!(after["placement_auto"], true);
    let mut client = world.client();
    for n in 0..200u8 {
        assert_eq!(
            client.read(u64::from(n) * 65536, 4096).unwrap(),
            [n; 4096],
            "{n}"
        );
    }
    let text = world.ok(&["status", "v"]);
    assert!(text.contains("hylog+sepbit (auto)"), "{text}");
    assert!(text.contains("too few overwrites"), "{text}");
}

#[test]
fn tune_reports_the_cost_of_other_placements_after_enough_writes() {
    let world = world("overwrite");
    world.attach();
    let mut client = world.client();
    for n in 0..6000u64 {
        client
            .write(n * 7919 % 1000 * 8192, &[n as u8; 8192])
            .unwrap();
    }
    let tuned = json(&world, &["tune", "v", "--json"]);
    assert!(tuned["looks"].as_u64() > Some(0), "{tuned}");
    let reason = tuned["reason"].as_str().expect("known");
    assert!(
        reason.contains("segment writes for each one of data"),
        "{reason}"
    );
    assert_eq!(tuned["placement"], "overwrite");
}

#[test]
fn a_placement_that_the_volume_does_not_support_is_refused() {
    let cached = CliSandbox::with_volume();
    let refused = cached.refused(&["tune", "v", "--placement", "lfs"]);
    refused.with(2, &["no placement"]);
    let volume = world("lfs");
    let refused = volume.refused(&["tune", "v", "--placement", "best"]);
    refused.with(2, &["best", "lfs"]);
    volume.attach();
    let refused = volume.refused(&["tune", "w"]);
    refused.with(3, &["w"]);
}

#[test]
fn a_filesystem_accepts_a_named_placement_but_not_auto() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.ok(&["create", "--fs", "--name", "f", "--data", "data.img"]);
    let refused = world.refused(&["tune", "f", "--placement", "auto"]);
    refused.with(2, &["name a placement"]);
    let said = world.ok(&["tune", "f", "--placement", "sepbit"]);
    assert!(said.contains("f places data by sepbit"), "{said}");
    world.ok(&["check", "--data", "data.img"]);
}

#[test]
fn a_bad_placement_over_the_socket_is_refused_and_the_volume_keeps_working() {
    let world = world("lfs");
    world.attach();
    for placement in ["best", "", "LFS", "overwrite\n", &"x".repeat(2000)] {
        let request = serde_json::json!({"command": "tune", "placement": placement});
        let reply = answer(&world, format!("{request}\n").as_bytes());
        assert_eq!(reply["reply"], "failed", "{reply}");
        assert_eq!(reply["code"], "usage", "{reply}");
    }
    assert_eq!(json(&world, &["tune", "v", "--json"])["placement"], "lfs");
}

/// Found by review: the cleaner took the stream of data that it moves from the placement, waited, and appended to a stream that
/// the placement meanwhile lacked.
#[test]
fn concurrent_placement_changes_leave_a_consistent_volume() {
    let world = world("lfs");
    world.attach();
    let mut client = world.client();
    for n in 0..2000u64 {
        client.write(n * 16384, &[n as u8; 4096]).unwrap();
    }
    let kinds = [
        "lfs",
        "wolf",
        "hylog",
        "sepbit",
        "hylog+sepbit",
        "overwrite",
        "auto",
    ];
    let mut commands: Vec<_> = (0..28)
        .map(|n| {
            let args = ["tune", "v", "--placement", kinds[n % kinds.len()]];
            let mut command = world.command(&args);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for n in 0..4000u64 {
        client
            .write(n * 7919 % 2000 * 16384, &[(n * 7919 % 2000) as u8; 4096])
            .unwrap();
    }
    for command in &mut commands {
        assert!(command.wait().unwrap().success());
    }
    client.flush().unwrap();
    drop(client);
    world.kill("v");
    world.attach();
    let mut client = world.client();
    for n in 0..2000u64 {
        let read = client.read(n * 16384, 4096).unwrap();
        assert_eq!(read, [n as u8; 4096], "{n}");
    }
    drop(client);
    world.detach();
    world.ok(&["check", "--data", "data.img"]);
}
