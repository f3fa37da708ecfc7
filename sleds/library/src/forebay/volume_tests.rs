//! Volumes that do not answer correctly.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use super::*;

fn listening(
    answers: Vec<&'static str>,
) -> (tempfile::TempDir, VolumeClient, thread::JoinHandle<()>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("v.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
        for answer in answers {
            lines.next().expect("a question").expect("read");
            (&stream).write_all(answer.as_bytes()).expect("sent");
        }
        // Waits until the client disconnects.
        assert!(lines.next().is_none());
    });
    (dir, VolumeClient::at(&path), server)
}

#[test]
fn an_answer_with_unknown_fields_and_values_is_parsed() {
    let answers = vec![
        "{\"reply\":\"places\",\"device\":\"/dev/loop7\",\"end\":9,\"new\":1,\"parts\":[\
         {\"start\":0,\"end\":4,\"place\":\"log\"},{\"start\":4,\"end\":9,\"place\":\"tape\"}],\
         \"home\":null,\"log\":{\"path\":\"/x\",\"major\":8,\"minor\":1,\"inode\":null,\"start\":null}}\n",
        "{\"reply\":\"failed\",\"code\":\"usage\",\"message\":\"not a request\"}\n",
    ];
    let (_dir, volume, server) = listening(answers);
    assert_eq!(volume.name(), "v");
    let mut asking = volume.ask();
    let (parts, end) = asking.places(0, 9).expect("told");
    let places: Vec<ReportedTier> = parts.iter().map(|part| part.place).collect();
    assert_eq!(
        (places, end),
        (vec![ReportedTier::Log, ReportedTier::Unknown], 9)
    );
    assert_eq!(asking.places(0, 9), None);
    server.join().expect("it went as it should");
}

#[test]
fn a_hanging_daemon_times_out_and_is_not_queried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("v.sock");
    // The kernel accepts clients, but the server never answers.
    let _listener = UnixListener::bind(&path).expect("a socket");
    let volume = VolumeClient::at(&path);
    assert!(!volume.is_there());
    let again = volume.ask();
    assert!(again.connection.is_none(), "it is asked again at once");
}

#[test]
fn a_connect_to_a_full_listen_queue_fails_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("v.sock");
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    );
    let socket = socket.expect("a socket");
    let address = rustix::net::SocketAddrUnix::new(&path).expect("a path");
    rustix::net::bind(&socket, &address).expect("bound");
    rustix::net::listen(&socket, 0).expect("listening");
    let _first = UnixStream::connect(&path).expect("in line");
    // A plain `connect` would wait forever.
    assert!(VolumeSocket::connect(&path).is_err());
}
