//! Tests of reading from a task, with a minimal executor.

mod common;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{TestRandom, can_evict, cold, joined, mix, path, scratch, skipped, text};
use sleds::{AsyncReader, ReadOptions, ReadPlan, ReadUnit};

/// Time limit that is longer than any test takes, so that a lost wakeup fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a message when woken.
struct ChannelWaker(Sender<()>);

impl Wake for ChannelWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (sender, receiver) = channel();
    (Arc::new(ChannelWaker(sender)).into(), receiver)
}

/// Polls a future only after it was woken.
fn run<T>(future: impl Future<Output = T>) -> T {
    let (waker, woken) = bell();
    let mut future = pin!(future);
    loop {
        match poll(future.as_mut(), &waker) {
            Poll::Ready(value) => return value,
            Poll::Pending => woken.recv_timeout(PATIENCE).expect("to be woken"),
        }
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

async fn pieces(reader: &mut AsyncReader) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut all = Vec::new();
    while let Some(piece) = reader.next_piece().await? {
        all.push((piece.offset, piece.data.to_vec()));
    }
    Ok(all)
}

fn pipe() -> (File, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    (File::from(std::os::fd::OwnedFd::from(reader)), writer)
}

#[test]
fn asynchronous_pieces_are_those_of_the_reader_in_its_order() {
    let dir = scratch();
    let random = &mut TestRandom(7);
    let content = text(random, 3 << 20);
    let file = cold(&path(&dir, "file"), &content);
    let mut orders = 0;
    for plan in [ReadPlan::Linear, ReadPlan::Best] {
        mix(&file, random, 60);
        let options = ReadOptions {
            plan,
            unit: ReadUnit::Records(b'\n'),
            chunk: 64 << 10,
            ..ReadOptions::default()
        };
        let file = File::open(path(&dir, "file")).unwrap();
        let mut reader = AsyncReader::new(file, options).unwrap();
        let all = run(pieces(&mut reader)).unwrap();
        orders += u32::from(!all.is_sorted());
        assert!(plan == ReadPlan::Best || all.is_sorted());
        assert_eq!(joined(&all, 0), content);
        assert!(
            all.iter()
                .all(|(_, data)| data.ends_with(b"\n") || content.ends_with(data))
        );
        // After the end, every call returns `None`.
        assert!(run(reader.next_piece()).unwrap().is_none());
    }
    if can_evict(dir.path()) {
        assert_eq!(orders, 1);
    } else {
        skipped(
            "asynchronous_pieces_are_those_of_the_reader_in_its_order",
            "pages cannot be evicted here",
        );
    }
}

#[test]
fn an_asynchronous_read_ends_at_its_limit() {
    let dir = scratch();
    fs::write(path(&dir, "file"), [7; 100_000]).unwrap();
    let file = File::open(path(&dir, "file")).unwrap();
    let mut reader = AsyncReader::before(file, 70_001, ReadOptions::default()).unwrap();
    assert_eq!(joined(&run(pieces(&mut reader)).unwrap(), 0), [7; 70_001]);
}

#[test]
fn a_waiting_task_is_woken_by_a_piece_and_by_the_end() {
    let (file, mut writer) = pipe();
    let mut reader = AsyncReader::new(file, ReadOptions::default()).unwrap();
    let (waker, woken) = bell();
    for word in ["first", "second"] {
        let mut next = pin!(reader.next_piece());
        assert!(poll(next.as_mut(), &waker).is_pending());
        writer.write_all(word.as_bytes()).unwrap();
        woken.recv_timeout(PATIENCE).expect("to be woken");
        match poll(next.as_mut(), &waker) {
            Poll::Ready(Ok(Some(piece))) => assert_eq!(piece.data, word.as_bytes()),
            other => panic!("{other:?}"),
        }
    }
    let mut next = pin!(reader.next_piece());
    assert!(poll(next.as_mut(), &waker).is_pending());
    drop(writer);
    woken.recv_timeout(PATIENCE).expect("to be woken");
    assert!(matches!(poll(next.as_mut(), &waker), Poll::Ready(Ok(None))));
}

#[test]
fn a_dropped_future_loses_no_piece() {
    let (file, mut writer) = pipe();
    let mut reader = AsyncReader::new(file, ReadOptions::default()).unwrap();
    let (waker, woken) = bell();
    assert!(poll(pin!(reader.next_piece()), &waker).is_pending());
    writer.write_all(b"whole").unwrap();
    woken.recv_timeout(PATIENCE).expect("to be woken");
    drop(writer);
    assert_eq!(joined(&run(pieces(&mut reader)).unwrap(), 0), b"whole");
}

#[test]
fn dropping_the_reader_ends_the_reading_and_closes_the_file() {
    let (file, mut writer) = pipe();
    let reader = AsyncReader::new(file, ReadOptions::default()).unwrap();
    drop(reader);
    // The thread may be inside a read, which has to end first. It begins no other read.
    let error = loop {
        if let Err(error) = writer.write_all(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn the_reader_reads_only_a_little_ahead_of_its_caller() {
    const CHUNK: usize = 4096;
    let (file, mut writer) = pipe();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    let options = ReadOptions {
        chunk: CHUNK,
        ..ReadOptions::default()
    };
    let mut reader = AsyncReader::new(file, options).unwrap();
    // A received piece shows that the thread is at work.
    writer.write_all(&[1; CHUNK]).unwrap();
    assert!(run(reader.next_piece()).unwrap().is_some());
    let (mut written, mut refused) = (0, 0);
    while refused < 1000 && written < 100 * capacity {
        match writer.write(&[1; CHUNK]) {
            Ok(n) => written += n,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                refused += 1;
                std::thread::yield_now();
            }
        }
    }
    assert!(written <= capacity + 8 * CHUNK, "{written} of {capacity}");
}

#[test]
fn an_error_is_returned_once_and_then_the_end() {
    let dir = scratch();
    let file = File::open(dir.path()).unwrap();
    let mut reader = AsyncReader::new(file, ReadOptions::default()).unwrap();
    let error = run(reader.next_piece()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    assert!(run(reader.next_piece()).unwrap().is_none());
}

#[test]
fn the_reader_can_move_to_another_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (file, writer) = pipe();
    drop(writer);
    let mut reader = is_send(AsyncReader::new(file, ReadOptions::default()).unwrap());
    assert!(run(is_send(reader.next_piece())).unwrap().is_none());
}
