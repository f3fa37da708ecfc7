//! `forebay scrub`: reads all data of an attached volume, and finds damage while the volume is in use.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::world::{CliSandbox, MIB, failed, texts, wait_until};

/// Bytes that appear nowhere else in an image.
const PATTERN: [u8; 4096] = [0xb7; 4096];
/// Place of the pattern in the volume, in bytes.
const AT: u64 = 3 * MIB;

/// Returns a world with the attached volume `v` that has `mib` MiB of data, and the pattern in it. Nothing of the data is
/// in the memory of the daemon.
fn world(mib: u64) -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.ok(&[
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
    ]);
    world.attach();
    fill(&world, mib);
    world.detach();
    world.attach();
    world
}

fn fill(world: &CliSandbox, mib: u64) {
    let mut client = world.client();
    for n in 0..mib * 16 {
        client.write(n * 65536, &[n as u8 | 1; 65536]).unwrap();
    }
    client.write(AT, &PATTERN).unwrap();
    client.flush().unwrap();
}

/// Changes a byte of the pattern in an image.
fn damage(world: &CliSandbox, image: &str) {
    let content = world.content(image);
    let found = content
        .chunks(512)
        .position(|sector| sector == &PATTERN[..512]);
    let at = found.expect("the pattern is in the image") as u64 * 512;
    world.poke(image, at + 7, &[0]);
}

fn json(world: &CliSandbox, args: &[&str]) -> serde_json::Value {
    let output = world.run(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{:?}", texts(&output)))
}

fn phase(world: &CliSandbox) -> String {
    let status = json(world, &["status", "v", "--json"]);
    status["scrub"].as_str().unwrap().to_owned()
}

#[test]
fn a_scrub_of_a_healthy_volume_reads_everything_and_its_result_stays_in_the_status() {
    let world = world(8);
    assert_eq!(phase(&world), "never");
    let said = world.ok(&["scrub", "v", "--rate", "0", "--wait"]);
    assert!(said.contains("v: scrub finished: "), "{said}");
    assert!(said.contains("no fault found"), "{said}");
    let status = json(&world, &["status", "v", "--json"]);
    assert_eq!(status["scrub"], "finished");
    assert!(
        status["scrub_checked_bytes"].as_u64() >= Some(8 * MIB),
        "{status}"
    );
    assert_eq!(status["scrub_done_bytes"], status["scrub_total_bytes"]);
    assert!(
        status["scrub_finished_timestamp_s"].as_f64() > Some(1e9),
        "{status}"
    );
    assert_eq!(status["health"], "ok");
    let text = world.ok(&["status", "v"]);
    assert!(text.contains("scrub     finished"), "{text}");
    world.detach();
    world
        .refused(&["scrub", "v"])
        .with(3, &["not attached", "forebay attach v"]);
    // The result stays with the volume, and goes with it.
    world.attach();
    let again = json(&world, &["status", "v", "--json"]);
    assert_eq!(again["scrub"], "finished");
    assert_eq!(
        again["scrub_finished_timestamp_s"],
        status["scrub_finished_timestamp_s"]
    );
    world.detach();
    let records = || std::fs::read_dir(world.path("state")).map_or(0, Iterator::count);
    assert_eq!(records(), 1);
    world.ok(&["remove", "v", "--force"]);
    assert_eq!(records(), 0);
}

#[test]
fn damage_that_a_scrub_found_is_known_after_the_next_attach() {
    let world = world(8);
    damage(&world, "data.img");
    let output = world.run(&["scrub", "v", "--wait"]);
    assert_eq!(output.status.code(), Some(2), "{:?}", texts(&output));
    world.detach();
    world.attach();
    assert_eq!(
        json(&world, &["status", "v", "--json"])["health"],
        "damaged"
    );
    world.detach();
}

#[test]
fn a_scrub_finds_a_damaged_byte_of_a_volume_with_its_range() {
    let world = world(8);
    damage(&world, "data.img");
    let output = world.run(&["scrub", "v", "--wait", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{:?}", texts(&output));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["scrub_damaged_ranges"], 1, "{result}");
    assert_eq!(result["scrub_unreadable_ranges"], 0, "{result}");
    let range = &result["scrub_damage"][0];
    assert_eq!(range["area"], "data");
    let (first, sectors) = (
        range["sector"].as_u64().unwrap(),
        range["sectors"].as_u64().unwrap(),
    );
    assert!((first..first + sectors).contains(&(AT / 512)), "{range}");
    assert!(sectors <= 2048, "{range}");
    let status = json(&world, &["status", "v", "--json"]);
    assert_eq!(status["health"], "damaged");
    let text = world.ok(&["status", "v"]);
    assert!(text.contains("DAMAGE    data: "), "{text}");
    // New data repairs the range, and the next scrub forgets the damage.
    let mut client = world.client();
    let start = first * 512;
    client
        .write(start, &vec![1; sectors as usize * 512])
        .unwrap();
    client.flush().unwrap();
    drop(client);
    world.ok(&["scrub", "v", "--wait"]);
    assert_eq!(json(&world, &["status", "v", "--json"])["health"], "ok");
    world.detach();
}

#[test]
fn a_scrub_finds_damage_in_the_log_of_a_cache_and_reads_the_data_device() {
    let world = CliSandbox::with_volume();
    world.attach();
    let said = world.ok(&["scrub", "v", "--rate", "0", "--wait"]);
    assert!(said.contains("read without checksums"), "{said}");
    fill(&world, 4);
    world.kill("v");
    world.attach();
    // Destaging may read the data first. Then the scrub finds the recorded loss.
    damage(&world, "log.img");
    let output = world.run(&["scrub", "v", "--rate", "0", "--wait", "--json"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_home = world.peek("data.img", AT, 4096) == PATTERN;
    if is_home {
        // The data was destaged before the damage.
        assert_eq!(output.status.code(), Some(0), "{result}");
    } else {
        assert_eq!(output.status.code(), Some(2), "{result}");
        assert_eq!(result["scrub_damage"][0]["area"], "log", "{result}");
        assert_eq!(result["scrub_damage"][0]["sector"], AT / 512, "{result}");
    }
    world.kill("v");
}

#[test]
fn a_scrub_stops_on_command_and_at_a_detach() {
    let world = world(8);
    let said = world.ok(&["scrub", "v", "--rate", "64KiB"]);
    assert!(said.contains("v: scrub running"), "{said}");
    assert_eq!(phase(&world), "running");
    world.ok(&["scrub", "v", "--stop"]);
    wait_until("the scrub stops", || phase(&world) == "stopped");
    let args = ["scrub", "v", "--rate", "64KiB", "--wait"];
    let mut waiting = world.command(&args);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = waiting.spawn().unwrap();
    wait_until("the scrub runs", || phase(&world) == "running");
    let began = std::time::Instant::now();
    world.detach();
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let output = waiting.wait_with_output().unwrap();
    failed(&args, &output).with(1, &["did not end", "start it again"]);
}

#[test]
fn the_rate_of_a_running_scrub_can_be_changed() {
    let world = world(8);
    world.ok(&["scrub", "v", "--rate", "64KiB"]);
    let said = world.ok(&["scrub", "v", "--rate", "0", "--wait"]);
    assert!(said.contains("finished"), "{said}");
    world.detach();
}

#[test]
fn a_scrub_of_a_nearly_full_volume_beside_writers_ends_and_finds_no_fault() {
    let world = world(8);
    let status = json(&world, &["status", "v", "--json"]);
    let len = status["len"].as_u64().unwrap();
    let mib = len / MIB * 9 / 10;
    assert!(mib >= 16, "{status}");
    fill(&world, mib);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = world.client();
            let mut n = 1u64;
            while !done.load(Ordering::Relaxed) {
                let block = n.wrapping_mul(7919) % (mib * 256);
                client.write(block * 4096, &[n as u8 | 1; 4096]).unwrap();
                n += 1;
            }
            n
        });
        let output = world.run(&["scrub", "v", "--rate", "0", "--wait"]);
        done.store(true, Ordering::Relaxed);
        assert!(output.status.success(), "{:?}", texts(&output));
        assert!(writer.join().unwrap() > 10);
    });
    world.detach();
}

#[test]
fn a_scrub_of_a_span_reads_both_devices() {
    let world = CliSandbox::new();
    world.image("a.img", 8 * MIB);
    world.image("b.img", 8 * MIB);
    world.ok(&[
        "create", "--volume", "span", "--name", "v", "--data", "a.img", "--second", "b.img",
    ]);
    world.attach();
    world.ok(&["scrub", "v", "--wait"]);
    world.poke("b.img", 100, &[9]);
    let output = world.run(&["scrub", "v", "--wait"]);
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{out}");
    assert!(
        out.contains("DAMAGE superblock: 8 sectors from sector 0 on"),
        "{out}"
    );
    world.detach();
}
