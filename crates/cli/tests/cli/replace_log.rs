//! `forebay replace-log`: another log for attached and detached volumes.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::control::answer;
use crate::system::{TestMount, can_serve_loop, installed, loop_over, tool};
use crate::world::{CliSandbox, MIB, failed, wait_until};
use crate::writer::{RunningWriter, content};

fn status(world: &CliSandbox) -> serde_json::Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

/// Returns the configuration file of `v`.
fn config(world: &CliSandbox) -> String {
    fs::read_to_string(world.path("etc/v.toml")).unwrap()
}

#[test]
fn another_log_takes_over_under_a_running_writer_and_the_file_keeps_its_comments() {
    let world = CliSandbox::with_volume();
    let before = format!(
        "# of the administrator\n{}max-delay = \"20ms\"\n",
        config(&world)
    );
    fs::write(world.path("etc/v.toml"), &before).unwrap();
    world.attach();
    world.image("log2.img", 40 * MIB);
    let writer = RunningWriter::start(&world);
    let said = world.ok(&["replace-log", "v", "--log", "log2.img"]);
    let (old, new) = ("log.img", "log2.img");
    let paths = [old, new].map(|name| world.path(name).canonicalize().unwrap());
    let [old, new] = paths.map(|path| path.display().to_string());
    assert_eq!(said, format!("v has the log {new} now, {old} before\n"));
    writer.wait_for_more(100);
    let now = status(&world);
    assert_eq!(
        (&now["log"], &now["mode"]),
        (&new.as_str().into(), &"caching".into())
    );
    assert_eq!(config(&world), before.replace(&old, &new));
    // The former log is free.
    world
        .refused(&["check", "--log", "log.img"])
        .with(3, &["log.img"]);
    writer.end();
    let volume = content(world.client());
    world.client().flush().unwrap();
    world.kill("v");
    world.attach();
    assert!(content(world.client()) == volume, "flushed data is missing");
    // The first device becomes the log again, with records of the volume from its first use.
    let said = world.ok(&["replace-log", "v", "--log", "log.img"]);
    assert!(said.contains("log.img now"), "{said}");
    world.client().write(0, &[9; 4096]).unwrap();
    world.client().flush().unwrap();
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(0, 4096).unwrap(), [9; 4096]);
    world.detach();
}

#[test]
fn a_detached_volume_with_dirty_data_gets_another_log_in_a_new_file() {
    let world = CliSandbox::with_volume();
    world.dirty(5 * MIB, 7, 4096);
    let replace = [
        "replace-log",
        "v",
        "--log",
        "new.img",
        "--log-size",
        "20MiB",
        "--segment",
        "512KiB",
    ];
    let said = world.ok(&replace);
    assert!(said.contains("new.img now"), "{said}");
    assert_eq!(
        world.peek("data.img", 5 * MIB, 4096),
        [7; 4096],
        "the data device is complete"
    );
    let checked = world.ok(&["check", "v"]);
    assert!(checked.contains("clean"), "{checked}");
    world.attach();
    assert_eq!(world.client().read(5 * MIB, 4096).unwrap(), [7; 4096]);
    assert!(status(&world)["log_bytes"].as_u64().unwrap() < 20 * MIB);
    world.detach();
}

#[test]
fn a_device_in_use_or_with_content_and_a_volume_without_a_log_are_refused() {
    let world = CliSandbox::with_volume();
    world.attach();
    let refuses = |log: &str, code, parts: &[&str]| {
        let refused = world.refused(&["replace-log", "v", "--log", log]);
        refused.with(code, parts);
    };
    refuses("missing.img", 3, &["missing.img", "--log-size"]);
    refuses("data.img", 2, &["data device", "give another device"]);
    refuses("log.img", 2, &["log device", "give another device"]);
    world.image("short.img", 64 << 10);
    refuses("short.img", 2, &["short.img"]);
    let other = CliSandbox::with_volume_named("other");
    let foreign = other.path("log.img").display().to_string();
    refuses(&foreign, 4, &["the log of the Forebay volume", "--force"]);
    let made = ["replace-log", "v", "--log", "log.img", "--log-size", "9MiB"];
    world.refused(&made).with(4, &["exists already"]);
    assert_eq!(status(&world)["mode"], "caching");
    world.image("log2.img", 40 * MIB);
    world.ok(&["freeze", "v"]);
    refuses("log2.img", 4, &["v is frozen"]);
    world.ok(&["thaw", "v"]);
    let relative = answer(
        &world,
        b"{\"command\":\"replace-log\",\"log\":\"log2.img\"}\n",
    );
    let message = relative["message"].as_str().unwrap();
    assert!(message.contains("not an absolute path"), "{message}");
    world.ok(&["replace-log", "v", "--log", &foreign, "--force"]);
    world.detach();
    let spaces = CliSandbox::new();
    spaces.image("data.img", 64 * MIB);
    spaces.image("log.img", 40 * MIB);
    spaces.ok(&[
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img",
    ]);
    let refused = spaces.refused(&["replace-log", "v", "--log", "log.img"]);
    refused.with(2, &["has no log"]);
}

#[test]
fn a_volume_attached_by_its_devices_says_how_to_attach_it_with_the_new_log() {
    let world = CliSandbox::with_volume();
    fs::remove_file(world.path("etc/v.toml")).unwrap();
    world.ok(&["attach", "--log", "log.img", "--via", "none"]);
    world.image("log2.img", 40 * MIB);
    let mut replace = world.command(&["replace-log", "v", "--log", "log2.img"]);
    let output = replace.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("forebay adopt --log"),
        "{said}"
    );
    world.client().write(0, &[3; 4096]).unwrap();
    world.client().flush().unwrap();
    world.kill("v");
    world.ok(&["attach", "--log", "log2.img", "--via", "none"]);
    assert_eq!(world.client().read(0, 4096).unwrap(), [3; 4096]);
    world.detach();
}

#[test]
fn a_cache_over_a_log_structured_volume_gets_another_log() {
    let world = CliSandbox::new();
    world.image("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    world.image("log2.img", 40 * MIB);
    let create = [
        "create", "--volume", "vsl", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.ok(&create);
    world.attach();
    world.client().write(MIB, &[1; 4096]).unwrap();
    world.ok(&["replace-log", "v", "--log", "log2.img"]);
    world.client().write(2 * MIB, &[2; 4096]).unwrap();
    world.client().flush().unwrap();
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [1; 4096]);
    assert_eq!(world.client().read(2 * MIB, 4096).unwrap(), [2; 4096]);
    world.detach();
}

#[test]
fn a_log_on_the_volume_itself_is_refused_and_a_mounted_volume_gets_another() {
    let test = "a_log_on_the_volume_itself_is_refused_and_a_mounted_volume_gets_another";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4"]) {
        return;
    }
    let world = CliSandbox::with_volume();
    let device = world.attach_loop();
    tool("mkfs.ext4", &["-q", &device]).expect("a filesystem");
    fs::create_dir(world.path("mnt")).unwrap();
    let mount = TestMount::new(&device, &world.path("mnt"), "rw").expect("it mounts");
    let inside = [
        "replace-log",
        "v",
        "--log",
        "mnt/log.img",
        "--log-size",
        "35MiB",
    ];
    world
        .refused(&inside)
        .with(4, &["is on the volume v itself"]);
    world.image("log2.img", 40 * MIB);
    fs::write(world.path("mnt/before"), "before").unwrap();
    world.ok(&["replace-log", "v", "--log", "log2.img"]);
    fs::write(world.path("mnt/after"), "after").unwrap();
    drop(mount);
    let own = world.refused(&["replace-log", "v", "--log", &device]);
    own.with(4, &["is on the volume v itself"]);
    world.detach();
    world.attach_loop();
    let device = fs::canonicalize(world.path("dev/v")).unwrap();
    let device = device.display().to_string();
    let mount = TestMount::new(&device, &world.path("mnt"), "ro").expect("it mounts");
    assert_eq!(
        fs::read_to_string(world.path("mnt/before")).unwrap(),
        "before"
    );
    assert_eq!(
        fs::read_to_string(world.path("mnt/after")).unwrap(),
        "after"
    );
    drop(mount);
    world.detach();
}

#[test]
fn a_configuration_file_that_cannot_be_written_leaves_the_log_in_use() {
    let world = CliSandbox::with_volume();
    world.image("log2.img", 40 * MIB);
    let before = config(&world);
    let in_the_way = world.path("etc/.v.toml.new");
    fs::create_dir(&in_the_way).unwrap();
    let replace = ["replace-log", "v", "--log", "log2.img"];
    world.refused(&replace).with(5, &["cannot write", "v.toml"]);
    world.attach();
    world.refused(&replace).with(5, &["cannot write", "v.toml"]);
    assert_eq!(status(&world)["mode"], "caching");
    assert_eq!(config(&world), before);
    fs::remove_dir(in_the_way).unwrap();
    world.ok(&replace);
    assert_eq!(status(&world)["mode"], "caching");
    world.detach();
}

/// Attaches `v` with the log that its configuration file names, or with another one if that log is out of use.
fn attach_again(world: &CliSandbox) -> bool {
    let attached = world.run(&["attach", "v", "--via", "none"]);
    let is_attached = attached.status.success();
    if !is_attached {
        let args = ["attach", "v"];
        failed(&args, &attached).with(4, &["abandoned", "forebay replace-log"]);
        let id = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("volume = "));
            line.expect("an id").to_owned()
        };
        let before = config(world);
        world.ok(&["replace-log", "v", "--log", "log2.img", "--force"]);
        assert_eq!(id(&config(world)), id(&before));
        world.attach();
    }
    is_attached
}

#[test]
fn a_daemon_killed_while_the_log_is_replaced_loses_no_flushed_data() {
    let mut found = [0, 0];
    // The delays reach from before the replacement to its end.
    for round in 0..16 {
        let world = CliSandbox::with_volume();
        world.attach();
        world.image("log2.img", 40 * MIB);
        world.client().write(MIB, &[5; 8192]).unwrap();
        world.client().flush().unwrap();
        let mut replacing = world.command(&["replace-log", "v", "--log", "log2.img"]);
        replacing.stdout(Stdio::null()).stderr(Stdio::null());
        let mut replacing = replacing.spawn().expect("the program runs");
        // sleeps: the kill hits another step in each round
        std::thread::sleep(Duration::from_millis(4 * round));
        world.kill("v");
        let _ = replacing.wait();
        found[usize::from(attach_again(&world))] += 1;
        assert_eq!(
            world.client().read(MIB, 8192).unwrap(),
            [5; 8192],
            "{round}"
        );
        assert_eq!(status(&world)["mode"], "caching");
        world.detach();
    }
    assert!(found[1] > 0, "{found:?}");
}

#[test]
fn replacements_at_once_follow_each_other_and_a_detach() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.image("log2.img", 40 * MIB);
    world.image("log3.img", 40 * MIB);
    let start = |args: &[&str]| {
        let mut command = world.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program runs")
    };
    world.client().write(MIB, &[5; 4096]).unwrap();
    world.client().flush().unwrap();
    let replacing = ["log2.img", "log3.img"].map(|log| start(&["replace-log", "v", "--log", log]));
    for process in replacing {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let named = status(&world)["log"].as_str().unwrap().to_owned();
    assert!(
        config(&world).contains(&named),
        "{named}: {}",
        config(&world)
    );
    wait_until("the clients are gone", || {
        status(&world)["nbd_connections"] == 0
    });
    let both = [
        start(&["replace-log", "v", "--log", "log.img", "--force"]),
        start(&["detach", "v"]),
    ];
    for process in both {
        // One may refuse the other.
        let _ = process.wait_with_output().unwrap();
    }
    if world.pid("v").is_some() {
        world.detach();
    }
    attach_again(&world);
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [5; 4096]);
    world.detach();
}

#[test]
fn an_attach_makes_the_configuration_file_durable_that_it_uses() {
    let test = "an_attach_makes_the_configuration_file_durable_that_it_uses";
    if !installed(test, &["mkfs.ext4"]) {
        return;
    }
    let world = CliSandbox::with_volume();
    let text = config(&world);
    let system = world.image("system.img", 32 * MIB);
    tool("mkfs.ext4", &["-q", system.to_str().unwrap()]).expect("mkfs.ext4");
    let Some(disk) = loop_over(test, &system) else {
        return;
    };
    // The filesystem itself makes nothing durable for five minutes.
    let mounted = TestMount::new(&disk.0, &world.path("etc"), "commit=300").expect("mount");
    fs::write(world.path("etc/v.toml"), &text).unwrap();
    world.attach();
    // A copy of the disk is what a power cut would leave.
    wait_until("the configuration file is durable", || {
        let (left, at) = (world.path("left.img"), world.path("left"));
        fs::copy(&system, &left).unwrap();
        let disk = loop_over(test, &left).expect("a loop device");
        let mounted = TestMount::new(&disk.0, &at, "ro");
        let file = fs::read_to_string(at.join("v.toml"));
        mounted.is_some() && file.is_ok_and(|file| file == text)
    });
    world.detach();
    mounted.unmount().unwrap();
}
