//! In the foreground under a service manager; metrics.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};

use crate::world::{CliSandbox, MIB, signal, texts};

fn foreground(world: &CliSandbox, more: &[&str]) -> (Child, String) {
    let mut args = vec!["attach", "v", "--via", "none", "--foreground"];
    args.extend_from_slice(more);
    let mut command = world.command(&args);
    command.env("NOTIFY_SOCKET", world.path("notify.sock"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().into())
}

#[test]
fn the_service_manager_is_notified_of_readiness_and_of_stopping() {
    let world = CliSandbox::with_volume();
    let manager = UnixDatagram::bind(world.path("notify.sock")).unwrap();
    let notifications = || {
        let mut buf = [0; 4096];
        let n = manager.recv(&mut buf).unwrap();
        String::from_utf8_lossy(&buf[..n]).into_owned()
    };
    let (mut child, uri) = foreground(&world, &[]);
    assert!(uri.starts_with("nbd+unix:///v?socket="), "{uri}");
    let ready = notifications();
    assert!(ready.contains("READY=1") && ready.contains(&uri), "{ready}");
    world.client().write(0, &[1; 512]).unwrap();
    signal(child.id(), "INT");
    assert!(notifications().contains("STOPPING=1"));
    assert!(child.wait().unwrap().success());
}

/// Adds a line to the configuration file of a volume, before its tables.
fn configure(world: &CliSandbox, name: &str, line: &str) {
    let file = world.path("etc").join(format!("{name}.toml"));
    let content = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{line}\n{content}")).unwrap();
}

#[test]
fn the_initramfs_gets_the_volumes_that_its_scripts_must_attach() {
    let world = CliSandbox::with_volume();
    world.data("other.img", 64 * MIB);
    world.image("other.log", 40 * MIB);
    world.ok(&[
        "create",
        "--name",
        "other",
        "--data",
        "other.img",
        "--log",
        "other.log",
    ]);
    assert_eq!(world.ok(&["boot", "--list"]), "");
    configure(&world, "other", "boot = \"on\"");
    let mut listed: Vec<String> = Vec::new();
    listed.push("volume other".into());
    listed.push(format!("file {}", world.path("etc/other.toml").display()));
    listed.push(format!("device {}", world.path("other.img").display()));
    listed.push(format!("device {}", world.path("other.log").display()));
    let found = world.ok(&["boot", "--list"]);
    assert_eq!(found.lines().collect::<Vec<_>>(), listed);
    // A volume whose file cannot be read may be the one that the system needs. The other volume is listed all the same.
    configure(&world, "v", "boot = \"yes\"");
    let failure = world.run(&["boot", "--list"]);
    assert_eq!(failure.status.code(), Some(2));
    let (out, error) = texts(&failure);
    assert!(out.contains("volume other"), "{out}");
    assert!(
        error.contains("v is not attached: ")
            && error.contains("line 1, key \"boot\"")
            && error.contains("not one of on, off"),
        "{error}"
    );
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn the_metrics_address_serves_only_metrics() {
    let world = CliSandbox::with_volume();
    // A port that is free now. If another program takes it before the daemon does, the daemon reports this.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    world.ok(&["attach", "v", "--via", "none", "--metrics", &address]);
    world.client().write(0, &[1; 512]).unwrap();
    let metrics = get(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    assert!(
        metrics.contains("forebay_writes_total{volume=\"v\",layer=\"cache\"} 1\n"),
        "{metrics}"
    );
    assert!(get(&address, "GET /etc/passwd HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get(&address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    // A head without an end gets no answer, and does not disturb other clients.
    let mut endless = TcpStream::connect(&address).unwrap();
    let _ = endless.write_all(&[b'a'; 8192]);
    let mut nothing = Vec::new();
    let _ = endless.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    assert!(get(&address, "GET /metrics HTTP/1.1\r\n\r\n").contains("forebay_writes_total{"));
}

/// A daemon whose standard error is the journal writes priorities and no time.
#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;

    let world = CliSandbox::with_volume();
    for is_journal in [true, false] {
        let log = std::fs::File::create(world.path("journal")).unwrap();
        let found = log.metadata().unwrap();
        let other = u64::from(!is_journal);
        let stream = format!("{}:{}", found.dev(), found.ino() + other);
        let mut command = world.command(&["attach", "v", "--via", "none", "--foreground"]);
        let command = command
            .env("JOURNAL_STREAM", stream)
            .stdout(std::process::Stdio::null())
            .stderr(OwnedFd::from(log));
        let mut daemon = command.spawn().unwrap();
        crate::world::wait_until("it is attached", || {
            world.run(&["status", "v"]).status.success()
        });
        crate::world::signal(daemon.id(), "TERM");
        assert!(daemon.wait().unwrap().success());
        let log = std::fs::read_to_string(world.path("journal")).unwrap();
        let line = log.lines().find(|line| line.contains("SIGTERM"));
        let line = line.unwrap_or_else(|| panic!("{log}"));
        assert_eq!(line.starts_with("<6>stopping"), is_journal, "{log}");
        assert_eq!(line.contains(" INFO "), !is_journal, "{log}");
        assert!(!log.contains(['"', '{']) && !log.contains("Ok("), "{log}");
    }
}
