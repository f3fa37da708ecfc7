//! The ring as a driver: time, wakes, and requests whose future is dropped.
#![allow(
    unsafe_code,
    reason = "commands to drivers may name memory; those here name none"
)]

mod common;

use std::cell::Cell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use common::{dir, file, filled, open, read, run};
use forebay_device::{BufMut, BufPool, Durability};
use forebay_linux::{FdPoller, IoRing, SocketStream};
use forebay_rt::{Driver, Executor, TimeLimitError, WaitLimit};

const MIB: u64 = 1 << 20;

fn pipe() -> (Rc<OwnedFd>, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Rc::new(reader.into()), writer)
}

#[test]
fn a_sleep_ends_no_earlier_than_requested_and_the_clock_advances() {
    run(|rt, _| async move {
        let before = rt.now();
        rt.sleep(Duration::from_millis(3)).await;
        assert!(rt.now().since(before) >= Duration::from_millis(3));
    });
}

#[test]
fn a_wake_from_another_thread_ends_the_wait() {
    run(|_, _| async {
        for _ in 0..200 {
            let done = Arc::new(AtomicBool::new(false));
            let mut helper = None;
            std::future::poll_fn(|cx| {
                if done.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                let (waker, done) = (cx.waker().clone(), Arc::clone(&done));
                helper.get_or_insert_with(|| {
                    std::thread::spawn(move || {
                        done.store(true, Ordering::SeqCst);
                        waker.wake();
                    })
                });
                Poll::Pending
            })
            .await;
            helper.unwrap().join().unwrap();
        }
    });
}

#[test]
fn no_wake_is_lost_in_a_race_with_the_wait() {
    const ROUNDS: u64 = 20_000;
    run(|_, _| async {
        let (asked, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let waker = Arc::new(std::sync::Mutex::new(None::<std::task::Waker>));
        let helper = std::thread::spawn({
            let (asked, answered, waker) = (asked.clone(), answered.clone(), waker.clone());
            move || {
                for round in 1..=ROUNDS {
                    while asked.load(Ordering::SeqCst) < round {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                    answered.store(round, Ordering::SeqCst);
                    waker.lock().unwrap().take().unwrap().wake();
                }
            }
        });
        for round in 1..=ROUNDS {
            std::future::poll_fn(|cx| {
                if answered.load(Ordering::SeqCst) >= round {
                    return Poll::Ready(());
                }
                if asked.load(Ordering::SeqCst) < round {
                    *waker.lock().unwrap() = Some(cx.waker().clone());
                    asked.store(round, Ordering::SeqCst);
                }
                Poll::Pending
            })
            .await;
        }
        helper.join().unwrap();
    });
}

#[test]
fn a_ring_with_few_entries_accepts_any_number_of_requests() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    let ring = IoRing::new(1).unwrap();
    let executor = Executor::new(Rc::clone(&ring) as Rc<dyn Driver>);
    let rt = executor.rt();
    executor.block_on(async move {
        let device = open(&ring, path);
        let reads: Vec<_> = (0..20_000u64)
            .map(|i| {
                let device = Rc::clone(&device);
                rt.spawn(async move { device.read(i % 256 * 4096, BufMut::zeroed(4096)).await })
            })
            .collect();
        for read in reads {
            read.await.unwrap();
        }
    });
}

#[test]
fn memory_of_a_dropped_read_is_not_reused_before_the_kernel_finishes() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|rt, ring| async move {
        let device = open(&ring, path);
        let data = filled(MIB as usize, 7);
        device.write(0, data, Durability::Flush).await.unwrap();
        let pool = BufPool::new(64 << 10);
        for _ in 0..200 {
            let mut read = device.read(0, pool.take());
            assert!(futures_util::poll!(&mut read).is_pending());
            drop(read);
            // If the buffer used the same memory, the read would overwrite it.
            let mut other = pool.take();
            other.fill(1);
            rt.yield_now().await;
            assert!(other.iter().all(|b| *b == 1));
        }
    });
}

#[test]
fn a_write_whose_future_is_dropped_keeps_its_data() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        let device = open(&ring, path);
        let mut write = device.write(0, filled(65536, 5), Durability::Flush);
        assert!(futures_util::poll!(&mut write).is_pending());
        drop(write);
        device.flush().await.unwrap();
        // The later write is queued behind the dropped write.
        let after = device.write(65536, filled(512, 6), Durability::Fua);
        after.await.unwrap();
        let all = read(&*device, 0, 65536).await;
        assert!(all.iter().all(|b| *b == 5) || all.iter().all(|b| *b == 0));
    });
}

#[test]
fn dropping_the_ring_waits_for_requests_in_flight() {
    let dir = dir();
    let path = file(&dir, "a", 64 * MIB);
    for _ in 0..20 {
        let ring = IoRing::new(64).unwrap();
        let executor = Executor::new(Rc::clone(&ring) as Rc<dyn Driver>);
        let device = open(&ring, &path);
        executor.block_on(async move {
            for i in 0..16u64 {
                let data = filled(4 * MIB as usize, i as u8);
                let mut write = device.write(i * 4 * MIB, data, Durability::Flush);
                assert!(futures_util::poll!(&mut write).is_pending());
            }
        });
        drop(executor);
        let weak = Rc::downgrade(&ring);
        drop(ring);
        assert!(weak.upgrade().is_none());
    }
}

#[test]
fn a_cancelled_receive_leaves_its_bytes_to_the_next_receive() {
    run(|rt, ring| async move {
        let (a, b) = SocketStream::pair(&ring).unwrap();
        let timed_out = rt
            .timeout(Duration::from_millis(2), a.recv(BufMut::zeroed(8)))
            .await;
        assert!(matches!(timed_out, Err(TimeLimitError)));
        rt.sleep(Duration::from_millis(1)).await;
        b.send(filled(5, 3)).await.unwrap();
        let (buf, n) = a.recv(BufMut::zeroed(8)).await.unwrap();
        assert_eq!(buf[..n], [3; 5]);
    });
}

#[test]
fn a_pipe_is_read_to_its_end_also_in_non_blocking_mode() {
    for nonblocking in [false, true] {
        run(move |rt, ring| async move {
            let (reader, mut writer) = pipe();
            rustix::io::ioctl_fionbio(&*reader, nonblocking).unwrap();
            let task = rt.spawn(async move {
                let mut all = Vec::new();
                loop {
                    let (buf, n) = ring.read_fd(&reader, BufMut::zeroed(3)).await.unwrap();
                    if n == 0 {
                        return all;
                    }
                    all.extend_from_slice(&buf[..n]);
                }
            });
            rt.yield_now().await;
            writer.write_all(b"hello").unwrap();
            rt.sleep(Duration::from_millis(1)).await;
            writer.write_all(b", world").unwrap();
            drop(writer);
            assert_eq!(task.await, b"hello, world");
        });
    }
}

#[test]
fn the_poller_waits_until_data_is_readable() {
    run(|rt, ring| async move {
        let (reader, mut writer) = pipe();
        let poller = FdPoller::new(&ring, reader);
        let seen = Rc::new(Cell::new(false));
        let task = rt.spawn({
            let seen = Rc::clone(&seen);
            async move {
                poller.readable().await.unwrap();
                seen.set(true);
            }
        });
        rt.sleep(Duration::from_millis(1)).await;
        assert!(!seen.get());
        writer.write_all(b"x").unwrap();
        task.await;
        assert!(seen.get());
    });
}

#[test]
fn turning_an_idle_ring_without_waiting_returns_at_once() {
    let ring = IoRing::new(8).unwrap();
    ring.turn(WaitLimit::No);
    ring.turn(WaitLimit::Until(ring.now()));
    ring.unparker().unpark();
    ring.turn(WaitLimit::Forever);
}

#[test]
fn a_driver_answers_commands_and_a_file_without_one_refuses_them() {
    const OP: u32 = 1;
    let null = || std::fs::File::open("/dev/null").unwrap();
    let plain = || tempfile::tempfile().unwrap();
    let (dev, file): (OwnedFd, OwnedFd) = (null().into(), plain().into());
    run(|_, ring| async move {
        let ask = async |fd: OwnedFd| {
            // SAFETY: the null device ignores commands, and a file takes none.
            let command = unsafe { ring.command(&Rc::new(fd), OP, [0; 16]) };
            command.await.map_err(|error| error.raw_os_error())
        };
        assert_eq!(ask(dev).await, Ok(0));
        assert_eq!(ask(file).await, Err(Some(libc::EOPNOTSUPP)));
    });
    // SAFETY: as above.
    let long = |fd: &std::fs::File| unsafe { forebay_linux::driver_command(fd, OP, [0; 80]) };
    assert_eq!(long(&null()).unwrap(), 0);
    let refused = long(&plain()).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
}

#[test]
fn mapped_driver_memory_shows_writes_and_ends_at_its_length() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    let shared = forebay_linux::DriverMemory::map(&file, 0, 4096).unwrap();
    assert_eq!(shared.read(100), [0; 4]);
    std::os::unix::fs::FileExt::write_all_at(&file, b"hello", 4091).unwrap();
    assert_eq!(&shared.read::<5>(4091), b"hello");
    let beyond = || shared.read::<5>(4092);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(beyond)).is_err());
}
