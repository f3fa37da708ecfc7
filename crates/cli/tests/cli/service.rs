//! In the foreground under a service manager; metrics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};

use crate::world::{CliSandbox, signal};

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
