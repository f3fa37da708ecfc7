//! A volume with a filesystem stops in other ways than by a crash, and beside another volume.

use std::fs;

use crate::kinds::{BTRFS, EXT4, FilesystemType, XFS};
use crate::system::TestLoop;
use crate::world::{CliSandbox, failed, signal, wait_for_end};
use forebay_scratch::tree::{GeneratedTree, digests};

fn create(world: &CliSandbox, name: &str, kind: &FilesystemType) {
    let (data, log) = (format!("{name}.img"), format!("{name}.log.img"));
    world.image(&data, kind.data_bytes);
    let create = ["create", "--name", name, "--data", &data, "--log", &log];
    world.ok(&[&create[..], &["--log-size", "40MiB"]].concat());
}

#[test]
fn a_filesystem_is_complete_after_sigterm_with_dirty_data() {
    if !XFS.can_test("a_filesystem_is_complete_after_sigterm_with_dirty_data") {
        return;
    }
    let world = CliSandbox::new();
    create(&world, "v", &XFS);
    let at = world.path("mnt");
    let device = world.attach_loop();
    XFS.make(&device);
    let mount = XFS.mount(&device, &at);
    GeneratedTree::generate(3, 500)
        .unpack(&at.join("tree"))
        .unwrap();
    let expected = digests(&at).unwrap();
    mount.unmount().expect("it unmounts");
    let pid = world.pid("v").unwrap();
    signal(pid, "TERM");
    wait_for_end(pid);
    // The volume was dirty, and stopped cleanly: nothing to clear up, nothing lost.
    assert_eq!(world.run(&["check", "v"]).status.code(), Some(1));
    let device = world.attach_loop();
    let mount = XFS.mount(&device, &at);
    assert!(
        digests(&at).unwrap() == expected,
        "files are missing or changed"
    );
    mount.unmount().expect("it unmounts");
    XFS.check(&device);
    world.detach();
}

#[test]
fn a_detach_while_xfs_or_btrfs_is_mounted_is_refused_without_damage() {
    for kind in [&XFS, &BTRFS] {
        if !kind.can_test("a_detach_while_xfs_or_btrfs_is_mounted_is_refused_without_damage") {
            continue;
        }
        let world = CliSandbox::new();
        create(&world, "v", kind);
        let at = world.path("mnt");
        let device = world.attach_loop();
        kind.make(&device);
        let mount = kind.mount(&device, &at);
        fs::write(at.join("file"), "kept").unwrap();
        let refused = world.run(&["detach", "v"]);
        failed(&[], &refused).with(4, &[&device, "mounted on", "mnt", "unmount"]);
        fs::write(at.join("other"), "kept too").unwrap();
        mount.unmount().expect("it unmounts");
        kind.check(&device);
        world.detach();
        let alone = TestLoop::over(&world.path("v.img")).expect("a loop device");
        kind.check(&alone.0);
        let _mount = kind.mount(&alone.0, &at);
        assert_eq!(fs::read(at.join("file")).unwrap(), b"kept");
        assert_eq!(fs::read(at.join("other")).unwrap(), b"kept too");
    }
}

#[test]
fn a_crash_of_one_volume_does_not_affect_another() {
    let test = "a_crash_of_one_volume_does_not_affect_another";
    if !EXT4.can_test(test) {
        return;
    }
    let world = CliSandbox::new();
    let names = ["v", "w"];
    let attach = |name: &str| {
        world
            .ok(&["attach", name, "--via", "loop"])
            .trim()
            .to_owned()
    };
    let at = |name: &str| world.path(&format!("mnt.{name}"));
    let mut mounts = Vec::new();
    for name in names {
        create(&world, name, &EXT4);
        let device = attach(name);
        EXT4.make(&device);
        mounts.push(EXT4.mount(&device, &at(name)));
    }
    // Both at once, with the same paths and other contents.
    std::thread::scope(|scope| {
        for (seed, name) in (10..).zip(names) {
            let dir = at(name).join("tree");
            scope.spawn(move || GeneratedTree::generate(seed, 500).unpack(&dir).unwrap());
        }
    });
    let expected = names.map(|name| digests(&at(name)).unwrap());
    assert!(expected[0] != expected[1]);
    for mount in mounts.drain(..1) {
        rustix::fs::syncfs(fs::File::open(&mount.0).unwrap()).unwrap();
        world.kill("v");
        let _ = mount.unmount();
    }
    // The other volume goes on meanwhile.
    fs::write(at("w").join("file"), "not disturbed").unwrap();
    rustix::fs::syncfs(fs::File::open(at("w")).unwrap()).unwrap();
    let list = world.ok(&["list"]);
    assert!(list.contains("dead") && list.contains("attached"), "{list}");
    mounts.insert(0, EXT4.mount(&attach("v"), &at("v")));
    assert!(digests(&at("v")).unwrap() == expected[0]);
    fs::remove_file(at("w").join("file")).unwrap();
    assert!(digests(&at("w")).unwrap() == expected[1]);
    for mount in mounts {
        mount.unmount().expect("it unmounts");
    }
    for (name, expected) in names.iter().zip(&expected) {
        world.ok(&["detach", name]);
        let alone = TestLoop::over(&world.path(&format!("{name}.img"))).expect("a loop device");
        EXT4.check(&alone.0);
        let _mount = EXT4.mount(&alone.0, &at(name));
        assert!(digests(&at(name)).unwrap() == *expected, "{name}");
    }
}
