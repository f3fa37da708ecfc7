//! Never the wrong pair: a log is not applied to another or a changed data device.

use std::fs::{self, File};

use crate::world::{CliSandbox, MIB};

fn attach(world: &CliSandbox) -> crate::world::RefusedCommand {
    world.refused(&["attach", "v", "--via", "none"])
}

#[test]
fn a_data_device_that_was_changed_without_its_dirty_log_is_refused() {
    for at in [1024, 64 << 10, 64 * MIB - 4096] {
        let world = CliSandbox::with_volume();
        world.dirty(8 * MIB, 3, 4096);
        world.poke("data.img", at, b"mounted elsewhere");
        attach(&world).with(4, &["data.img", "log.img", "--accept-changed"]);
        world.ok(&["attach", "v", "--via", "none", "--accept-changed"]);
        assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), [3; 4096]);
    }
}

#[test]
fn a_data_device_that_was_changed_while_the_log_was_clean_is_accepted() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.client().write(8 * MIB, &[3; 4096]).unwrap();
    world.ok(&["detach", "v"]);
    world.poke("data.img", 1024, b"mounted elsewhere");
    world.attach();
    assert_eq!(
        &world.client().read(0, 4096).unwrap()[1024..1041],
        b"mounted elsewhere"
    );
}

#[test]
fn a_data_device_of_another_size_is_refused() {
    let world = CliSandbox::with_volume();
    world.dirty(8 * MIB, 3, 4096);
    let file = File::options()
        .write(true)
        .open(world.path("data.img"))
        .unwrap();
    file.set_len(32 * MIB).unwrap();
    attach(&world).with(4, &["data.img", "32MiB", "64MiB"]);
}

#[test]
fn another_data_device_of_the_same_size_is_refused() {
    let world = CliSandbox::with_volume();
    world.dirty(8 * MIB, 3, 4096);
    fs::rename(world.path("data.img"), world.path("away.img")).unwrap();
    world.data("other.img", 64 * MIB);
    fs::rename(world.path("other.img"), world.path("data.img")).unwrap();
    attach(&world).with(4, &["data.img", "--accept-changed"]);
    // Back in its place, the data device is accepted.
    fs::rename(world.path("away.img"), world.path("data.img")).unwrap();
    world.attach();
    assert_eq!(world.client().read(8 * MIB, 4096).unwrap(), [3; 4096]);
}

#[test]
fn a_configuration_file_with_the_log_of_another_volume_is_refused() {
    let world = CliSandbox::with_volume();
    world.image("log2.img", 40 * MIB);
    world.data("data2.img", 64 * MIB);
    world.ok(&[
        "create",
        "--name",
        "w",
        "--data",
        "data2.img",
        "--log",
        "log2.img",
    ]);
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let swapped = description.replace("/log.img", "/log2.img");
    fs::write(world.path("etc/v.toml"), swapped).unwrap();
    attach(&world).with(4, &["log2.img", "named w", "correct the file"]);
}

#[test]
fn the_error_for_a_missing_data_device_names_its_path() {
    let world = CliSandbox::with_volume();
    fs::remove_file(world.path("data.img")).unwrap();
    attach(&world).with(3, &["data.img", "does not exist"]);
}
