//! Devices whose block size has changed since the volume was made. As root.

use std::fs;

use crate::system::{TestLoop, TestMount, loop_over, tool};
use crate::world::{CliSandbox, MIB, skip};

/// A loop device with sectors of 4096 bytes.
fn large_sectors(world: &CliSandbox, image: &str) -> Option<TestLoop> {
    let path = world.path(image);
    let args = [
        "--find",
        "--show",
        "--sector-size",
        "4096",
        path.to_str().unwrap(),
    ];
    tool("losetup", &args).map(TestLoop)
}

/// Writes and flushes single sectors, and leaves them in the log by killing the daemon.
fn leave_sectors(world: &CliSandbox, first: u8) {
    let mut client = world.client();
    for n in 0..20u8 {
        let data = [first + n; 512];
        client.write(u64::from(n) * 512 + MIB, &data).unwrap();
    }
    client.flush().unwrap();
    world.kill("v");
}

/// Checks the sectors that [`leave_sectors`] wrote, and the unchanged sectors around them.
fn see_sectors(seen: &[u8], first: u8) {
    for (n, sector) in seen.chunks(512).enumerate() {
        let expected = if n < 20 { first + n as u8 } else { 0 };
        assert!(sector.iter().all(|byte| *byte == expected), "sector {n}");
    }
}

/// Found in review: a kernel that asks for larger blocks than the previous kernel made a dirty log unattachable.
#[test]
fn a_dirty_log_is_recovered_on_disks_with_larger_sectors_than_before() {
    let test = "a_dirty_log_is_recovered_on_disks_with_larger_sectors_than_before";
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    let small = (
        loop_over(test, &world.path("data.img")),
        loop_over(test, &world.path("log.img")),
    );
    let (Some(data), Some(log)) = small else {
        return;
    };
    let attach = |data: &TestLoop, log: &TestLoop| {
        world.ok(&[
            "attach", "--data", &data.0, "--log", &log.0, "--via", "none",
        ]);
    };
    world.ok(&["create", "--name", "v", "--data", &data.0, "--log", &log.0]);
    attach(&data, &log);
    leave_sectors(&world, 1);
    drop((data, log));
    let large = |image| large_sectors(&world, image);
    let (Some(data), Some(log)) = (large("data.img"), large("log.img")) else {
        return skip(test, "no loop devices with large sectors");
    };
    let checked = world.run(&["check", "--data", &data.0, "--log", &log.0]);
    assert_eq!(checked.status.code(), Some(1), "dirty: {checked:?}");
    attach(&data, &log);
    see_sectors(&world.client().read(MIB, 16384).unwrap(), 1);
    leave_sectors(&world, 101);
    attach(&data, &log);
    see_sectors(&world.client().read(MIB, 16384).unwrap(), 101);
    world.ok(&["detach", "v"]);
    see_sectors(&world.peek("data.img", MIB, 16384), 101);
}

/// The same test with the direct I/O block size of a filesystem. In addition, the image ends within a large block.
#[test]
fn a_dirty_log_is_recovered_on_a_filesystem_with_larger_direct_io_blocks_than_before() {
    const LEN: u64 = 8 * MIB + 1536;
    let test = "a_dirty_log_is_recovered_on_a_filesystem_with_larger_direct_io_blocks_than_before";
    let world = CliSandbox::new();
    world.image("disk.img", 256 * MIB);
    if loop_over(test, &world.path("disk.img")).is_none() {
        return;
    }
    let Some(disk) = large_sectors(&world, "disk.img") else {
        return skip(test, "no loop devices with large sectors");
    };
    tool("mkfs.ext4", &["-q", &disk.0]).expect("mkfs.ext4 is installed");
    world.image("data.img", LEN);
    world.image("log.img", 40 * MIB);
    let create = [
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.ok(&create);
    world.attach();
    world.client().write(LEN - 512, &[9; 512]).unwrap();
    leave_sectors(&world, 1);
    let mount = TestMount::new(&disk.0, &world.path("mnt"), "rw").expect("it mounts");
    for image in ["data.img", "log.img"] {
        fs::copy(world.path(image), world.path("mnt").join(image)).unwrap();
    }
    let attach = || {
        let pair = ["--data", "mnt/data.img", "--log", "mnt/log.img"];
        world.ok(&[&["attach", "--via", "none"], &pair[..]].concat());
    };
    attach();
    see_sectors(&world.client().read(MIB, 16384).unwrap(), 1);
    assert_eq!(world.client().read(LEN - 512, 512).unwrap(), [9; 512]);
    world.client().write(LEN - 1024, &[8; 512]).unwrap();
    leave_sectors(&world, 101);
    attach();
    world.ok(&["detach", "v"]);
    see_sectors(&world.peek("mnt/data.img", MIB, 16384), 101);
    let end = world.peek("mnt/data.img", LEN - 1536, 1536);
    assert_eq!(end, [[0; 512], [8; 512], [9; 512]].concat());
    assert_eq!(fs::metadata(world.path("mnt/data.img")).unwrap().len(), LEN);
    drop(mount);
}
