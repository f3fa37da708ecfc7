//! Devices that became longer, under attached and detached volumes.
//!
//! Found in review: an extended data device could no longer be attached, and the suggested remedy destroyed the data in
//! the log.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::system::{TestMount, can_serve_loop, installed, tool};
use crate::world::{CliSandbox, MIB, texts};

fn set_len(world: &CliSandbox, name: &str, len: u64) {
    let file = File::options().write(true).open(world.path(name));
    file.unwrap().set_len(len).unwrap();
}

/// Returns the exit code and the output of a check.
fn check(world: &CliSandbox, args: &[&str]) -> (i32, String) {
    let output = world.run(&[&["check"], args].concat());
    let (out, err) = texts(&output);
    (output.status.code().unwrap_or(-1), out + &err)
}

#[test]
fn a_cached_device_that_grew_while_detached_is_attached_with_its_new_length() {
    for dirty in [false, true] {
        let world = CliSandbox::with_volume();
        if dirty {
            world.dirty(8 * MIB, 3, 4096);
        }
        set_len(&world, "data.img", 96 * MIB);
        let (code, said) = check(&world, &["v"]);
        assert_eq!(code, i32::from(dirty), "{said}");
        assert!(
            said.contains("96MiB long, 32MiB longer") && !said.contains("DAMAGED"),
            "{said}"
        );
        world.attach();
        {
            let mut client = world.client();
            assert_eq!(client.len(), 96 * MIB);
            client.write(96 * MIB - 4096, &[5; 4096]).unwrap();
            let kept = if dirty { [3; 4096] } else { [0; 4096] };
            assert_eq!(client.read(8 * MIB, 4096).unwrap(), kept);
        }
        world.detach();
        assert_eq!(world.peek("data.img", 96 * MIB - 4096, 4096), [5; 4096]);
        let (code, said) = check(&world, &["v"]);
        assert!(code == 0 && !said.contains("longer"), "{said}");
    }
}

#[test]
fn a_detached_volume_of_a_grown_device_can_be_resized_and_removed() {
    let world = CliSandbox::with_volume();
    world.dirty(8 * MIB, 3, 4096);
    set_len(&world, "data.img", 96 * MIB);
    let output = world.run(&["resize", "v"]);
    let (out, said) = texts(&output);
    assert!(output.status.success(), "{said}");
    assert!(out.contains("v has 96MiB"), "{out}");
    assert!(said.contains("96MiB instead of 64MiB"), "{said}");
    set_len(&world, "data.img", 128 * MIB);
    world.ok(&["remove", "v"]);
    assert_eq!(world.peek("data.img", 8 * MIB, 4096), [3; 4096]);
}

#[test]
fn a_device_that_shrank_is_refused_with_a_remedy_with_a_clean_or_dirty_log() {
    for (dirty, remedy) in [
        (false, "forebay remove"),
        (true, "nothing in the log is lost"),
    ] {
        let world = CliSandbox::with_volume();
        if dirty {
            world.dirty(8 * MIB, 3, 4096);
        }
        set_len(&world, "data.img", 32 * MIB);
        let refused = world.refused(&["attach", "v", "--via", "none"]);
        refused.with(4, &["32MiB", "64MiB", "shrank", remedy]);
        // The remedy works: with the length restored, and with the former data at the end.
        set_len(&world, "data.img", 64 * MIB);
        world.poke("data.img", 64 * MIB - 100, &[7; 100]);
        world.attach();
        let kept = if dirty { [3; 4096] } else { [0; 4096] };
        assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), kept);
    }
}

#[test]
fn resize_extends_an_attached_volume_and_nbd_clients_see_it_after_a_reconnect() {
    let world = CliSandbox::with_volume();
    world.attach();
    let mut before = world.client();
    before.write(0, &[1; 4096]).unwrap();
    set_len(&world, "data.img", 96 * MIB);
    assert_eq!(world.client().len(), 64 * MIB);
    assert!(
        world
            .ok(&["resize", "v"])
            .contains("96MiB now, 64MiB before")
    );
    let status: serde_json::Value =
        serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap();
    assert_eq!(status["len"], 96 * MIB);
    {
        let mut client = world.client();
        assert_eq!(client.len(), 96 * MIB);
        client.write(96 * MIB - 4096, &[5; 4096]).unwrap();
        client.flush().unwrap();
    }
    assert_eq!(before.read(0, 4096).unwrap(), [1; 4096]);
    assert!(world.ok(&["resize", "v"]).contains("v has 96MiB"));
    // After a kill, the data written beyond the old end is only in the log.
    world.kill("v");
    world.attach();
    assert_eq!(
        world.client().read(96 * MIB - 4096, 4096).unwrap(),
        [5; 4096]
    );
    let sized = world.run(&["resize", "v", "--size", "1GiB"]);
    crate::world::failed(&[], &sized).with(2, &["--size"]);
}

#[test]
fn a_mounted_filesystem_can_be_extended_when_the_data_device_below_grew() {
    let test = "a_mounted_filesystem_can_be_extended_when_the_data_device_below_grew";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4", "e2fsck", "resize2fs"]) {
        return;
    }
    let world = CliSandbox::with_volume();
    let device = world.attach_loop();
    tool("mkfs.ext4", &["-q", "-F", &device]).expect("a filesystem");
    let mount = TestMount::new(&device, &world.path("mnt"), "rw").expect("it mounts");
    fs::write(world.path("mnt/file"), "kept").unwrap();
    set_len(&world, "data.img", 96 * MIB);
    world.ok(&["resize", "v"]);
    let name = Path::new(&device).file_name().unwrap().to_str().unwrap();
    let sectors = fs::read_to_string(format!("/sys/block/{name}/size")).unwrap();
    assert_eq!(sectors.trim(), (96 * MIB / 512).to_string());
    fs::write(world.path("mnt/file2"), "kept too").unwrap();
    drop(mount);
    // Not while it is mounted: containers lack the permission.
    tool("e2fsck", &["-f", "-p", &device]).expect("it is sound");
    tool("resize2fs", &[&device]).expect("it takes the new length");
    let mount = TestMount::new(&device, &world.path("mnt"), "rw").expect("it mounts");
    fs::write(world.path("mnt/large"), vec![7; 70 << 20]).expect("there is room for it now");
    assert_eq!(fs::read(world.path("mnt/file2")).unwrap(), b"kept too");
    drop(mount);
    world.detach();
    // The data device alone is the volume.
    let mut magic = [0; 2];
    let data = File::open(world.path("data.img")).unwrap();
    data.read_exact_at(&mut magic, 1024 + 56).unwrap();
    assert_eq!(magic, [0x53, 0xef]);
    let image = world.path("data.img").display().to_string();
    tool("fsck.ext4", &["-f", "-n", &image]).expect("it is sound");
}

/// Returns a world with a volume `v` of that kind on `data.img` of 64 MiB.
fn space(kind: &str) -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    let args = [
        "create",
        "--volume",
        kind,
        "--name",
        "v",
        "--data",
        "data.img",
        "--placement",
        "lfs",
    ];
    world.ok(&args);
    world
}

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

#[test]
fn a_log_structured_volume_uses_the_space_of_a_longer_device_attached_or_detached() {
    let world = space("vsl");
    world.attach();
    let before = status(&world);
    world.client().write(8 * MIB, &[3; 4096]).unwrap();
    set_len(&world, "data.img", 128 * MIB);
    let said = world.ok(&["resize", "v"]);
    assert!(said.contains("now") && said.contains("before"), "{said}");
    let now = status(&world);
    assert!(now["len"].as_u64() > before["len"].as_u64().map(|len| len + 40 * MIB));
    let mapped = |status: &serde_json::Value| status["mappable_bytes"].as_u64().unwrap();
    assert!(mapped(&now) > mapped(&before) + 40 * MIB);
    let len = now["len"].as_u64().unwrap();
    {
        let mut client = world.client();
        assert_eq!(client.len(), len);
        client.write(len - 4096, &[5; 4096]).unwrap();
        client.flush().unwrap();
    }
    world.kill("v");
    // Not attached, and to a length of its own.
    set_len(&world, "data.img", 192 * MIB);
    let (code, said) = check(&world, &["v"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("64MiB at its end are unused") && said.contains("forebay resize"));
    world.ok(&["resize", "v", "--size", "1GiB"]);
    let (code, said) = check(&world, &["v"]);
    assert!(
        code == 0 && said.contains("1GiB long") && !said.contains("unused"),
        "{said}"
    );
    let smaller = world.run(&["resize", "v", "--size", "512MiB"]);
    crate::world::failed(&[], &smaller).with(2, &["1GiB", "shorter"]);
    world.attach();
    let mut client = world.client();
    assert_eq!(client.len(), 1 << 30);
    assert_eq!(client.read(8 * MIB, 4096).unwrap(), [3; 4096]);
    assert_eq!(client.read(len - 4096, 4096).unwrap(), [5; 4096]);
}

#[test]
fn a_filesystem_uses_the_space_of_a_longer_device_mounted_or_unmounted() {
    let test = "a_filesystem_uses_the_space_of_a_longer_device_mounted_or_unmounted";
    let world = space("fs");
    set_len(&world, "data.img", 96 * MIB);
    let (code, said) = check(&world, &["v"]);
    assert!(
        code == 0 && said.contains("32MiB at its end are unused"),
        "{said}"
    );
    let said = world.ok(&["resize", "v"]);
    assert!(said.contains("before"), "{said}");
    assert!(!check(&world, &["v"]).1.contains("unused"));
    if !can_serve_loop(test) {
        return;
    }
    fs::create_dir(world.path("mnt")).unwrap();
    world.ok(&["mount", "v", "mnt"]);
    fs::write(world.path("mnt/file"), "kept").unwrap();
    set_len(&world, "data.img", 192 * MIB);
    world.ok(&["resize", "v"]);
    fs::write(world.path("mnt/large"), vec![7; 120 << 20]).expect("there is room for it now");
    assert_eq!(fs::read(world.path("mnt/file")).unwrap(), b"kept");
    world.unmount("v");
    assert_eq!(check(&world, &["v"]).0, 0);
}

#[test]
fn a_cache_over_a_log_structured_volume_grows_with_the_volume() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    world.ok(&[
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img", "--log", "log.img",
    ]);
    world.attach();
    let before = world.client().len();
    world.client().write(0, &[3; 4096]).unwrap();
    set_len(&world, "data.img", 128 * MIB);
    world.ok(&["resize", "v"]);
    let len = world.client().len();
    assert!(len > before + 40 * MIB, "{before} {len}");
    {
        let mut client = world.client();
        client.write(len - 4096, &[5; 4096]).unwrap();
        client.flush().unwrap();
    }
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(len - 4096, 4096).unwrap(), [5; 4096]);
    assert_eq!(world.client().read(0, 4096).unwrap(), [3; 4096]);
}
