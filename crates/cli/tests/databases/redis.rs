//! Redis with an append-only file that is synced before each reply.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_rng::Rng;

use crate::committing::KillTally;
use crate::harness::{DatabaseMount, for_a_moment, rounds};
use crate::system::installed;

/// Number of keys, which are overwritten repeatedly.
const KEYS: u64 = 500;

/// A server, which is killed when dropped.
struct RedisServer {
    process: Child,
    socket: PathBuf,
}

impl RedisServer {
    /// Starts a server, and waits until it has read its data. The server rewrites its file whenever the file has grown
    /// by half.
    fn start(data: &Path, scratch: &Path) -> RedisServer {
        let (socket, log) = (scratch.join("socket"), scratch.join("log"));
        let _ = fs::remove_file(&socket);
        let mut server = Command::new("redis-server");
        server
            .arg("--dir")
            .arg(data)
            .arg("--unixsocket")
            .arg(&socket);
        server.arg("--logfile").arg(&log);
        for setting in [
            "--port 0",
            "--save ",
            "--appendonly yes",
            "--appendfsync always",
            "--auto-aof-rewrite-min-size 64kb",
            "--auto-aof-rewrite-percentage 50",
        ] {
            let (name, value) = setting.split_once(' ').expect("two");
            server.args([name, value]);
        }
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = RedisServer {
            process: server.expect("started"),
            socket,
        };
        while RedisClient::connect(&server.socket)
            .and_then(|mut client| client.ask("PING"))
            .is_err()
        {
            let ended = server.process.try_wait().expect("known");
            let said = fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{said}");
        }
        server
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct RedisClient(BufReader<UnixStream>);

impl RedisClient {
    fn connect(socket: &Path) -> io::Result<RedisClient> {
        UnixStream::connect(socket).map(|stream| RedisClient(BufReader::new(stream)))
    }

    /// Sends a command, and returns the reply to it.
    fn ask(&mut self, command: &str) -> io::Result<String> {
        write!(self.0.get_mut(), "{command}\r\n")?;
        let first = self.line()?;
        match first.as_bytes().first() {
            Some(b'$') if first != "$-1" => self.line(),
            Some(b'-') | None => Err(io::Error::other(first)),
            _ => Ok(first),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end().into())
    }
}

/// Sets the key of a commit, and a counter with it, until the server ends. Returns the last commit acknowledged.
fn commit(socket: &Path, mut last: u64, sender: &std::sync::mpsc::Sender<u64>) -> u64 {
    let mut client = RedisClient::connect(socket).expect("connected");
    loop {
        let (next, filler) = (last + 1, "x".repeat((last * 7919 % 2000) as usize));
        let key = next % KEYS;
        let set = format!("MSET last {next} key:{key} {next}:{filler}");
        if client.ask(&set).is_err() {
            return last;
        }
        last = next;
        let _ = sender.send(last);
    }
}

/// Checks that all keys have the values of the last commit, and returns that commit.
fn checked(server: &RedisServer) -> u64 {
    let mut client = RedisClient::connect(&server.socket).expect("connected");
    let last = client.ask("GET last").expect("answered");
    let last = last.parse().expect("a number");
    for commit in (1..=last).rev().take(KEYS as usize) {
        let found = client.ask(&format!("GET key:{}", commit % KEYS));
        let found = found.expect("answered");
        let filler = "x".repeat(((commit - 1) * 7919 % 2000) as usize);
        assert_eq!(found, format!("{commit}:{filler}"));
    }
    last
}

#[test]
fn writes_acknowledged_by_redis_survive_a_daemon_kill() {
    let test = "writes_acknowledged_by_redis_survive_a_daemon_kill";
    if !installed(test, &["redis-server"]) {
        return;
    }
    let Some(mounted) = DatabaseMount::new(test) else {
        return;
    };
    // The path of a socket must be short.
    let scratch = tempfile::tempdir().expect("made");
    let (scratch, data) = (scratch.path(), mounted.dir().join("data"));
    fs::create_dir(&data).expect("made");
    let (rng, mut tally, mut last) = (Rng::new(14), KillTally::new("redis"), 0);
    let mut server = RedisServer::start(&data, scratch);
    for round in 0..rounds(2) {
        let (before, wanted) = (last, last + 100 + rng.below(200));
        let (sender, receiver) = std::sync::mpsc::channel();
        let socket = server.socket.clone();
        let committing = std::thread::spawn(move || commit(&socket, before, &sender));
        while receiver.recv().expect("it goes on") < wanted {}
        for_a_moment(&rng);
        mounted.kill();
        drop(server);
        let acknowledged = committing.join().expect("no panic");
        mounted.mount_again(&rng);
        server = RedisServer::start(&data, scratch);
        last = checked(&server);
        let may_be = acknowledged..=acknowledged + 1;
        assert!(
            may_be.contains(&last),
            "round {round}: {last} after {acknowledged}"
        );
        tally.add((acknowledged - before).cast_signed());
    }
    drop(server);
    mounted.finish();
}
