//! Removing volumes with missing or wiped devices.
//!
//! Found in review: no command removed a volume whose log or data device was gone or wiped.

use std::fs;

use crate::world::{CliSandbox, MIB};

#[test]
fn a_volume_with_an_empty_log_can_be_removed_without_its_data_device() {
    for shorter in [false, true] {
        let world = CliSandbox::with_volume();
        let gone = world.path("data.img");
        if shorter {
            fs::File::options()
                .write(true)
                .open(gone)
                .unwrap()
                .set_len(MIB)
                .unwrap();
        } else {
            fs::remove_file(gone).unwrap();
        }
        world.ok(&["remove", "v"]);
        assert!(!world.path("etc/v.toml").exists());
        assert!(world.peek("log.img", 0, 4096).iter().all(|byte| *byte == 0));
    }
}

/// Found by a user of the manual: a loop device without its file has the length 0, which was an error of its own.
#[test]
fn a_block_device_with_nothing_behind_it_counts_as_gone() {
    let world = CliSandbox::new();
    let node = world.path("gone");
    let path = node.to_str().unwrap();
    // The number of a loop device that no program uses: automatic choices begin at 0.
    if !crate::system::root() || crate::system::tool("mknod", &[path, "b", "7", "973"]).is_none() {
        let test = "a_block_device_with_nothing_behind_it_counts_as_gone";
        return crate::world::skip(test, "not root, or no device nodes");
    }
    fs::create_dir_all(world.path("etc")).unwrap();
    let file = format!("name = \"thin\"\nkind = \"vsl\"\ndata = \"{path}\"\n");
    fs::write(world.path("etc/thin.toml"), file).unwrap();
    let create = ["create", "--volume", "vsl", "--name", "w", "--data", path];
    for args in [&["remove", "thin"][..], &["check", "thin"], &create] {
        let failed = crate::world::failed(args, &world.run(args));
        assert!(!failed.said.contains("truncate"), "{}", failed.said);
    }
    let refused = world.refused(&["remove", "thin"]);
    refused.with(3, &["nothing behind it", "--force"]);
    let said = world.ok(&["remove", "thin", "--force"]);
    assert!(said.contains("removed the configuration file"), "{said}");
}

#[test]
fn a_dirty_log_of_a_missing_or_wiped_device_is_removed_only_with_force() {
    for wiped in [false, true] {
        let world = CliSandbox::with_volume();
        world.dirty(8 * MIB, 3, 4096);
        if wiped {
            drop(world.image("data.img", 64 * MIB));
        } else {
            fs::remove_file(world.path("data.img")).unwrap();
        }
        let code = if wiped { 4 } else { 3 };
        let refused = world.refused(&["remove", "v"]);
        refused.with(
            code,
            &[
                "data.img",
                "LOSE the data that exists only in its log",
                "log.img",
                "--force",
            ],
        );
        world.ok(&["remove", "v", "--force"]);
        assert!(!world.path("etc/v.toml").exists());
        assert!(world.peek("log.img", 0, 4096).iter().all(|byte| *byte == 0));
        if wiped {
            assert!(world.content("data.img").iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn a_configuration_file_without_its_own_log_is_removed_with_force() {
    for what in ["gone", "wiped", "another's"] {
        let world = CliSandbox::with_volume();
        match what {
            "gone" => fs::remove_file(world.path("log.img")).unwrap(),
            "wiped" => drop(world.image("log.img", 40 * MIB)),
            _ => {
                world.data("data2.img", 64 * MIB);
                let args = [
                    "create",
                    "--name",
                    "w",
                    "--data",
                    "data2.img",
                    "--log",
                    "log.img",
                    "--force",
                ];
                world.ok(&args);
            }
        }
        let refused = world.refused(&["remove", "v"]);
        refused.with(3, &["log.img", "configuration file", "--force"]);
        assert!(world.path("etc/v.toml").exists());
        world.ok(&["remove", "v", "--force"]);
        assert!(!world.path("etc/v.toml").exists(), "{what}");
        if what == "another's" {
            // The log of the other volume was left alone.
            world.ok(&["attach", "w", "--via", "none"]);
            world.ok(&["detach", "w"]);
        }
    }
}

#[test]
fn a_missing_or_wiped_log_structured_volume_is_removed_with_force() {
    for wiped in [false, true] {
        let world = CliSandbox::new();
        world.image("data.img", 64 * MIB);
        world.ok(&[
            "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
        ]);
        if wiped {
            drop(world.image("data.img", 64 * MIB));
        } else {
            fs::remove_file(world.path("data.img")).unwrap();
        }
        world
            .refused(&["remove", "v"])
            .with(3, &["data.img", "--force"]);
        world.ok(&["remove", "v", "--force"]);
        assert!(!world.path("etc/v.toml").exists());
    }
}
