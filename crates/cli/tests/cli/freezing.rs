//! `forebay freeze` and `forebay thaw`: copies of the devices of volumes in use.

use std::fs;
use std::time::{Duration, Instant};

use forebay_nbd::client::BlockingNbdClient;

use crate::files;
use crate::world::{CliSandbox, MIB, wait_until};
use crate::writer::{RunningWriter, content};

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

#[test]
fn a_copy_of_the_data_device_under_a_running_writer_is_the_volume_without_its_log() {
    let world = CliSandbox::with_volume();
    world.attach();
    let writer = RunningWriter::start(&world);
    let said = world.ok(&["freeze", "v", "--timeout", "50s"]);
    assert!(said.starts_with("v is frozen"), "{said}");
    let copy = world.content("data.img");
    let written = writer.written();
    let (volume, now) = (content(world.client()), status(&world));
    assert!(now["freeze_left_s"].as_f64().unwrap() > 1.0, "{now}");
    assert_eq!(
        (&now["held_writes"], &now["dirty_bytes"]),
        (&1.into(), &0.into())
    );
    world.client().flush().unwrap();
    for command in [&["freeze", "v"][..], &["resize", "v"], &["drain", "v"]] {
        let refused = world.refused(command);
        refused.with(4, &["v is frozen for", "forebay thaw v"]);
    }
    // sleeps: a write that is not held back needs time to arrive
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(writer.written(), written, "a write was not held back");
    assert!(world.content("data.img") == copy, "the device changed");
    assert!(copy[..volume.len()] == volume, "the copy is not the volume");
    assert!(world.ok(&["status", "v"]).contains("1 requests wait"));
    assert_eq!(world.ok(&["thaw", "v"]), "v is thawed\n");
    writer.wait_for_more(100);
    world.refused(&["thaw", "v"]).with(4, &["v is not frozen"]);
    writer.end();
    assert_eq!(status(&world)["held_writes"], 0);
}

#[test]
fn a_copy_of_a_frozen_log_structured_volume_is_attached_elsewhere() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    let create = [
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
    ];
    world.ok(&create);
    world.attach();
    let writer = RunningWriter::start(&world);
    world.ok(&["freeze", "v"]);
    let copy = world.content("data.img");
    let volume = content(world.client());
    // sleeps: background work, such as the note of a durable record after a second, needs time to change the device
    std::thread::sleep(Duration::from_millis(1500));
    assert!(world.content("data.img") == copy, "the device changed");
    world.ok(&["thaw", "v"]);
    writer.wait_for_more(100);
    writer.end();
    let other = CliSandbox::new();
    fs::write(other.path("data.img"), &copy).unwrap();
    other.ok(&["attach", "--data", "data.img", "--via", "none"]);
    let name = other.ok(&["list"]);
    let name = name.lines().nth(1).unwrap().split(' ').next().unwrap();
    let socket = other.path("run").join(format!("{name}.nbd.sock"));
    let copied = BlockingNbdClient::connect(&socket, name).unwrap();
    assert!(content(copied) == volume, "the copy is not the volume");
}

#[test]
fn a_forgotten_freeze_ends_at_its_time_limit() {
    let world = CliSandbox::with_volume();
    world.attach();
    let writer = RunningWriter::start(&world);
    let begun = Instant::now();
    world.ok(&["freeze", "v", "--timeout", "1s"]);
    // The client has exited; only the time limit ends the freeze.
    writer.wait_for_more(100);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let refused = world.refused(&["thaw", "v"]);
    refused.with(4, &["v is not frozen", "discard a copy made meanwhile"]);
    writer.end();
    let refused = world.refused(&["freeze", "v", "--timeout", "2h"]);
    refused.with(2, &["cannot freeze v", "1 h"]);
}

#[test]
fn a_detach_thaws_a_frozen_volume() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.ok(&["freeze", "v"]);
    let mut client = world.client();
    let waiting = std::thread::spawn(move || client.write(0, &[9; 4096]));
    wait_until("the write waits", || status(&world)["held_writes"] == 1);
    let pid = world.pid("v").unwrap();
    crate::world::signal(pid, "TERM");
    waiting.join().unwrap().unwrap();
    crate::world::wait_for_end(pid);
    world.attach();
    world.ok(&["freeze", "v"]);
    world.detach();
    assert_eq!(world.peek("data.img", 0, 4096), [9; 4096]);
}

#[test]
fn a_copy_of_a_frozen_filesystem_is_clean_and_has_all_files() {
    let Some(world) = files::world("a_copy_of_a_frozen_filesystem_is_clean_and_has_all_files")
    else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt");
    fs::write(dir.join("before"), vec![7; 100_000]).unwrap();
    world.ok(&["freeze", "f"]);
    let writing = {
        let file = dir.join("during");
        std::thread::spawn(move || fs::write(file, [8; 5000]))
    };
    wait_until("the write waits", || {
        files::status(&world)["held_writes"] == 1
    });
    assert_eq!(fs::read(dir.join("before")).unwrap(), vec![7; 100_000]);
    fs::File::open(dir.join("before"))
        .unwrap()
        .sync_all()
        .unwrap();
    let copy = world.content("disk.img");
    // sleeps: longer than the interval at which a filesystem makes all changes durable
    std::thread::sleep(Duration::from_secs(6));
    assert!(world.content("disk.img") == copy, "the device changed");
    world.ok(&["thaw", "f"]);
    writing.join().unwrap().unwrap();
    assert_eq!(fs::read(dir.join("during")).unwrap(), [8; 5000]);
    world.unmount("mnt");
    fs::write(world.path("disk.img"), &copy).unwrap();
    assert_eq!(files::check(&world).0, 0);
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(fs::read(dir.join("before")).unwrap(), vec![7; 100_000]);
    assert!(!dir.join("during").exists());
    world.unmount("mnt");
}
