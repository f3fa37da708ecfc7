//! Damage to the log: flipped bytes, and blocks that are missing, garbled or swapped.
//!
//! For any damage, the volume must return the right data, or fail the affected sectors with an error, or reject the
//! attach with a reason. It must never return wrong data, panic, or destage damaged data. Lost data must stay lost
//! until it is written again.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdAttachError, DcdVolume, DrainError};
use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_rng::Rng;
use forebay_rt::Rt;
use forebay_sim::disk::WriteFate;
use forebay_sim::history::{History, ScriptAction, SharedHistory, extent, perform, random_action};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{DiskBytes, checked};
use forebay_sim_targets::cache::volume::superblock;

const DATA_BYTES: u64 = 512 << 10;
const WHOLE: Range<u64> = 0..DATA_BYTES;
const SECTORS: u64 = DATA_BYTES / 512;
const BLOCK: usize = 4096;
const SUPERBLOCK_A_AT: usize = 0;
const SUPERBLOCK_B_AT: usize = 512 << 10;
const SEGMENTS_AT: usize = 1 << 20;
const SEGMENT: usize = 128 << 10;

/// A log with data, and the history that it must return.
struct DamageCase {
    images: DiskBytes,
    history: History,
    /// True if all data is flushed, and the flush is recorded in the superblock. Then no data may be missing without an
    /// error.
    quiet: bool,
}

/// Returns a run that ends quietly after a flush, or is cut while requests are under way. (Flipping the last header
/// showed that an earlier version did not record the flush within half a second of quiet.)
fn case(quiet: bool) -> DamageCase {
    let images = DiskBytes::fresh(DATA_BYTES);
    let scenario = images.scenario(5, None);
    let history: SharedHistory = Rc::new(RefCell::new(History::whole(images.data, 1)));
    let (rt, noted, rng) = (scenario.rt.clone(), Rc::clone(&history), Rng::new(17));
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        // More than a segment, so that the log has a summary. The pauses are too short for destaging.
        let mut actions: Vec<ScriptAction> = (0..60)
            .map(|_| match random_action(&rng, &WHOLE, 24 << 10) {
                ScriptAction::Pause(_) => ScriptAction::Pause(Duration::from_millis(60)),
                other => other,
            })
            .collect();
        if quiet {
            actions.extend([
                ScriptAction::Flush,
                ScriptAction::Pause(Duration::from_millis(500)),
            ]);
        } else {
            let range = extent(&rng, &WHOLE, 8 << 10);
            actions.extend([
                ScriptAction::Write { range, fua: true },
                ScriptAction::Write {
                    range: 0..16 << 10,
                    fua: false,
                },
            ]);
        }
        for action in &actions {
            perform(&checked(&volume), &rt, &noted, action)
                .await
                .expect("no faults here");
        }
    });
    let images = scenario.after_cut(if quiet {
        WriteFate::Drop
    } else {
        WriteFate::Blocks(3)
    });
    let history = history.borrow().clone();
    DamageCase {
        images,
        history,
        quiet,
    }
}

/// Damage done to a log.
#[derive(Clone, Debug)]
enum LogDamage {
    Flip {
        at: usize,
        with: u8,
    },
    Zero(usize),
    Garble(usize),
    Swap(usize, usize),
    /// Puts a block where another belongs.
    Copy {
        from: usize,
        to: usize,
    },
}

impl LogDamage {
    fn apply(&self, log: &mut [u8]) {
        match *self {
            LogDamage::Flip { at, with } => log[at] ^= with,
            LogDamage::Zero(at) => log[at..at + BLOCK].fill(0),
            LogDamage::Garble(at) => {
                log[at..at + BLOCK].copy_from_slice(&stamp(99, 0, BLOCK as u64));
            }
            LogDamage::Swap(a, b) => {
                let first = log[a..a + BLOCK].to_vec();
                log.copy_within(b..b + BLOCK, a);
                log[b..b + BLOCK].copy_from_slice(&first);
            }
            LogDamage::Copy { from, to } => log.copy_within(from..from + BLOCK, to),
        }
    }
}

/// Result of attaching a damaged log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AttachOutcome {
    Right,
    Errors,
    Refused,
}

/// Reads block by block, and sector by sector where a block fails.
async fn read_what_can_be(volume: &DcdVolume) -> (Vec<u8>, Vec<bool>) {
    let device = checked(volume);
    let (mut bytes, mut unreadable) = (Vec::new(), Vec::new());
    for line in WHOLE.step_by(BLOCK) {
        match device.read(line, BufMut::zeroed(BLOCK)).await {
            Ok(read) => {
                bytes.extend_from_slice(&read);
                unreadable.extend([false; 8]);
            }
            Err(_) => {
                for at in (line..line + BLOCK as u64).step_by(512) {
                    let read = device.read(at, BufMut::zeroed(512)).await;
                    let damaged = matches!(read, Err(DeviceError::Damaged { .. }));
                    assert!(read.is_ok() || damaged, "{read:?}");
                    unreadable.push(damaged);
                    bytes.extend_from_slice(&read.unwrap_or_else(|_| BufMut::zeroed(512)));
                }
            }
        }
    }
    (bytes, unreadable)
}

impl DamageCase {
    fn judge(&self, seen: &[u8], unreadable: &[bool], what: &str) {
        let mut history = self.history.clone();
        if !self.quiet {
            // No later record proves that the very last flush succeeded. If its record rots, the record looks like a
            // torn tail.
            history.forget_durability();
        }
        if let Err(wrong) = history.prefixes(seen, &|sector| unreadable[sector as usize]) {
            panic!("{what}: {wrong}");
        }
    }

    /// Attaches the damaged log, reads all data, drains, and attaches again.
    fn try_out(&self, harm: &[LogDamage]) -> AttachOutcome {
        let mut images = self.images.clone();
        for harm in harm {
            harm.apply(&mut images.log);
        }
        let scenario = images.scenario(6, None);
        let (volume, _) = match scenario.attach(AttachOptions::default()).expect("no cut") {
            Ok(attached) => attached,
            Err(refused) => {
                self.accept_loss(&images, &refused);
                return AttachOutcome::Refused;
            }
        };
        let (seen, unreadable) = scenario
            .run(async move {
                let read = read_what_can_be(&volume).await;
                let drained = volume.drain().await;
                let lost = read.1.iter().filter(|lost| **lost).count() as u64 * 512;
                match drained {
                    Ok(()) => assert_eq!(lost, 0, "drained without a word of what is lost"),
                    Err(DrainError::Lost(bytes)) => assert_eq!(bytes.0, lost),
                    Err(other) => panic!("{other}"),
                }
                assert_eq!(volume.status().damaged_bytes, lost);
                volume.close().await.expect("close");
                read
            })
            .expect("no cut");
        self.judge(&seen, &unreadable, "read");
        self.judge(&scenario.data.now(), &unreadable, "at home");
        if !unreadable.contains(&true) {
            return AttachOutcome::Right;
        }
        self.stays_lost(&scenario.now(), &unreadable);
        AttachOutcome::Errors
    }

    /// Asserts that a rejection has a good reason, changes nothing, and can be overruled.
    fn accept_loss(&self, before: &DiskBytes, refused: &DcdAttachError) {
        assert!(refused.to_string().len() > 20, "{refused}");
        if !matches!(
            refused,
            DcdAttachError::Log(forebay_ring_log::LogOpenError::Damaged(_))
        ) {
            return;
        }
        let scenario = before.scenario(6, None);
        let options = AttachOptions {
            accept_loss: true,
            ..AttachOptions::default()
        };
        let volume = scenario
            .attach(options)
            .expect("no cut")
            .expect("accepted")
            .0;
        let read = async move { read_what_can_be(&volume).await };
        let (seen, unreadable) = scenario.run(read).expect("no cut");
        let mut history = self.history.clone();
        history.forget_durability();
        history
            .prefixes(&seen, &|sector| unreadable[sector as usize])
            .expect("some earlier state");
    }

    /// Asserts that lost data is still lost after another attach, and readable once rewritten.
    fn stays_lost(&self, images: &DiskBytes, lost: &[bool]) {
        let scenario = images.scenario(7, None);
        let lost = lost.to_vec();
        scenario.with_volume(AttachOptions::default(), |volume| async move {
            let (_, unreadable) = read_what_can_be(&volume).await;
            assert!(unreadable == lost, "what was lost is not any more");
            for sector in (0..SECTORS).filter(|sector| lost[*sector as usize]) {
                let at = sector * 512;
                let buf = BufMut::copy_of(&stamp(98, at, 512)).freeze();
                checked(&volume)
                    .write(at, buf, Durability::Flush)
                    .await
                    .expect("rewrite");
            }
            let (seen, unreadable) = read_what_can_be(&volume).await;
            assert!(!unreadable.contains(&true), "rewritten and still lost");
            volume.drain().await.expect("nothing is lost any more");
            volume.close().await.expect("close");
            for sector in (0..SECTORS).filter(|sector| lost[*sector as usize]) {
                let at = sector as usize * 512;
                assert!(seen[at..at + 512] == stamp(98, at as u64, 512)[..]);
            }
        });
    }

    /// Tries every damage, on two threads. Returns the number of each outcome.
    fn try_all(&self, harms: &[Vec<LogDamage>]) -> [usize; 3] {
        let (next, counts) = (AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 3]);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while let Some(harm) = harms.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let tried = || self.try_out(harm);
                        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tried));
                        let outcome = outcome.unwrap_or_else(|_| panic!("{harm:?}"));
                        counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        counts.map(AtomicUsize::into_inner)
    }

    /// Returns the positions of structures in this log (record headers and blocks of summaries), and those of payload
    /// blocks.
    fn blocks(&self) -> (Vec<usize>, Vec<usize>) {
        let blocks = (SEGMENTS_AT..self.images.log.len())
            .step_by(512)
            .filter(|at| at + BLOCK <= self.images.log.len());
        let structures: Vec<usize> = blocks
            .filter(|at| {
                matches!(
                    &self.images.log[*at..*at + 8],
                    b"FOREREC\x01" | b"FORESUM\x01"
                )
            })
            .collect();
        let used = self.images.log[SEGMENTS_AT..].chunks(SEGMENT).enumerate();
        let payload = used
            .filter(|(_, segment)| segment.iter().any(|byte| *byte != 0))
            .flat_map(|(n, _)| {
                let start = SEGMENTS_AT + n * SEGMENT;
                (start..start + SEGMENT).step_by(BLOCK)
            })
            .filter(|at| {
                let near = |s: &usize| *s < at + BLOCK && *at < s + BLOCK;
                !structures.iter().any(near)
            })
            .filter(|at| {
                self.images.log[*at..*at + BLOCK]
                    .iter()
                    .any(|byte| *byte != 0)
            })
            .collect();
        (structures, payload)
    }
}

/// Returns flips in a block: of every byte of its fields, and of a sample of the rest.
fn flips(at: usize, rng: &Rng, dense: usize, sample: usize) -> Vec<Vec<LogDamage>> {
    let flip = |at| {
        let with = 1 << rng.below(8);
        vec![LogDamage::Flip { at, with }]
    };
    let mut out: Vec<_> = (at..at + dense).map(flip).collect();
    out.extend((0..sample).map(|_| flip(at + dense + rng.below((BLOCK - dense) as u64) as usize)));
    out
}

fn harms(case: &DamageCase, share: u64) -> Vec<Vec<LogDamage>> {
    let rng = Rng::new(4);
    let (structures, payload) = case.blocks();
    assert!(
        structures.len() > 10 && payload.len() > 10,
        "a run too small"
    );
    let mut harms = Vec::new();
    for at in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
        harms.extend(flips(at, &rng, 400, 16));
    }
    for at in &structures {
        harms.extend(flips(*at, &rng, 120, 8));
    }
    for at in &payload {
        harms.extend(flips(*at, &rng, 0, 6));
    }
    let all: Vec<usize> = structures.iter().chain(&payload).copied().collect();
    for at in all.iter().chain(&[SUPERBLOCK_A_AT, SUPERBLOCK_B_AT]) {
        harms.extend([vec![LogDamage::Zero(*at)], vec![LogDamage::Garble(*at)]]);
    }
    let one = |rng: &Rng| all[rng.below(all.len() as u64) as usize];
    for _ in 0..150 {
        let (a, b) = (one(&rng), one(&rng));
        harms.push(vec![LogDamage::Swap(a, b)]);
        harms.push(vec![LogDamage::Copy { from: a, to: b }]);
        harms.push(vec![LogDamage::Zero(a), LogDamage::Zero(b)]);
        harms.push(vec![
            LogDamage::Garble(a),
            LogDamage::Copy {
                from: b,
                to: one(&rng),
            },
        ]);
    }
    harms
        .into_iter()
        .filter(|_| rng.below(100) < share)
        .collect()
}

#[test]
fn damage_to_a_quiet_log_gives_correct_data_an_error_or_a_rejection() {
    let case = case(true);
    let harms = harms(&case, 60);
    let [right, errors, refused] = case.try_all(&harms);
    println!(
        "{} harms: {right} right, {errors} errors, {refused} refused",
        harms.len()
    );
    assert!(right > 100 && errors > 100 && refused > 20);
}

#[test]
fn damage_to_a_log_after_a_power_cut_gives_correct_data_an_error_or_a_rejection() {
    let case = case(false);
    let harms = harms(&case, 35);
    let [right, errors, refused] = case.try_all(&harms);
    println!(
        "{} harms: {right} right, {errors} errors, {refused} refused",
        harms.len()
    );
    assert!(right > 100 && errors > 100);
}

/// The power fails after two flushed writes and `then`, and one block of the second write has rotted. An attach must
/// recover both records, so that a read reports the damage, or be rejected.
fn rot_in_the_last_flush_is_no_torn_end_after<F: Future<Output = ()> + 'static>(
    then: impl FnOnce(DcdVolume, Rt) -> F + 'static,
) {
    let scenario = DiskBytes::fresh(4 << 20).scenario(1, None);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let device = checked(&volume);
        for n in 0..2u64 {
            let at = (1 << 20) + n * (16 << 10);
            let bytes = BufMut::copy_of(&stamp(1, at, 16 << 10)).freeze();
            let written = device.write(at, bytes, Durability::Flush).await;
            written.expect("write");
            device.flush().await.expect("flush");
        }
        then(volume, rt).await;
    });
    let mut images = scenario.after_cut(WriteFate::Drop);
    // The header of the second record.
    let at = (1 << 20) + 4096 + (16 << 10);
    assert_eq!(&images.log[at..at + 7], b"FOREREC");
    images.log[at + 4096..at + 4096 + 512].fill(0x55);
    let again = images.scenario(2, None);
    if let Ok((_, report)) = again.attach(AttachOptions::default()).expect("no cut") {
        assert!(
            report.records >= 2,
            "attached, and what was flushed is gone: {report:?}"
        );
    }
}

/// Found by an adversarial review.
#[test]
fn a_flush_is_recorded_while_the_volume_is_read_without_a_pause() {
    rot_in_the_last_flush_is_no_torn_end_after(|volume, rt| async move {
        let device = checked(&volume);
        for _ in 0..100 {
            device.read(0, BufMut::zeroed(4096)).await.expect("read");
            rt.sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn a_flush_is_recorded_while_the_volume_is_written_without_a_pause_or_a_flush() {
    rot_in_the_last_flush_is_no_torn_end_after(|volume, rt| async move {
        let device = checked(&volume);
        for n in 0..100 {
            let at = n * 4096;
            let bytes = BufMut::copy_of(&stamp(2, at, 4096)).freeze();
            let written = device.write(at, bytes, Durability::Flush).await;
            written.expect("write");
            rt.sleep(Duration::from_millis(100)).await;
        }
    });
}

/// Reads delay destaging that has begun, and a flush comes meanwhile.
#[test]
fn a_flush_is_recorded_while_reads_delay_destaging() {
    let scenario = DiskBytes::fresh(4 << 20).scenario(1, None);
    let (rt, log, data) = scenario.parts();
    data.slowest.set(Duration::from_millis(20));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let device = checked(&volume);
        let write = async |at: u64| {
            let bytes = BufMut::copy_of(&stamp(1, at, 4096)).freeze();
            let written = device.write(at, bytes, Durability::Flush).await;
            written.expect("write");
        };
        for n in 0..200 {
            write(2 * n * 4096).await;
        }
        while data.writes.borrow().is_empty() {
            rt.sleep(Duration::from_micros(100)).await;
        }
        write(3 << 20).await;
        device.flush().await.expect("flush");
        let generation = || superblock(&log.cut(WriteFate::Drop)).map(|newest| newest.generation);
        let before = generation();
        for _ in 0..100 {
            device.read(0, BufMut::zeroed(4096)).await.expect("read");
            rt.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(
            volume.status().destaged_bytes,
            0,
            "destaging is under way, and held up"
        );
        assert!(generation() > before);
    });
}

/// Found by an adversarial review: half a MiB with one flush, one small write and its flush, then a power cut, and one
/// block of the log has rotted. The only header that proves the durability of this data is in the middle of a later
/// segment.
#[test]
fn flushed_data_survives_a_corrupt_log_block_before_it() {
    let scenario = DiskBytes::fresh(4 << 20).scenario(1, None);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let device = checked(&volume);
        for n in 0..5u64 {
            let at = (1 << 20) + n * (100 << 10);
            let bytes = BufMut::copy_of(&stamp(1, at, 100 << 10)).freeze();
            device
                .write(at, bytes, Durability::Flush)
                .await
                .expect("write");
        }
        device.flush().await.expect("flush");
        let bytes = BufMut::copy_of(&stamp(2, 3 << 20, 4096)).freeze();
        device
            .write(3 << 20, bytes, Durability::Flush)
            .await
            .expect("write");
        device.flush().await.expect("flush");
    });
    let mut images = scenario.after_cut(WriteFate::Drop);
    let at = (1 << 20) + 8 * 4096;
    images.log[at..at + 512].fill(0x55);
    let again = images.scenario(2, None);
    match again.attach(AttachOptions::default()).expect("no cut") {
        Err(refused) => println!("refused: {refused}"),
        Ok((volume, report)) => {
            let read = async move {
                let device = checked(&volume);
                device.read(3 << 20, BufMut::zeroed(4096)).await
            };
            let seen = again.run(read).expect("no cut");
            let is_there = seen.is_ok_and(|bytes| bytes[..] == stamp(2, 3 << 20, 4096)[..]);
            assert!(
                is_there,
                "taken up without a word, and the flushed write is gone: {report:?}"
            );
        }
    }
}
