//! Logs that are broken, of another version, or moved.

use std::fs::File;

use crate::world::{CliSandbox, MIB};

const SUPERBLOCKS: [u64; 2] = [0, 512 << 10];

fn attach(world: &CliSandbox) -> crate::world::RefusedCommand {
    world.refused(&["attach", "v", "--via", "none"])
}

fn check(world: &CliSandbox) -> i32 {
    let output = world.run(&["check", "--log", "log.img"]);
    output.status.code().unwrap()
}

#[test]
fn check_exits_with_different_codes_for_clean_dirty_damaged_and_foreign_logs() {
    let world = CliSandbox::with_volume();
    assert_eq!(check(&world), 0);
    world.dirty(MIB, 5, 8192);
    let before = world.content("log.img");
    assert_eq!(check(&world), 1);
    assert!(world.content("log.img") == before, "check wrote to the log");
    let json = world.run(&["check", "--log", "log.img", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&report["verdict"], &report["dirty_bytes"]),
        (&"dirty".into(), &8192.into())
    );
    world.image("nothing.img", 40 * MIB);
    for log in ["nothing.img", "missing.img"] {
        let output = world.run(&["check", "--log", log, "--json"]);
        assert_eq!(output.status.code(), Some(3));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verdict"], "unusable");
    }
}

#[test]
fn a_missing_flushed_record_is_reported_as_damage() {
    let world = CliSandbox::with_volume();
    world.attach();
    {
        let mut client = world.client();
        for block in 0..8u64 {
            client
                .write(block * 65536, &[block as u8 + 1; 4096])
                .unwrap();
            client.flush().unwrap();
        }
    }
    world.kill("v");
    // The first record; later records show that it was durable.
    world.poke("log.img", MIB, &[0xee; 4096]);
    assert_eq!(check(&world), 2);
    attach(&world).with(4, &["log.img", "accept-loss"]);
    // After the loss is accepted, the volume has its state before the lost record, and no state in between.
    let before: Vec<_> = (0..8u64)
        .map(|block| world.peek("data.img", block * 65536, 4096))
        .collect();
    let output = world.run(&["attach", "v", "--via", "none", "--accept-loss"]);
    let said = crate::world::texts(&output).1;
    assert!(
        output.status.success() && said.contains("record 1"),
        "{said}"
    );
    let mut client = world.client();
    for (block, before) in (0..8u64).zip(before) {
        assert_eq!(client.read(block * 65536, 4096).unwrap(), before, "{block}");
    }
    client.write(0, &[9; 4096]).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), [9; 4096]);
}

#[test]
fn a_log_opens_with_one_valid_superblock_and_not_without_any() {
    for broken in SUPERBLOCKS {
        let world = CliSandbox::with_volume();
        world.dirty(0, 3, 4096);
        world.poke("log.img", broken, &[0xa5; 4096]);
        world.attach();
        assert_eq!(world.client().read(0, 4096).unwrap(), [3; 4096]);
        world.ok(&["detach", "v"]);
        assert_eq!(world.peek("data.img", 0, 4096), [3; 4096]);
    }
    let world = CliSandbox::with_volume();
    world.dirty(0, 3, 4096);
    for broken in SUPERBLOCKS {
        world.poke("log.img", broken, &[0xa5; 4096]);
    }
    attach(&world).with(3, &["log.img", "superblock"]);
    assert_eq!(check(&world), 3);
}

#[test]
fn a_file_without_the_magic_number_is_refused_as_a_log() {
    let world = CliSandbox::with_volume();
    world.image("zeroes.img", 40 * MIB);
    let failed = world.refused(&["attach", "--log", "zeroes.img", "--via", "none"]);
    failed.with(3, &["zeroes.img", "magic"]);
    world
        .refused(&["dump", "--log", "zeroes.img"])
        .with(3, &["zeroes.img"]);
    world
        .refused(&["remove", "--log", "zeroes.img"])
        .with(3, &["zeroes.img"]);
}

#[test]
fn a_log_of_another_version_is_refused_with_both_versions() {
    let world = CliSandbox::with_volume();
    for superblock in SUPERBLOCKS {
        // Version and checksum follow the magic number; only the version is wrong.
        let mut bytes = world.peek("log.img", superblock, 4096);
        bytes[8..16].copy_from_slice(&[99, 0, 0, 0, 0, 0, 0, 0]);
        let crc = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        world.poke("log.img", superblock, &bytes);
    }
    attach(&world).with(3, &["log.img", "version 99", "versions up to 2"]);
    let create = [
        "create", "--name", "w", "--data", "data.img", "--log", "log.img",
    ];
    world
        .refused(&create)
        .with(4, &["Forebay log", "version 99", "--force"]);
}

#[test]
fn a_truncated_log_is_refused() {
    let world = CliSandbox::with_volume();
    world.dirty(0, 3, 4096);
    let file = File::options()
        .write(true)
        .open(world.path("log.img"))
        .unwrap();
    file.set_len(20 * MIB).unwrap();
    attach(&world).with(4, &["log.img", "cut short"]);
}

#[test]
fn dump_prints_every_structure_as_text_and_as_json() {
    let world = CliSandbox::with_volume();
    world.dirty(MIB, 5, 8192);
    let text = world.ok(&["dump", "v"]);
    assert!(
        text.contains("superblock") && text.contains("record"),
        "{text}"
    );
    for line in world.ok(&["dump", "--log", "log.img", "--json"]).lines() {
        let item: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(item["kind"].is_string(), "{line}");
    }
}
