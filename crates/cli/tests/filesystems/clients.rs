//! Common NBD clients, on a volume with a log, across crashes of its daemon.
//!
//! The NBD server has its own tests over memory. These tests check that the answers to clients hold with everything
//! beneath.

use std::process::Command;

use forebay_rng::Rng;

use crate::system::{installed, try_tool};
use crate::world::{CliSandbox, MIB, output, texts};

/// The volume's length in bytes.
const LEN: u64 = 64 * MIB;

fn noise(world: &CliSandbox, name: &str, seed: u64) {
    let mut content = vec![0; LEN as usize];
    let numbers = Rng::new(seed);
    // Leave holes, so that clients ask for zeroes too.
    for piece in content.chunks_mut(1 << 20).step_by(2) {
        let bytes = numbers.bytes(piece.len());
        piece.copy_from_slice(&bytes);
    }
    std::fs::write(world.path(name), content).unwrap();
}

fn client(world: &CliSandbox, program: &str, args: &[&str]) -> String {
    let output = output(Command::new(program).current_dir(world.dir()).args(args)).unwrap();
    let (out, err) = texts(&output);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}\n{out}{err}",
        output.status
    );
    out + &err
}

#[test]
fn nbdcopy_reads_back_after_a_crash_the_data_it_copied_in() {
    let test = "nbdcopy_reads_back_after_a_crash_the_data_it_copied_in";
    if !installed(test, &["nbdcopy", "nbdinfo"]) {
        return;
    }
    let world = CliSandbox::with_volume();
    noise(&world, "source", 1);
    let uri = world.attach().trim().to_owned();
    let size = client(&world, "nbdinfo", &["--size", &uri]);
    assert_eq!(size.trim(), LEN.to_string());
    let can = client(&world, "nbdinfo", &[&uri]);
    for expected in [
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_zero: true",
    ] {
        assert!(can.contains(expected), "{can}");
    }
    client(&world, "nbdcopy", &["--flush", "source", &uri]);
    let places = client(
        &world,
        "nbdinfo",
        &["--map=forebay:place", "--totals", &uri],
    );
    assert!(!places.is_empty());
    world.kill("v");
    world.attach();
    client(&world, "nbdcopy", &[&uri, "target"]);
    assert!(
        world.content("source") == world.content("target"),
        "not what was copied there"
    );
    world.detach();
    assert!(
        world.content("source") == world.content("data.img"),
        "not what was copied there"
    );
}

#[test]
fn qemu_img_finds_a_volume_equal_to_the_converted_source_after_a_crash() {
    let test = "qemu_img_finds_a_volume_equal_to_the_converted_source_after_a_crash";
    if !installed(test, &["qemu-img"]) {
        return;
    }
    let world = CliSandbox::with_volume();
    noise(&world, "source", 2);
    let uri = world.attach().trim().to_owned();
    let formats = ["-n", "-f", "raw", "-O", "raw", "source", &uri];
    client(&world, "qemu-img", &[&["convert"], &formats[..]].concat());
    let compare = ["compare", "-f", "raw", "-F", "raw", "source"];
    let volume = [&compare[..], &[&uri]].concat();
    assert!(client(&world, "qemu-img", &volume).contains("identical"));
    world.client().flush().unwrap();
    world.kill("v");
    world.attach();
    assert!(client(&world, "qemu-img", &volume).contains("identical"));
    world.client().write(LEN - 512, &[1; 512]).unwrap();
    let args: Vec<&str> = volume.clone();
    let dir = world.dir().to_owned();
    let differs = output(Command::new("qemu-img").current_dir(dir).args(args)).unwrap();
    assert_eq!(differs.status.code(), Some(1), "{}", texts(&differs).0);
}

#[test]
fn fio_verifies_after_a_crash_the_data_it_wrote_and_flushed() {
    let test = "fio_verifies_after_a_crash_the_data_it_wrote_and_flushed";
    if !installed(test, &["fio"]) {
        return;
    }
    if !try_tool("fio", &["--enghelp"]).is_ok_and(|engines| engines.contains("nbd")) {
        return crate::world::skip(test, "this fio has no nbd engine");
    }
    let world = CliSandbox::with_volume();
    let uri = world.attach().trim().to_owned();
    let uri = format!("--uri={uri}");
    let job = [
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=4k-64k",
        "--size=64m",
        "--iodepth=16",
        "--randseed=11",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ];
    let run = |more: &[&str]| {
        let text = client(&world, "fio", &[&job[..], more].concat());
        assert!(text.contains("err= 0"), "{text}");
        text
    };
    run(&["--do_verify=0", "--end_fsync=1"]);
    world.client().flush().unwrap();
    world.kill("v");
    world.attach();
    let text = run(&["--verify_only"]);
    assert!(text.contains("READ:"), "nothing was verified: {text}");
    // Verify once more from the data device.
    world.ok(&["drain", "v"]);
    run(&["--verify_only"]);
}
