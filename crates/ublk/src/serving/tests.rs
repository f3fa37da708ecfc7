//! Tests of a server over a fake driver.

mod fake;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{DeviceError, RamDevice, Result, Tap, TapHooks, TapRequest};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};

use super::*;
use fake::{FakeKernel, RequestNumber};

const LEN: u64 = 64 << 20;

/// The requests to the device, and its configured behaviour.
#[derive(Default)]
struct UblkTapHooks {
    asked: RefCell<Vec<String>>,
    fails: Cell<bool>,
    /// Duration of each request.
    delay: RefCell<Option<(Rt, Duration)>>,
}

impl TapHooks for UblkTapHooks {
    async fn before(&self, asked: &TapRequest) -> Result<()> {
        let mut words = format!("{} {:?}", asked.op(), asked.range());
        match asked {
            TapRequest::Write(.., durability) => words += &format!(" {durability:?}"),
            TapRequest::WriteZeroes(_, room) => words += &format!(" {room:?}"),
            _ => {}
        }
        self.asked.borrow_mut().push(words);
        let delay = self.delay.borrow().clone();
        if let Some((rt, span)) = delay {
            rt.sleep(span).await;
        }
        if self.fails.get() {
            Err(DeviceError::io(
                asked.op(),
                asked.range(),
                std::io::Error::from_raw_os_error(libc::ENOSYS),
            ))
        } else {
            Ok(())
        }
    }
}

type TappedDisk = Rc<Tap<RamDevice, UblkTapHooks>>;

struct UblkRig {
    rt: Rt,
    kernel: FakeKernel,
    disk: TappedDisk,
    memory: RequestMemory,
    depth: u16,
}

impl UblkRig {
    fn serve(&self) -> QueueServer<FakeKernel> {
        let device = Rc::clone(&self.disk) as Rc<dyn Device>;
        let kernel = self.kernel.clone();
        QueueServer::begin(&self.rt, kernel, self.depth, device, &self.memory).expect("memory")
    }

    async fn ask(&self, descriptor: UblkDescriptor, data: &[u8]) -> (i32, Vec<u8>) {
        let number = self.kernel.submit(descriptor, data);
        self.kernel.answer(number).await
    }

    async fn result(&self, descriptor: UblkDescriptor) -> i32 {
        self.ask(descriptor, &[]).await.0
    }

    fn delay(&self, span: Duration) {
        *self.disk.delay.borrow_mut() = Some((self.rt.clone(), span));
    }
}

/// Runs `test` with a queue of `depth` tags.
fn run<F: Future<Output = ()> + 'static>(depth: u16, test: impl FnOnce(UblkRig) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let world = UblkRig {
        rt: executor.rt(),
        kernel: FakeKernel::new(depth),
        disk: Rc::new(Tap::new(RamDevice::new(LEN, 512), UblkTapHooks::default())),
        memory: RequestMemory::new(RequestMemory::BYTES_MIN),
        depth,
    };
    executor.block_on(test(world));
}

fn sectors(op: UblkOp, first_sector: u64, sectors: u32) -> UblkDescriptor {
    UblkDescriptor {
        op,
        fua: false,
        keep_room: false,
        sectors,
        first_sector,
    }
}

#[test]
fn requests_reach_the_device_unchanged_and_data_is_returned() {
    run(4, |world| async move {
        let _serving = world.serve();
        let data = [7; 1024];
        assert_eq!(world.ask(sectors(UblkOp::Write, 8, 2), &data).await.0, 1024);
        let durable = UblkDescriptor {
            fua: true,
            ..sectors(UblkOp::Write, 10, 1)
        };
        assert_eq!(world.ask(durable, &[9; 512]).await.0, 512);
        let read = world.ask(sectors(UblkOp::Read, 9, 2), &[0; 1024]).await;
        assert_eq!(read, (1024, [[7; 512], [9; 512]].concat()));
        assert_eq!(world.result(sectors(UblkOp::Flush, 0, 0)).await, 0);
        assert_eq!(world.result(sectors(UblkOp::Discard, 8, 8)).await, 0);
        let zeroes = sectors(UblkOp::WriteZeroes, 16, 8);
        assert_eq!(world.result(zeroes).await, 0);
        let keep_room = true;
        let kept = UblkDescriptor {
            keep_room,
            ..zeroes
        };
        assert_eq!(world.result(kept).await, 0);
        assert_eq!(
            *world.disk.asked.borrow(),
            [
                "write 4096..5120 Flush",
                "write 5120..5632 Fua",
                "read 4608..5632",
                "flush 0..0",
                "discard 4096..8192",
                "write-zeroes 8192..12288 Release",
                "write-zeroes 8192..12288 Keep",
            ]
        );
    });
}

#[test]
fn an_invalid_request_is_refused_and_the_next_is_served() {
    run(1, |world| async move {
        let _serving = world.serve();
        let too_long = (PART_BYTES / 512) as u32 + 1;
        for (descriptor, errno) in [
            (sectors(UblkOp::Other(4), 0, 8), libc::EOPNOTSUPP),
            (sectors(UblkOp::Read, 0, 0), libc::EINVAL),
            (sectors(UblkOp::Read, 0, u32::MAX), libc::EINVAL),
            (sectors(UblkOp::Write, 0, too_long), libc::EINVAL),
            (sectors(UblkOp::Read, LEN / 512, 1), libc::EIO),
            (sectors(UblkOp::Read, u64::MAX, 1), libc::EINVAL),
            (
                sectors(UblkOp::Discard, u64::MAX / 512, u32::MAX),
                libc::EINVAL,
            ),
        ] {
            let data = vec![0; descriptor.sectors.min(too_long) as usize * 512];
            let (result, _) = world.ask(descriptor, &data).await;
            assert_eq!(result, -errno, "{descriptor:?}");
            assert_eq!(
                world.ask(sectors(UblkOp::Read, 0, 1), &[1; 512]).await.0,
                512
            );
        }
    });
}

#[test]
fn device_errors_are_returned_as_eio() {
    run(2, |world| async move {
        let _serving = world.serve();
        world.disk.fails.set(true);
        assert_eq!(world.result(sectors(UblkOp::Flush, 0, 0)).await, -libc::EIO);
        let write = world.ask(sectors(UblkOp::Write, 0, 1), &[1; 512]).await;
        assert_eq!(write.0, -libc::EIO);
        world.disk.fails.set(false);
        world.kernel.fail_copies();
        let write = world.ask(sectors(UblkOp::Write, 0, 1), &[1; 512]).await;
        assert_eq!(write.0, -libc::EIO);
    });
}

#[test]
fn requests_beyond_the_memory_limit_wait_and_are_all_served() {
    run(128, |world| async move {
        let _serving = world.serve();
        world.delay(Duration::from_millis(1));
        let all = (PART_BYTES / 512) as u32;
        let data = vec![3; PART_BYTES];
        let writes: Vec<RequestNumber> = (0..300)
            .map(|i| sectors(UblkOp::Write, i % 64 * u64::from(all), all))
            .map(|write| world.kernel.submit(write, &data))
            .collect();
        for write in writes {
            assert_eq!(world.kernel.answer(write).await.0, PART_BYTES as i32);
            assert!(world.memory.in_use() <= world.memory.bound());
        }
    });
}

#[test]
fn a_stopped_device_ends_its_server_after_the_last_request() {
    run(4, |world| async move {
        let serving = world.serve();
        world.delay(Duration::from_secs(1));
        world.kernel.submit(sectors(UblkOp::Write, 0, 1), &[1; 512]);
        world.kernel.submit(sectors(UblkOp::Flush, 0, 0), &[]);
        while world.kernel.served() < 2 {
            world.rt.yield_now().await;
        }
        assert!(!serving.is_stopped());
        world.kernel.stop();
        let before = world.rt.now();
        serving.ended().await;
        assert_eq!(world.rt.now().since(before), Duration::from_secs(1));
    });
}

/// Otherwise an attach would wait for ever for a command that ends when all tags are offered.
#[test]
fn a_tag_returned_without_a_request_is_detected() {
    run(2, |world| async move {
        let serving = world.serve();
        world.kernel.stop();
        let error = serving.lost().await;
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(serving.is_stopped());
    });
}

#[test]
fn unanswered_requests_are_answered_by_the_next_server_without_errors() {
    run(3, |world| async move {
        let serving = world.serve();
        world.delay(Duration::from_secs(1));
        let asked: Vec<RequestNumber> = (0..7)
            .map(|i| {
                world
                    .kernel
                    .submit(sectors(UblkOp::Write, i, 1), &[i as u8; 512])
            })
            .collect();
        while world.kernel.served() < 3 {
            world.rt.yield_now().await;
        }
        serving.withhold();
        // As when the volume is closed under waiting requests.
        world.disk.fails.set(true);
        serving.idle().await;
        assert_eq!(world.kernel.unanswered(), 7);
        drop(serving);
        world.kernel.lose_server();
        world.disk.fails.set(false);
        let _next = world.serve();
        for number in asked {
            assert_eq!(world.kernel.answer(number).await.0, 512);
        }
        let mut sector = [0; 512];
        world.disk.below.peek(6 * 512, &mut sector);
        assert_eq!(sector, [6; 512]);
    });
}

#[test]
fn a_server_that_ends_answers_successful_requests_and_starts_no_new_requests() {
    run(2, |world| async move {
        let serving = world.serve();
        world.delay(Duration::from_secs(1));
        let first = world.kernel.submit(sectors(UblkOp::Write, 0, 1), &[1; 512]);
        let second = world.kernel.submit(sectors(UblkOp::Flush, 0, 0), &[]);
        while world.kernel.served() < 2 {
            world.rt.yield_now().await;
        }
        let third = world.kernel.submit(sectors(UblkOp::Write, 1, 1), &[2; 512]);
        serving.withhold();
        serving.idle().await;
        let asked = world.disk.asked.borrow().len();
        assert_eq!((asked, world.kernel.unanswered()), (2, 1));
        assert_eq!(world.kernel.answer(first).await.0, 512);
        assert_eq!(world.kernel.answer(second).await.0, 0);
        drop(serving);
        world.kernel.lose_server();
        let _next = world.serve();
        assert_eq!(world.kernel.answer(third).await.0, 512);
    });
}

/// Kills servers at random moments, under writers that each have their own sector.
#[test]
fn killed_servers_lose_no_data_and_clients_see_only_a_pause() {
    for seed in 0..20 {
        run(8, move |world| async move {
            let rng = Rc::new(Rng::new(seed));
            world.delay(Duration::from_millis(5));
            let mut serving = Some(world.serve());
            let mut last: BTreeMap<u64, u8> = BTreeMap::new();
            for round in 1..=60_u8 {
                let asked: Vec<(u64, RequestNumber)> = (0..12)
                    .map(|sector| (sector, sectors(UblkOp::Write, sector, 1)))
                    .map(|(sector, write)| (sector, world.kernel.submit(write, &[round; 512])))
                    .collect();
                if rng.one_in(2) {
                    world
                        .rt
                        .sleep(Duration::from_micros(rng.below(12_000)))
                        .await;
                    drop(serving.take());
                    world.kernel.lose_server();
                    serving = Some(world.serve());
                }
                for (sector, number) in asked {
                    let (result, _) = world.kernel.answer(number).await;
                    assert_eq!(result, 512, "seed {seed}, round {round}");
                    last.insert(sector, round);
                }
                for (sector, byte) in &last {
                    let mut found = [0; 512];
                    world.disk.below.peek(sector * 512, &mut found);
                    assert_eq!(found, [*byte; 512], "seed {seed}, round {round}");
                }
            }
        });
    }
}
