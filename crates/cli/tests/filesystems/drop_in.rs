//! An existing device becomes the data device, and is a plain device again afterwards.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use forebay_nbd::client::BlockingNbdClient;
use forebay_rng::Rng;

use crate::crash::seed;
use crate::kinds::EXT4;
use crate::system::{TestLoop, can_serve_loop, installed, try_tool};
use crate::world::{CliSandbox, MIB};
use forebay_scratch::tree::{GeneratedTree, digests};

#[test]
fn an_image_with_files_is_cached_and_complete_again_without_its_log() {
    if !EXT4.can_test("an_image_with_files_is_cached_and_complete_again_without_its_log") {
        return;
    }
    let world = CliSandbox::new();
    world.image("data.img", 128 * MIB);
    let at = world.path("mnt");
    {
        let device = TestLoop::over(&world.path("data.img")).expect("a loop device");
        EXT4.make(&device.0);
        let _mount = EXT4.mount(&device.0, &at);
        GeneratedTree::generate(1, 500)
            .unpack(&at.join("before"))
            .unwrap();
    }
    let before = world.content("data.img");
    world.ok(&[
        "create",
        "--data",
        "data.img",
        "--log",
        "log.img",
        "--log-size",
        "8MiB",
    ]
    .iter()
    .chain(&["--name", "v", "--segment", "128KiB"])
    .copied()
    .collect::<Vec<_>>());
    assert!(
        world.content("data.img") == before,
        "create changed the image"
    );

    let device = world.attach_loop();
    let mount = EXT4.mount(&device, &at);
    let expected = {
        let mut expected = digests(&at).unwrap();
        assert_eq!(expected.len(), 500);
        let paths: Vec<_> = expected.keys().cloned().collect();
        for path in paths.iter().step_by(10) {
            fs::remove_file(at.join(path)).unwrap();
            expected.remove(path);
        }
        for path in paths.iter().skip(1).step_by(10) {
            let mut file = File::options().write(true).open(at.join(path)).unwrap();
            file.write_all(b"changed").unwrap();
            file.seek(SeekFrom::End(0)).unwrap();
            file.write_all(&[3; 5000]).unwrap();
        }
        GeneratedTree::generate(2, 500)
            .unpack(&at.join("after"))
            .unwrap();
        let now = digests(&at).unwrap();
        for (path, digest) in &expected {
            let changed = paths.iter().skip(1).step_by(10).any(|other| other == path);
            assert_eq!(now[path] != *digest, changed, "{}", path.display());
        }
        now
    };
    mount.unmount().expect("it unmounts");
    world.ok(&["drain", "v"]);
    let volume = whole(&device);
    world.ok(&["detach", "v"]);

    assert!(
        world.content("data.img") == volume,
        "the image is not what the volume was"
    );
    let device = TestLoop::over(&world.path("data.img")).expect("a loop device");
    EXT4.check(&device.0);
    let _mount = EXT4.mount(&device.0, &at);
    assert!(
        digests(&at).unwrap() == expected,
        "the image has other files than the volume had"
    );
}

fn whole(device: &str) -> Vec<u8> {
    let mut content = Vec::new();
    File::open(device)
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    content
}

/// Writers to the block device, without a filesystem, which would add writes of its own.
struct BlockWriters {
    /// The expected content of the data device at the end.
    expected: Vec<u8>,
    numbers: Rng,
}

impl BlockWriters {
    fn range(&mut self, unit: u64, units_max: u64) -> (u64, Vec<u8>) {
        let len = unit * (1 + self.numbers.below(units_max));
        let at = unit
            * self
                .numbers
                .below((self.expected.len() as u64 - len) / unit);
        let bytes = self.numbers.bytes(len as usize);
        (at, bytes)
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let range = at as usize..at as usize + bytes.len();
        self.expected[range].copy_from_slice(bytes);
    }

    fn write_by_nbd(&mut self, client: &mut BlockingNbdClient, unit: u64) {
        let (at, bytes) = self.range(unit, (64 << 10) / unit);
        client.write(at, &bytes).unwrap();
        self.put(at, &bytes);
    }

    fn write_by_device(&mut self, device: &str) {
        let (at, bytes) = self.range(4096, 64);
        let file = File::options().write(true).open(device).unwrap();
        file.write_all_at(&bytes, at).unwrap();
        file.sync_all().unwrap();
        self.put(at, &bytes);
    }

    fn zero_by_device(&mut self, device: &str) {
        let (at, bytes) = self.range(4096, 32);
        let (offset, len) = (at.to_string(), bytes.len().to_string());
        try_tool(
            "blkdiscard",
            &["--zeroout", "-o", &offset, "-l", &len, device],
        )
        .unwrap();
        self.put(at, &vec![0; bytes.len()]);
    }

    fn discard_by_device(&mut self, device: &str) {
        let (at, bytes) = self.range(4096, 8);
        let (offset, len) = (at.to_string(), bytes.len().to_string());
        try_tool("blkdiscard", &["-o", &offset, "-l", &len, device]).unwrap();
        // The range becomes a hole in the file beneath the loop device, and reads as zeroes.
        self.put(at, &vec![0; bytes.len()]);
    }
}

#[test]
fn only_blocks_that_clients_wrote_change_on_the_data_device() {
    let test = "only_blocks_that_clients_wrote_change_on_the_data_device";
    if !can_serve_loop(test) || !installed(test, &["blkdiscard"]) {
        return;
    }
    let seed = seed(test);
    let numbers = Rng::new(seed);
    let world = CliSandbox::new();
    let expected = numbers.bytes(24 << 20);
    fs::write(world.path("data.img"), &expected).unwrap();
    let create = [
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    // So small that it wraps around several times.
    world.ok(&[&create[..], &["--log-size", "5MiB", "--segment", "128KiB"]].concat());
    let mut writers = BlockWriters { expected, numbers };
    for round in 0..4 {
        let device = world.attach_loop();
        let sectors = std::fs::read_to_string(
            device.replace("/dev", "/sys/block") + "/queue/logical_block_size",
        );
        let unit: u64 = sectors.unwrap().trim().parse().unwrap();
        {
            let mut client = world.client();
            for _ in 0..100 {
                match writers.numbers.below(20) {
                    0..14 => writers.write_by_nbd(&mut client, unit),
                    14..18 => writers.write_by_device(&device),
                    18 => writers.zero_by_device(&device),
                    _ => writers.discard_by_device(&device),
                }
            }
            client.flush().unwrap();
        }
        if round % 2 == 0 {
            world.kill("v");
        } else {
            world.ok(&["drain", "v"]);
            world.detach();
        }
    }
    let found = world.content("data.img");
    let wrong = (0..found.len()).find(|&at| found[at] != writers.expected[at]);
    assert_eq!(wrong, None, "seed {seed}: this byte is wrong");
}
