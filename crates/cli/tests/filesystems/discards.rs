//! Space that a filesystem discards is freed in all layers: the image below gets its holes back.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay_rng::Rng;

use crate::system::{
    TestLoop, TestMount, can_serve_loop, installed, loop_over, root, tool, try_tool,
};
use crate::world::{CliSandbox, MIB, skip};

const LEN: u64 = 4 << 30;
const KEPT: usize = 8 << 20;
const DELETED: usize = 96 << 20;

/// Returns the allocated bytes of an image.
fn taken(path: &Path) -> u64 {
    File::open(path).unwrap().sync_all().unwrap();
    fs::metadata(path).unwrap().blocks() * 512
}

fn limit(device: &str, name: &str) -> u64 {
    let path = device.replace("/dev", "/sys/block") + "/queue/" + name;
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Returns the bytes that a new filesystem allocates in a plain image.
fn taken_by_mkfs(world: &CliSandbox) -> u64 {
    world.image("plain.img", LEN);
    let plain = TestLoop::over(&world.path("plain.img")).expect("a loop device");
    try_tool("mkfs.ext4", &["-q", &plain.0]).unwrap();
    drop(plain);
    taken(&world.path("plain.img"))
}

/// Makes a filesystem, fills it, discards most of it, and checks `image`: the data device, or the file below it.
fn use_and_delete(world: &CliSandbox, data: &str, image: &Path) {
    let create = ["create", "--name", "v", "--data", data, "--log", "log.img"];
    world.ok(&[&create[..], &["--log-size", "40MiB"]].concat());
    let device = world.attach_loop();
    assert!(limit(&device, "discard_max_bytes") > 0);
    try_tool("mkfs.ext4", &["-q", &device]).unwrap();
    world.ok(&["drain", "v"]);
    let (new, plain) = (taken(image), taken_by_mkfs(world));
    assert!(new <= plain + MIB, "mkfs took {new} bytes, plainly {plain}");

    let at = world.path("mnt");
    let mount = TestMount::new(&device, &at, "rw").expect("it mounts");
    let numbers = Rng::new(1);
    let kept = numbers.bytes(KEPT);
    fs::write(at.join("deleted"), numbers.bytes(DELETED)).unwrap();
    fs::write(at.join("kept"), &kept).unwrap();
    try_tool("sync", &["-f", at.to_str().unwrap()]).unwrap();
    world.ok(&["drain", "v"]);
    assert!(taken(image) >= new + (KEPT + DELETED) as u64);
    fs::remove_file(at.join("deleted")).unwrap();
    // Space that was freed in an uncommitted transaction is not trimmed.
    try_tool("sync", &["-f", at.to_str().unwrap()]).unwrap();
    try_tool("fstrim", &[at.to_str().unwrap()]).unwrap();
    try_tool("sync", &["-f", at.to_str().unwrap()]).unwrap();
    mount.unmount().expect("it unmounts");
    // The log holds the acknowledged discards; the next daemon carries them out.
    world.kill("v");
    let device = world.attach_loop();
    world.ok(&["drain", "v"]);
    let left = taken(image);
    let expected = new + KEPT as u64 + 4 * MIB;
    assert!(left <= expected, "{left} bytes are left of {expected}");
    let mount = TestMount::new(&device, &at, "ro").expect("it mounts");
    assert!(fs::read(at.join("kept")).unwrap() == kept);
    mount.unmount().expect("it unmounts");
    world.detach();
    let alone = world.path(data);
    try_tool("e2fsck", &["-f", "-n", alone.to_str().unwrap()]).expect("it is in order");
}

/// Found with a sparse image of 4 GiB, of which `mkfs.ext4` left 4.1 GiB allocated.
#[test]
fn a_sparse_image_stays_sparse_under_mkfs_and_after_fstrim() {
    let test = "a_sparse_image_stays_sparse_under_mkfs_and_after_fstrim";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4", "e2fsck", "fstrim"]) {
        return;
    }
    let world = CliSandbox::new();
    world.image("data.img", LEN);
    use_and_delete(&world, "data.img", &world.path("data.img"));
}

#[test]
fn mkfs_and_fstrim_unmap_ranges_of_a_block_device() {
    let test = "mkfs_and_fstrim_unmap_ranges_of_a_block_device";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4", "e2fsck", "fstrim"]) {
        return;
    }
    let world = CliSandbox::new();
    world.image("disk.img", LEN);
    let Some(disk) = loop_over(test, &world.path("disk.img")) else {
        return;
    };
    use_and_delete(&world, &disk.0, &world.path("disk.img"));
}

#[test]
fn a_data_device_without_discard_gets_no_discards_and_still_reads_zeroes() {
    let test = "a_data_device_without_discard_gets_no_discards_and_still_reads_zeroes";
    if !can_serve_loop(test) || !installed(test, &["blkdiscard"]) {
        return;
    }
    let world = CliSandbox::new();
    let at = world.path("ram");
    fs::create_dir(&at).unwrap();
    // A filesystem that cannot punch holes.
    let mounted = root().then(|| tool("mount", &["-t", "ramfs", "none", at.to_str().unwrap()]));
    if mounted.flatten().is_none() {
        return skip(test, "no ramfs");
    }
    let mount = TestMount(at.to_str().unwrap().to_owned());
    let before = vec![7; 32 * MIB as usize];
    fs::write(at.join("data.img"), &before).unwrap();
    let create = ["create", "--name", "v", "--data", "ram/data.img"];
    world.ok(&[&create[..], &["--log", "log.img", "--log-size", "40MiB"]].concat());
    let device = world.attach_loop();
    assert_eq!(limit(&device, "discard_max_bytes"), 0);
    let range = ["-o", "1MiB", "-l", "2MiB", &device];
    assert!(try_tool("blkdiscard", &range).is_err());
    try_tool("blkdiscard", &[&["--zeroout"], &range[..]].concat()).unwrap();
    world.detach();
    let mut expected = before;
    expected[MIB as usize..3 * MIB as usize].fill(0);
    assert!(world.content("ram/data.img") == expected);
    mount.unmount().expect("it unmounts");
}
