//! Emulated disks: any device can be given the timing of an old disk, and keeps its data.

use std::fs;

use crate::world::{CliSandbox, MIB};

const DISK: &str = "model:barracuda,cache=read,queue=sptf";

/// Returns a world with `data.img` and `log.img`, and no volume yet.
fn world() -> CliSandbox {
    let world = CliSandbox::new();
    world.data("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    world
}

fn args<'a>(data: &'a str, log: &'a str) -> [&'a str; 7] {
    ["create", "--name", "v", "--data", data, "--log", log]
}

#[test]
fn an_unknown_disk_model_is_refused_with_the_list_of_models() {
    let world = world();
    let failed = world.refused(&args("model:floppy:data.img", "log.img"));
    failed.with(
        2,
        &["--data", "floppy", "barracuda", "atlas10k", "dec_rz26"],
    );
    let failed = world.refused(&args("data.img", "model:barracuda,rpm=1:log.img"));
    failed.with(2, &["--log", "rpm=1", "cache=off|read|on|own", "queue="]);
    let failed = world.refused(&args("model:barracuda", "log.img"));
    failed.with(2, &["no path", "model:MODEL:PATH"]);
    let failed = world.refused(&["try", "--disk", "floppy"]);
    failed.with(2, &["--disk", "floppy", "barracuda"]);
}

#[test]
fn an_image_larger_than_the_emulated_disk_is_refused_with_both_sizes() {
    let world = world();
    // The images are compared byte by byte, so the large image is in another directory.
    fs::create_dir(world.path("large")).unwrap();
    world.image("large/data.img", 3 << 30);
    let failed = world.refused(&args("model:barracuda:large/data.img", "log.img"));
    failed.with(
        2,
        &[
            "large/data.img",
            "3GiB",
            "barracuda",
            "2104320000 bytes",
            "smaller",
        ],
    );
}

#[test]
fn the_error_for_a_missing_image_names_the_path_without_the_model() {
    let world = world();
    let failed = world.refused(&args("model:barracuda:nothing.img", "log.img"));
    failed.with(3, &["cannot open nothing.img", "does not exist"]);
}

#[test]
fn ranges_of_one_image_cannot_have_two_disk_models() {
    let world = world();
    let (log, data) = (
        "model:atlas10k:data.img@0+32MiB",
        "model:barracuda:data.img@32MiB+32MiB",
    );
    let failed = world.refused(&args(data, log));
    failed.with(2, &["atlas10k", "barracuda", "one disk"]);
    let overlap = "model:barracuda:data.img@16MiB+32MiB";
    let failed = world.refused(&args(data, overlap));
    failed.with(4, &["same device in part"]);
}

#[test]
fn a_volume_on_two_emulated_disks_passes_the_whole_life_cycle() {
    let world = world();
    let path = "a:b@c.img";
    fs::rename(world.path("data.img"), world.path(path)).unwrap();
    let (data, log) = (
        format!("{DISK}:{path}"),
        format!("{DISK},phase=0.5:log.img"),
    );
    world.ok(&args(&data, &log));
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    assert!(description.contains(&format!("{DISK}:/")), "{description}");
    world.dirty(8 * MIB, 3, 4096);
    let dirty = world.run(&["check", "v"]);
    assert_eq!(dirty.status.code(), Some(1));
    world.attach();
    world.ok(&["drain", "v"]);
    world.detach();
    assert_eq!(world.peek(path, 8 * MIB, 4096), [3; 4096]);
    world.ok(&["check", "--log", &log]);
    world.ok(&["remove", "v"]);
    assert!(!world.path("etc/v.toml").exists());
}

#[test]
fn a_log_and_its_data_can_be_ranges_of_one_emulated_disk() {
    let world = world();
    let log = format!("{DISK}:data.img@0+36MiB");
    let data = format!("{DISK}:data.img@36MiB+28MiB");
    world.ok(&args(&data, &log));
    world.dirty(MIB, 5, 4096);
    // The log records its data device without the model; together they form one emulated disk again.
    world.ok(&["attach", "--log", &log, "--via", "none"]);
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [5; 4096]);
    world.detach();
    assert_eq!(world.peek("data.img", 37 * MIB, 4096), [5; 4096]);
}

#[test]
fn a_volume_has_the_same_data_with_and_without_a_disk_model() {
    let world = world();
    world.ok(&args("data.img", "log.img"));
    world.dirty(8 * MIB, 3, 4096);
    // Without the configuration file, so that only identity and fingerprint match.
    fs::remove_file(world.path("etc/v.toml")).unwrap();
    let (log, data) = ("model:atlas10k:log.img", "model:barracuda:data.img");
    world.ok(&["attach", "--log", log, "--data", data, "--via", "none"]);
    assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), [3; 4096]);
    world.kill("v");
    world.ok(&["attach", "--log", "log.img", "--via", "none"]);
    assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), [3; 4096]);
    world.detach();
}
