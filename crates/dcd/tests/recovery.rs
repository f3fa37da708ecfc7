//! Power cuts at every request of a run, of its recovery, and of the recovery after that.
//!
//! What must hold each time: the volume is as after some prefix of its requests, and the prefix has
//! all that was flushed.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use forebay_dcd::{Acknowledge, AttachOptions};
use forebay_sim::Rng;
use forebay_sim::disk::Coin;
use forebay_sim::history::{Action, History, Shared, perform, random_action};
use forebay_sim::lab::{Images, checked, read_all};
use forebay_units::ByteLen;

const DATA_BYTES: u64 = 1 << 20;
const WHOLE: Range<u64> = 0..DATA_BYTES;

/// A power cut: what is on the disks after it, and what was asked before.
struct Cut {
    request: u64,
    coin: Coin,
    images: Images,
    history: History,
}

/// A run with everything in it: small and large writes, overlaps, partial lines, zeroes, discards,
/// flushes, and pauses in which destaging and superblock updates happen; long enough to wrap the log.
fn script(seed: u64, len: usize) -> Vec<Action> {
    let rng = Rng::new(seed);
    let mut actions = Vec::new();
    while actions.len() < len {
        match rng.below(20) {
            0 => {
                let at = rng.below(DATA_BYTES / 512 - 2048 + 1) * 512;
                let range = at..at + (1 << 20);
                actions.push(Action::Write { range, fua: false });
            }
            1 => {
                let range = 4096..4096 + 512 * (1 + rng.below(20));
                actions.push(Action::Write { range, fua: false });
            }
            _ => actions.push(random_action(&rng, &WHOLE, 64 << 10)),
        }
    }
    actions
}

/// Does the script once and gives `each` every power cut there could be, on two threads.
fn every_cut(
    images: &Images,
    script: Vec<Action>,
    options: AttachOptions,
    coins: impl Fn(u64) -> Vec<Coin> + 'static,
    each: impl Fn(Cut) + Sync,
) -> u64 {
    let (cuts, queue) = mpsc::sync_channel::<Cut>(4);
    let queue = Mutex::new(queue);
    let next = || queue.lock().ok()?.recv().ok();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some(cut) = next() {
                    let what = format!("cut at request {} with {:?}", cut.request, cut.coin);
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each(cut)));
                    assert!(done.is_ok(), "{what}");
                }
            });
        }
        run_and_cut(images, script, options, coins, cuts)
    })
}

fn run_and_cut(
    images: &Images,
    script: Vec<Action>,
    options: AttachOptions,
    coins: impl Fn(u64) -> Vec<Coin> + 'static,
    cuts: mpsc::SyncSender<Cut>,
) -> u64 {
    let world = images.world(1, None);
    let history: Shared = Rc::new(RefCell::new(History::whole(images.data.clone(), 1)));
    let (log, data, noted) = (
        Rc::clone(&world.log),
        Rc::clone(&world.data),
        Rc::clone(&history),
    );
    let watch = move |request| {
        for coin in coins(request) {
            let images = Images {
                log: log.after_cut(coin),
                data: data.after_cut(coin),
            };
            let history = noted.borrow().clone();
            // If a worker has stopped, its panic is what is reported.
            let _ = cuts.send(Cut {
                request,
                coin,
                images,
                history,
            });
        }
    };
    world.power.watch.replace(Some(Box::new(watch)));
    let rt = world.rt.clone();
    let at_once = options.acknowledge == Acknowledge::Write;
    world.with_volume(options, move |volume| async move {
        for action in &script {
            perform(&checked(&volume), &rt, &history, action)
                .await
                .expect("no faults here");
            let done = history.borrow().acknowledged();
            if at_once {
                history.borrow_mut().set_durable(done);
            }
        }
        println!("{} KiB logged", volume.status().log_written_bytes >> 10);
    });
    world.power.watch.replace(None);
    world.power.requests()
}

/// Three coins, and a tear of its own for every request.
fn coins(request: u64) -> Vec<Coin> {
    vec![
        Coin::Keep,
        Coin::Drop,
        Coin::Blocks(request),
        Coin::Writes(request),
    ]
}

/// What the volume reads as after recovery; with `drained`, what the data device alone has.
fn recovered(images: &Images, drained: bool) -> Vec<u8> {
    let world = images.world(2, None);
    let seen = world
        .with_volume(AttachOptions::default(), move |volume| async move {
            let seen = read_all(&checked(&volume)).await.expect("read");
            if drained {
                volume.drain().await.expect("drain");
                volume.close().await.expect("close");
            }
            seen
        })
        .expect("no cut");
    if drained { world.data.now() } else { seen }
}

fn check(cut: &Cut, drained: bool) -> Vec<u8> {
    let seen = recovered(&cut.images, drained);
    if let Err(wrong) = cut.history.prefixes(&seen, &|_| false) {
        panic!("{wrong} (drained: {drained})");
    }
    seen
}

#[test]
fn a_cut_at_any_request_leaves_a_prefix_with_all_that_was_flushed() {
    let images = Images::fresh(DATA_BYTES);
    let each = |cut: Cut| {
        check(&cut, matches!(cut.coin, Coin::Blocks(_)));
    };
    let requests = every_cut(
        &images,
        script(7, 90),
        AttachOptions::default(),
        coins,
        each,
    );
    println!("{requests} requests, each cut with 4 coins");
    assert!(requests > 200, "only {requests} requests");
}

#[test]
fn with_durable_writes_a_cut_at_any_request_loses_none_that_was_acknowledged() {
    let images = Images::fresh(DATA_BYTES);
    let options = AttachOptions {
        acknowledge: Acknowledge::Write,
        ..AttachOptions::default()
    };
    let each = |cut: Cut| {
        check(&cut, false);
    };
    let coins = |request| vec![Coin::Drop, Coin::Blocks(request)];
    every_cut(&images, script(8, 40), options, coins, each);
}

#[test]
fn with_large_writes_past_the_log_every_sector_keeps_a_disks_promise() {
    let images = Images::fresh(DATA_BYTES);
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(16)),
        ..AttachOptions::default()
    };
    let each = |cut: Cut| {
        let seen = recovered(&cut.images, false);
        cut.history
            .each_sector(&seen, &|_| false)
            .expect("a version since the last flush");
    };
    let coins = |request| vec![Coin::Drop, Coin::Blocks(request)];
    every_cut(&images, script(9, 60), options, coins, each);
}

/// Every state of the disks after a power cut inside the recovery of `images`.
fn cuts_in_recovery(images: &Images, coin: impl Fn(u64) -> Coin) -> Vec<Images> {
    let mut out = Vec::new();
    for request in 0.. {
        let world = images.world(3 + request, Some(request));
        if world.attach(AttachOptions::default()).is_some() {
            return out;
        }
        out.push(world.after_cut(coin(request)));
    }
    out
}

#[test]
fn a_cut_at_any_request_of_a_recovery_and_of_the_next_changes_nothing() {
    let images = Images::fresh(DATA_BYTES);
    // Recoveries are alike; a sample of the cuts is enough, and each coin gets its share.
    let coins = |request: u64| match request % 22 {
        3 => vec![Coin::Keep],
        10 => vec![Coin::Blocks(request)],
        17 => vec![Coin::Writes(request)],
        _ => vec![],
    };
    let each = |cut: Cut| {
        let once = check(&cut, false);
        for (n, images) in cuts_in_recovery(&cut.images, Coin::Blocks)
            .into_iter()
            .enumerate()
        {
            let Cut {
                request,
                coin,
                history,
                ..
            } = &cut;
            let again = Cut {
                images,
                history: history.clone(),
                request: *request,
                coin: *coin,
            };
            assert!(
                check(&again, false) == once,
                "cut at request {n} of recovery"
            );
            let coin = |k| {
                if k % 2 == 0 {
                    Coin::Writes(k)
                } else {
                    Coin::Drop
                }
            };
            for images in cuts_in_recovery(&again.images, coin) {
                assert!(recovered(&images, false) == once, "the recovery after {n}");
            }
        }
    };
    every_cut(
        &images,
        script(11, 60),
        AttachOptions::default(),
        coins,
        each,
    );
}

/// One life: some writers at once, each on its own region, until the power goes; what is on the
/// disks then. Each region must be a prefix of its writer's requests.
fn life(images: &Images, seed: u64, regions: &mut [History]) -> Images {
    let rng = Rng::new(seed);
    let world = images.world(seed, Some(8 + rng.below(250)));
    // Slow flushes and short delays, so that much is written while the device flushes.
    let (log, most) = (&world.log, 4 << 10 << rng.below(7));
    log.slowest
        .set(Duration::from_micros(50 + rng.below(5_000)));
    log.flush_takes
        .set(Some(Duration::from_micros(rng.below(40_000))));
    let options = AttachOptions {
        max_delay: Duration::from_micros(500 + rng.below(30_000)),
        ..AttachOptions::default()
    };
    let histories: Vec<Shared> = regions
        .iter()
        .map(|region| Rc::new(RefCell::new(region.clone())))
        .collect();
    let (rt, writers) = (world.rt.clone(), histories.clone());
    world.with_volume(options, move |volume| async move {
        let writers = writers.iter().enumerate().map(|(n, history)| {
            let (device, rt, rng) = (checked(&volume), rt.clone(), Rng::new(seed << 8 | n as u64));
            async move {
                let region = history.borrow().region();
                loop {
                    let action = random_action(&rng, &region, most);
                    perform(&device, &rt, history, &action)
                        .await
                        .expect("no faults here");
                }
            }
        });
        futures_util::future::join_all(writers).await;
    });
    for (region, history) in regions.iter_mut().zip(histories) {
        *region = history.borrow().clone();
    }
    let coin = match rng.below(4) {
        0 => Coin::Keep,
        1 => Coin::Drop,
        2 => Coin::Blocks(seed),
        _ => Coin::Writes(seed),
    };
    world.after_cut(coin)
}

#[test]
fn many_lives_in_a_row_each_go_on_from_where_the_last_was_cut() {
    std::thread::scope(|threads| {
        for thread in 0..2u64 {
            threads.spawn(move || {
                for seed in 0..12 {
                    lives(seed * 2 + thread);
                }
            });
        }
    });
}

fn lives(seed: u64) {
    let mut images = Images::fresh(DATA_BYTES);
    let quarter = DATA_BYTES / 4;
    let mut regions: Vec<History> = (0..4)
        .map(|n| {
            let region = n * quarter..(n + 1) * quarter;
            History::new(images.data.clone(), region, (n + 1) << 8)
        })
        .collect();
    for generation in 0..8 {
        images = life(&images, seed << 32 | generation, &mut regions);
        // Some recoveries are cut, too.
        if generation % 3 == 1 {
            let cuts = cuts_in_recovery(&images, Coin::Blocks);
            images = cuts[(seed as usize + generation as usize) % cuts.len()].clone();
        }
        let seen = recovered(&images, false);
        for (n, region) in regions.iter_mut().enumerate() {
            match region.prefixes(&seen, &|_| false) {
                Ok(after) => region.rebase(&seen, &after),
                Err(wrong) => panic!("seed {seed}, life {generation}, region {n}: {wrong}"),
            }
        }
    }
}
