//! Log-structured volumes, from `create` to `remove`, with invalid input.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::system::{installed, tool};
use crate::world::{CliSandbox, MIB, RefusedCommand, failed, texts, wait_until};

/// Offsets of the superblocks.
const SUPERBLOCKS: [u64; 2] = [0, 512 << 10];

fn create(world: &CliSandbox, more: &[&str]) -> String {
    let args = [
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
    ];
    world.ok(&[&args[..], more].concat())
}

/// Returns a world with the volume `v` on `data.img` of 64 MiB.
fn world() -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    create(&world, &["--placement", "lfs"]);
    world
}

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

/// Runs `check`; returns its exit code and its output.
fn check(world: &CliSandbox) -> (i32, String) {
    let output = world.run(&["check", "--data", "data.img"]);
    let (out, err) = texts(&output);
    (output.status.code().unwrap_or(-1), out + &err)
}

/// Returns the failure of an attach. The refused attach may change the superblocks of the device.
fn not_attached(world: &CliSandbox) -> RefusedCommand {
    let args = ["attach", "v", "--via", "none"];
    failed(&args, &world.run(&args))
}

/// Found by a user of the manual: `resize` called the length of a thin volume that of its devices, and `status` printed
/// it beside the path of the device.
#[test]
fn the_length_of_a_thin_volume_is_not_that_of_its_device() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    create(&world, &["--size", "1GiB"]);
    let said = world.ok(&["resize", "v"]);
    assert!(
        said.contains("v has 1GiB as before") && !said.contains("length of its"),
        "{said}"
    );
    world.ok(&["attach", "v", "--via", "none"]);
    let status = world.ok(&["status", "v"]);
    let line = |key: &str| {
        let mut lines = status.lines();
        lines
            .find_map(|line| line.trim().strip_prefix(key))
            .map(str::trim)
    };
    assert_eq!(line("length "), Some("1GiB"), "{status}");
    assert!(
        line("data ").is_some_and(|data| data.ends_with("data.img")),
        "{status}"
    );
    world.ok(&["detach", "v"]);
}

/// Found by a user of the manual: nothing but an editor restored a lost configuration file.
#[test]
fn adopt_writes_a_lost_configuration_file_from_the_devices() {
    let world = CliSandbox::with_volume();
    let lost = |name: &str| {
        let file = world.path("etc").join(format!("{name}.toml"));
        let content = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        content
    };
    let before = lost("v");
    let said = world.ok(&["adopt", "--log", "log.img"]);
    assert!(said.contains("forebay attach v"), "{said}");
    assert_eq!(
        fs::read_to_string(world.path("etc/v.toml")).unwrap(),
        before
    );
    world.dirty(0, 5, 4096);
    world.ok(&["attach", "v", "--via", "none"]);
    assert_eq!(world.client().read(0, 4096).unwrap(), [5; 4096]);
    world.detach();
    world
        .refused(&["adopt", "--log", "log.img", "--name", "w"])
        .with(4, &["the volume v already"]);
    world
        .refused(&["adopt", "--log", "data.img"])
        .with(3, &["data.img"]);
    world.refused(&["adopt", "--name", "w"]).with(2, &["--log"]);
    world.image("thin.img", 64 * MIB);
    world.ok(&[
        "create", "--volume", "vsl", "--name", "thin", "--data", "thin.img",
    ]);
    let before = lost("thin");
    world
        .refused(&["adopt", "--data", "thin.img", "--name", "v"])
        .with(4, &["v exists already"]);
    world.ok(&["adopt", "--data", "thin.img"]);
    let after = fs::read_to_string(world.path("etc/thin.toml")).unwrap();
    assert!(
        before.contains("kind = \"vsl\"") && after == before,
        "{after}"
    );
}

#[test]
fn a_new_volume_keeps_its_data_through_detach_and_kill_until_it_is_removed() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    let out = create(&world, &["--size", "1GiB"]);
    for part in [
        "created volume v",
        "1GiB long",
        "thin",
        "placement",
        "since",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(
        fs::read_to_string(world.path("etc/v.toml"))
            .unwrap()
            .contains("kind = \"vsl\"")
    );
    assert_eq!(check(&world).0, 0);
    world.attach();
    {
        let mut client = world.client();
        assert_eq!(client.len(), 1024 * MIB);
        client.write(700 * MIB, &[7; 4096]).unwrap();
        client.flush().unwrap();
        assert_eq!(client.read(700 * MIB, 8192).unwrap()[4095..4097], [7, 0]);
    }
    world.ok(&["drain", "v"]);
    assert!(world.ok(&["list"]).contains("attached"));
    let text = world.ok(&["status"]);
    assert!(
        text.contains("mapped") && text.contains("serving"),
        "{text}"
    );
    assert_eq!(status(&world)["mapped_bytes"], 4096);
    assert_eq!(check(&world).0, 3);
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(700 * MIB, 4096).unwrap(), [7; 4096]);
    let said = world.detach();
    assert!(said.contains("v is detached"), "{said}");
    let (code, said) = check(&world);
    assert_eq!(code, 0, "{said}");
    world
        .refused(&["remove", "v"])
        .with(4, &["LOSES all data on", "data.img", "--force"]);
    world.ok(&["remove", "v", "--force"]);
    assert!(!world.path("etc/v.toml").exists());
    assert_eq!(check(&world).0, 3);
}

/// Found with `sepbit`, which first has no estimate of short-lived data: its status was not valid.
#[test]
fn the_status_of_every_placement_is_valid_from_the_start() {
    for placement in [
        "lfs",
        "wolf",
        "hylog",
        "sepbit",
        "hylog+sepbit",
        "overwrite",
    ] {
        let world = CliSandbox::new();
        world.image("data.img", 64 * MIB);
        create(&world, &["--placement", placement, "--segment", "256KiB"]);
        world.attach();
        let now = status(&world);
        assert_eq!(now["placement"], placement, "{now}");
        assert!(world.ok(&["status", "v"]).contains(placement));
        world.detach();
    }
}

#[test]
fn flushed_data_is_counted_by_check_and_recovered_after_a_kill() {
    let world = world();
    world.dirty(5 * MIB, 9, 1 << 20);
    let (code, said) = check(&world);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("dirty") && said.contains("1MiB"), "{said}");
    let before = world.content("data.img");
    assert_eq!(check(&world).0, 1);
    assert!(
        world.content("data.img") == before,
        "check changed the device"
    );
    world.attach();
    assert_eq!(
        world.client().read(5 * MIB, 1 << 20).unwrap(),
        vec![9; 1 << 20]
    );
    world.detach();
    assert_eq!(check(&world).0, 0);
}

#[test]
fn a_full_volume_refuses_writes_and_still_serves_reads_and_trims() {
    let world = CliSandbox::new();
    world.image("data.img", 40 * MIB);
    create(
        &world,
        &[
            "--size",
            "1GiB",
            "--placement",
            "lfs",
            "--segment",
            "256KiB",
        ],
    );
    world.attach();
    let mut client = world.client();
    let mappable = status(&world)["mappable_bytes"].as_u64().unwrap();
    let mut at = 0;
    while client.write(at, &vec![3; 1 << 20]).is_ok() {
        at += MIB;
        assert!(at < 40 * MIB, "it takes more than there is room for");
    }
    assert!(at > mappable / 2, "{at} of {mappable}");
    let now = status(&world);
    assert!(
        ["nearly_full", "full"].contains(&now["mode"].as_str().unwrap()),
        "{now}"
    );
    assert!(now["full_errors"].as_u64() > Some(0), "{now}");
    let text = world.ok(&["status", "v"]);
    assert!(text.contains("FULL") && text.contains("fstrim"), "{text}");
    wait_until("the daemon says it is full", || {
        fs::read_to_string(world.path("run/v.log")).is_ok_and(|log| log.contains("the volume is "))
    });
    assert_eq!(client.read(0, 4096).unwrap(), [3; 4096]);
    client.trim(0, 8 << 20).unwrap();
    client.flush().unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    client.write(900 * MIB, &vec![4; 1 << 20]).unwrap();
    drop(client);
    world.detach();
    assert_eq!(check(&world).0, 0);
}

#[test]
fn conflicting_options_are_refused_before_any_change() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("small.img", 20 * MIB);
    let vsl = ["create", "--volume", "vsl", "--name", "v", "--data"];
    for (more, code, parts) in [
        (
            &["small.img"][..],
            2,
            &["small.img", "32 segments of 1MiB"][..],
        ),
        (&["data.img", "--segment", "3MiB"], 2, &["power of two"]),
        (
            &["data.img", "--page", "5KiB"],
            2,
            &["--page", "4KiB to 64KiB"],
        ),
        (&["data.img", "--size", "4KiB"], 2, &["too small"]),
        (&["data.img", "--placement", "best"], 2, &["hylog+sepbit"]),
        (&["nowhere.img"], 3, &["nowhere.img"]),
    ] {
        world.refused(&[&vsl[..], more].concat()).with(code, parts);
    }
    world
        .refused(&["create", "--name", "v", "--data", "data.img"])
        .with(2, &["--log", "--volume vsl"]);
    world.poke("data.img", 0x438, b"\x53\xef");
    let args = [&vsl[..], &["data.img"]].concat();
    world
        .refused(&args)
        .with(4, &["ext4", "another data device", "--force"]);
    world.ok(&[&args[..], &["--force"]].concat());
    world.refused(&args).with(4, &["a volume v exists already"]);
    let another = [
        "create", "--volume", "vsl", "--name", "w", "--data", "data.img",
    ];
    world
        .refused(&another)
        .with(4, &["log-structured Forebay volume", "which would be lost"]);
}

#[test]
fn a_volume_opens_with_one_valid_superblock_and_check_reports_the_other() {
    for at in SUPERBLOCKS {
        let world = world();
        world.dirty(MIB, 5, 4096);
        world.poke("data.img", at, &[0xff; 4096]);
        let (code, said) = check(&world);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("of the superblock is damaged"), "{said}");
        world.attach();
        assert_eq!(world.client().read(MIB, 4096).unwrap(), [5; 4096]);
        world.detach();
        let (code, said) = check(&world);
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains("is damaged"), "{said}");
    }
    let world = world();
    for at in SUPERBLOCKS {
        world.poke("data.img", at, &[0xff; 4096]);
    }
    world
        .refused(&["attach", "v", "--via", "none"])
        .with(3, &["data.img", "is usable", "right device"]);
    assert_eq!(check(&world).0, 3);
}

#[test]
fn a_truncated_device_is_refused() {
    let world = world();
    let file = fs::File::options()
        .write(true)
        .open(world.path("data.img"))
        .unwrap();
    file.set_len(48 * MIB).unwrap();
    world
        .refused(&["attach", "v", "--via", "none"])
        .with(4, &["data.img", "cut short", "length"]);
    let (code, said) = check(&world);
    assert_eq!(code, 3, "{said}");
}

#[test]
fn a_replaced_volume_or_another_format_version_is_refused() {
    let world = world();
    fs::copy(world.path("data.img"), world.path("mine.img")).unwrap();
    world.ok(&[
        "create", "--volume", "vsl", "--name", "w", "--data", "data.img", "--force",
    ]);
    world
        .refused(&["attach", "v", "--via", "none"])
        .with(4, &["data.img", "belongs to volume", "names volume"]);
    // A future version.
    let mut block = world.peek("mine.img", 0, 4096);
    let version = u32::from_le_bytes(block[8..12].try_into().unwrap());
    block[8..12].copy_from_slice(&(version + 1).to_le_bytes());
    for at in SUPERBLOCKS {
        world.poke("mine.img", at, &block);
    }
    let refused = world.refused(&["attach", "--data", "mine.img", "--via", "none"]);
    refused.with(3, &["mine.img", "superblock"]);
}

#[test]
fn a_volume_in_use_cannot_be_removed_attached_or_overwritten() {
    let world = world();
    world.attach();
    for args in [
        &["remove", "--data", "data.img", "--force"][..],
        &["attach", "--data", "data.img", "--via", "none"],
        &[
            "create", "--volume", "vsl", "--name", "w", "--data", "data.img", "--force",
        ],
    ] {
        let failed = failed(args, &world.run(args));
        assert_eq!(failed.code, 4, "{}", failed.said);
    }
    world.detach();
}

#[test]
fn corruption_anywhere_gives_correct_data_an_error_or_a_refusal() {
    let whole = world();
    let data: Vec<u8> = (0..8 * MIB).map(|n| (n / 4096 % 251) as u8 + 1).collect();
    whole.attach();
    {
        let mut client = whole.client();
        for (n, part) in data.chunks(1 << 20).enumerate() {
            client.write(n as u64 * MIB, part).unwrap();
        }
        client.flush().unwrap();
    }
    whole.detach();
    let (mut wrong, mut refused) = (0, 0);
    for n in 0..16 {
        let world = CliSandbox::new();
        fs::create_dir(world.path("etc")).unwrap();
        for file in ["data.img", "etc/v.toml"] {
            let text = fs::read(whole.path(file)).unwrap();
            fs::write(world.path(file), text).unwrap();
        }
        let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
        let (from, to) = (whole.dir(), world.dir());
        let moved = description.replace(from.to_str().unwrap(), to.to_str().unwrap());
        fs::write(world.path("etc/v.toml"), moved).unwrap();
        world.poke("data.img", MIB + n * 700_000, &[0x5a; 5000]);
        let (code, said) = check(&world);
        assert!((0..=2).contains(&code), "{n}: {code} {said}");
        let output = world.run(&["attach", "v", "--via", "none"]);
        if !output.status.success() {
            not_attached(&world);
            assert_eq!(code, 2, "{n}: {said}");
            refused += 1;
            continue;
        }
        let mut client = world.client();
        let mut bad = 0;
        for (at, part) in (0..).step_by(4096).zip(data.chunks(4096)) {
            match client.read(at, 4096) {
                Ok(read) => assert_eq!(read, part, "{n}: at {at}"),
                Err(_) => bad += 1,
            }
        }
        assert_eq!(code == 2, bad > 0, "{n}: {bad} {said}");
        wrong += bad;
    }
    assert!(wrong > 0, "nothing was hit: {wrong} {refused}");
}

#[test]
fn dump_prints_every_structure_on_the_device() {
    let world = world();
    world.dirty(0, 1, 8192);
    world.attach();
    world.detach();
    world.dirty(0, 2, 8192);
    let text = world.ok(&["dump", "--data", "data.img", "--json"]);
    let kinds: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|item| item["kind"].as_str().unwrap().to_owned())
        .collect();
    for kind in ["superblock", "checkpoint", "segment", "record"] {
        assert!(kinds.iter().any(|is| is == kind), "{kind}: {text}");
    }
    let text = world.ok(&["dump", "v"]);
    for part in [
        "copy=A",
        "data of sectors 0 to 7, crc ",
        "segment opened in stream ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(['{', '(']), "{text}");
}

#[test]
fn a_log_structured_volume_refuses_cache_options_and_accepts_its_own() {
    let world = world();
    world
        .refused(&["attach", "v", "--via", "none", "--bypass", "64KiB"])
        .with(2, &["no `bypass`"]);
    world
        .refused(&["check", "v", "--salvage"])
        .with(3, &["not a write cache"]);
    CliSandbox::with_volume()
        .refused(&["attach", "v", "--via", "none", "--discard", "on"])
        .with(2, &["write cache", "no `discard`"]);
    world.ok(&["attach", "v", "--via", "none", "--ack", "device"]);
    world.client().write(MIB, &[6; 4096]).unwrap();
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [6; 4096]);
    world.detach();
}

#[test]
fn the_spare_share_can_be_set_at_create_is_shown_and_can_be_changed() {
    let world = CliSandbox::new();
    world.image("data.img", 256 * MIB);
    let args = ["create", "--volume", "vsl", "--name", "v"];
    let args = [&args[..], &["--data", "data.img", "--spare", "2/3"]].concat();
    world.refused(&args).with(2, &["--spare", "1/N"]);
    let len = |more: &[&str]| {
        create(
            &world,
            &[&["--force", "--placement", "hylog"], more].concat(),
        );
        let attached = ["attach", "v", "--via", "none"];
        world.ok(&attached);
        let said = status(&world);
        world.detach();
        let bytes = |key: &str| said[key].as_u64().unwrap();
        (bytes("mappable_bytes"), bytes("spare_bytes"))
    };
    let (usual, _) = len(&[]);
    let (most, spare) = len(&["--spare", "0.2%"]);
    let (half, more) = len(&["--spare", "1/2"]);
    assert!(most >= usual && usual > half, "{most} {usual} {half}");
    assert_eq!((spare, more), (255 * MIB / 500, 255 * MIB / 2));
    let noted = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    assert!(noted.contains("spare = \"1/2\""), "{noted}");
    world.ok(&["attach", "v", "--via", "none", "--spare", "1/4"]);
    assert_eq!(status(&world)["spare_bytes"], 255 * MIB / 4);
    world.detach();
    // The least share of a placement that only appends: with less free space, records would consume the gain of
    // cleaning.
    create(
        &world,
        &["--force", "--placement", "lfs", "--spare", "0.2%"],
    );
    world.attach();
    assert_eq!(status(&world)["spare_bytes"], 255 * MIB / 32);
    world.detach();
}

#[test]
fn unmapped_ranges_are_holes_for_nbd_clients() {
    if !installed("unmapped_ranges_are_holes_for_nbd_clients", &["nbdinfo"]) {
        return;
    }
    let world = world();
    world.attach();
    world.client().write(3 * MIB, &vec![1; 2 << 20]).unwrap();
    let socket = world.path("run/v.nbd.sock");
    let uri = format!("nbd+unix:///v?socket={}", socket.display());
    let map = tool("nbdinfo", &["--map", &uri]).expect("nbdinfo answers");
    let fields = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let extents: Vec<_> = map.lines().map(fields).collect();
    let (hole, data) = (extents[0].as_slice(), extents[1].as_slice());
    assert_eq!(hole, ["0", "3145728", "3", "hole,zero"], "{map}");
    assert_eq!(data, ["3145728", "2097152", "0", "data"], "{map}");
    assert_eq!(extents[2][3], "hole,zero", "{map}");
    world.detach();
}

#[test]
fn free_space_of_an_image_is_returned_if_discard_is_on() {
    let blocks = |discard: &str| {
        let world = CliSandbox::new();
        let path = world.image("data.img", 64 * MIB);
        create(&world, &["--placement", "lfs", "--discard", discard]);
        world.attach();
        let mut client = world.client();
        // The whole volume, several times over.
        for round in 0..4 {
            for at in 0..24 {
                client.write(at * MIB, &vec![round + 1; 1 << 20]).unwrap();
            }
            client.flush().unwrap();
            world.ok(&["drain", "v"]);
        }
        client.trim(0, 24 << 20).unwrap();
        client.flush().unwrap();
        drop(client);
        assert_eq!(status(&world)["discards"], discard == "on");
        world.ok(&["drain", "v"]);
        let used = || fs::metadata(&path).unwrap().blocks() * 512;
        if discard == "on" {
            wait_until("the room is given back", || used() < 16 * MIB);
        }
        world.detach();
        used()
    };
    assert!(blocks("on") < 16 * MIB);
    assert!(blocks("off") > 32 * MIB);
}
