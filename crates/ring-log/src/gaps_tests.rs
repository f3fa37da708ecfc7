use super::*;

/// Maximum offset in a log with segments of 1 MiB, in bytes.
const MOST: u32 = 256 << 10;

/// A device under test.
trait WriteTiming {
    /// Returns the time at which a write issued at `now` is done, both in seconds.
    fn done(&mut self, now: f64, at: u64, len: u64) -> f64;
}

/// A rotating disk with one zone.
#[derive(Clone, Copy)]
struct RotatingDisk {
    /// Duration of one rotation, in seconds.
    turn: f64,
    /// Bytes of a track.
    track: u64,
    /// Time from a request until the disk can serve it, in seconds.
    command: f64,
    /// Delay of the next track's start, in seconds, so that a change of tracks loses no rotation.
    skew: f64,
}

/// Disks like the drives of [`docs/design/model.md`], and one like a drive of 2012. All are without zones.
const DISKS: [RotatingDisk; 4] = [
    // dec_rz26
    RotatingDisk {
        turn: 11.19e-3,
        track: 29 << 10,
        command: 2.2e-3,
        skew: 1.35e-3,
    },
    // barracuda
    RotatingDisk {
        turn: 8.333e-3,
        track: 93 << 10,
        command: 1.8e-3,
        skew: 1.66e-3,
    },
    // atlas10k
    RotatingDisk {
        turn: 5.985e-3,
        track: 167 << 10,
        command: 1.9e-3,
        skew: 1.13e-3,
    },
    // 150 MB/s
    RotatingDisk {
        turn: 8.333e-3,
        track: 1250 << 10,
        command: 0.25e-3,
        skew: 1.0e-3,
    },
];

impl RotatingDisk {
    /// Returns the time within a rotation at which the byte passes the head, in seconds.
    fn phase(&self, at: u64) -> f64 {
        let (tracks, into) = (at / self.track, at % self.track);
        let skewed = tracks as f64 * self.skew + into as f64 / self.track as f64 * self.turn;
        skewed.rem_euclid(self.turn)
    }
}

impl WriteTiming for RotatingDisk {
    fn done(&mut self, now: f64, at: u64, len: u64) -> f64 {
        let mut time = now + self.command;
        let (mut at, end) = (at, at + len);
        while at < end {
            let piece = (self.track - at % self.track).min(end - at);
            time += (self.phase(at) - time).rem_euclid(self.turn);
            time += piece as f64 / self.track as f64 * self.turn;
            // The head moves to the next track while the skew passes.
            at += piece;
        }
        time
    }
}

/// A device whose writes take the time that a function returns.
struct TimedDevice<F>(F);

impl<F: FnMut() -> f64> WriteTiming for TimedDevice<F> {
    fn done(&mut self, now: f64, _at: u64, _len: u64) -> f64 {
        now + (self.0)()
    }
}

/// A writer that flushes each write, and its log.
struct OffsetWriter {
    policy: OffsetState,
    now: f64,
    at: u64,
    /// Durations of writes, in seconds, and the offsets before them, in bytes.
    took: Vec<f64>,
    gaps: Vec<u32>,
}

fn instant(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9) as u64)
}

impl OffsetWriter {
    fn new() -> OffsetWriter {
        OffsetWriter {
            policy: OffsetState::new(OffsetPolicy::Learnt),
            now: 1.0,
            at: 1 << 20,
            took: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Writes once after `pause`. The record is opened `open` seconds before it is written.
    fn write(&mut self, medium: &mut dyn WriteTiming, pause: f64, open: f64, len: u64) {
        self.now += pause;
        let opening = RecordOpening {
            now: instant(self.now),
            at: self.at,
            soon: open == 0.0,
            behind: false,
            most: MOST,
        };
        let gap = self
            .policy
            .gap(&opening)
            .map(|gap| gap.next_multiple_of(512));
        self.at += u64::from(gap.unwrap_or(0));
        if gap.is_some() {
            self.policy.placed(self.at);
        }
        self.now += open;
        let done = medium.done(self.now, self.at, len);
        self.policy.written(&CompletedWrite {
            at: self.at,
            len,
            issued: instant(self.now),
            done: instant(done),
            alone: true,
        });
        self.took.push(done - self.now);
        self.gaps.push(gap.unwrap_or(0));
        self.now = done;
        self.at += len;
    }

    fn writes(&mut self, n: usize, medium: &mut dyn WriteTiming, pause: f64) {
        for _ in 0..n {
            self.write(medium, pause, 0.0, 8192);
        }
    }

    /// Returns the mean duration of the last `n` writes, in seconds.
    fn lately(&self, n: usize) -> f64 {
        self.took[self.took.len() - n..].iter().sum::<f64>() / n as f64
    }

    /// Returns the number of writes with an offset among the last `n`.
    fn with_gaps(&self, n: usize) -> usize {
        let lately = &self.gaps[self.gaps.len() - n..];
        lately.iter().filter(|gap| **gap > 0).count()
    }
}

/// Returns the mean duration of a write directly after the last one.
fn without_gaps(mut medium: impl WriteTiming, pause: f64) -> f64 {
    let (mut now, mut at, mut took) = (1.0, 1 << 20, 0.0);
    for _ in 0..500 {
        now += pause;
        let done = medium.done(now, at, 8192);
        took += done - now;
        (now, at) = (done, at + 8192);
    }
    took / 500.0
}

#[test]
fn rotational_offsets_save_a_lone_writer_most_rotations_of_a_disk() {
    for mut disk in DISKS {
        for pause in [0.0, 200e-6, 1e-3] {
            let plain = without_gaps(disk, pause);
            let mut writer = OffsetWriter::new();
            writer.writes(1000, &mut disk, pause);
            let gapped = writer.lately(500);
            assert!(
                gapped < 0.6 * plain,
                "{} ms a turn, {pause} s of pause: {plain} s without gaps, {gapped} s with them",
                disk.turn * 1e3
            );
            let turn = writer.policy.turn().expect("it is known").as_secs_f64();
            assert!((turn / disk.turn - 1.0).abs() < 0.15, "{turn} s");
        }
    }
}

#[test]
fn a_fast_device_gets_no_rotational_offsets() {
    let mut writer = OffsetWriter::new();
    let mut n = 0;
    let mut flash = TimedDevice(|| {
        n += 1;
        if n % 50 == 0 { 4e-3 } else { 80e-6 }
    });
    writer.writes(20_000, &mut flash, 0.0);
    assert_eq!(writer.with_gaps(20_000), 0);
    assert!(!writer.policy.wants_gaps());
}

/// The mean duration of 6 ms looks like a slow disk.
#[test]
fn flash_with_occasional_slow_writes_gets_no_rotational_offsets() {
    let mut writer = OffsetWriter::new();
    let mut n = 0;
    let mut flash = TimedDevice(|| {
        n += 1;
        if n % 8 == 0 { 50e-3 } else { 80e-6 }
    });
    writer.writes(20_000, &mut flash, 0.0);
    assert_eq!(writer.with_gaps(20_000), 0);
    assert!(!writer.policy.wants_gaps());
}

#[test]
fn a_slow_device_that_does_not_rotate_is_probed_ever_less_often() {
    let mut writer = OffsetWriter::new();
    let mut slow = TimedDevice(|| 6e-3);
    writer.writes(10_000, &mut slow, 0.0);
    let at_first = writer.with_gaps(10_000);
    assert!(at_first < 400, "{at_first}");
    writer.writes(100_000, &mut slow, 0.0);
    let later = writer.with_gaps(100_000);
    assert!(later < 500, "{later}");
}

#[test]
fn random_write_times_cause_few_rotational_offsets() {
    let mut state = 7u64;
    let mut random = TimedDevice(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        1e-3 + (state >> 40) as f64 / (1u64 << 24) as f64 * 12e-3
    });
    let mut writer = OffsetWriter::new();
    writer.writes(100_000, &mut random, 0.0);
    let share = writer.with_gaps(100_000);
    assert!(share < 10_000, "{share}");
}

#[test]
fn a_writer_that_opens_a_record_long_before_its_flush_gets_its_own_lead_time() {
    let mut disk = DISKS[1];
    let mut writer = OffsetWriter::new();
    writer.writes(200, &mut disk, 0.0);
    // Like a journal: blocks that are flushed a little later, then a block that is flushed at once.
    let plain = 2.0 * 8.333e-3;
    for _ in 0..600 {
        writer.write(&mut disk, 100e-6, 1.5e-3, 24 << 10);
        writer.write(&mut disk, 100e-6, 0.0, 8 << 10);
    }
    let pair = 2.0 * writer.lately(400);
    assert!(pair < 0.7 * plain, "{pair} s for both");
    let commits: Vec<f64> = writer.took.iter().skip(1).step_by(2).copied().collect();
    let commit = commits[commits.len() - 200..].iter().sum::<f64>() / 200.0;
    assert!(commit < 0.5 * 8.333e-3, "{commit} s for the second");
}

/// Records of 36 and 8 KiB, like those of ext4 with blocks of 4 KiB. The first record waits for its flush.
#[test]
fn a_journal_with_long_transactions_gains_from_its_first_commit_on() {
    for mut disk in [DISKS[0], DISKS[1]] {
        let transactions = |writer: &mut OffsetWriter, disk: &mut RotatingDisk, n: usize| {
            let began = writer.now;
            for _ in 0..n {
                writer.write(disk, 100e-6, 200e-6, 36 << 10);
                writer.write(disk, 0.0, 0.0, 8 << 10);
            }
            (writer.now - began) / n as f64
        };
        let mut never = OffsetWriter::new();
        never.policy = OffsetState::new(OffsetPolicy::Never);
        let plain = transactions(&mut never, &mut disk, 1000);
        let mut writer = OffsetWriter::new();
        transactions(&mut writer, &mut disk, 500);
        let gapped = transactions(&mut writer, &mut disk, 500);
        assert!(
            gapped < 0.75 * plain,
            "{} ms a turn: {plain} s without gaps, {gapped} s with them",
            disk.turn * 1e3
        );
    }
}

#[test]
fn pauses_of_several_rotations_are_measured_in_rotations() {
    for mut disk in DISKS {
        let pause = 4.4 * disk.turn;
        let plain = without_gaps(disk, pause);
        let mut writer = OffsetWriter::new();
        writer.writes(600, &mut disk, 0.0);
        writer.writes(400, &mut disk, pause);
        // If the offset would be longer than the maximum, the log leaves none.
        if writer.with_gaps(200) > 150 {
            assert!(writer.lately(200) < 0.85 * plain, "{} s", disk.turn);
        }
    }
}

#[test]
fn another_disk_behind_the_same_log_is_learnt_anew() {
    let mut writer = OffsetWriter::new();
    for (before, after) in [(1, 2), (2, 1), (1, 0)] {
        writer.writes(1000, &mut { DISKS[before] }, 0.0);
        writer.writes(3000, &mut { DISKS[after] }, 0.0);
        let (plain, gapped) = (without_gaps(DISKS[after], 0.0), writer.lately(500));
        assert!(
            gapped < 0.7 * plain,
            "{before} to {after}: {plain} s, {gapped} s"
        );
    }
    writer.writes(3000, &mut TimedDevice(|| 100e-6), 0.0);
    assert_eq!(writer.with_gaps(1000), 0);
}

#[test]
fn useless_rotational_offsets_cost_no_more_than_a_few_rotations() {
    // The disk rotates, but must always seek first, so no offset helps.
    struct SeekingDisk(RotatingDisk, u64);
    impl WriteTiming for SeekingDisk {
        fn done(&mut self, now: f64, at: u64, len: u64) -> f64 {
            self.1 = self
                .1
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let away = (self.1 >> 40) as f64 / (1u64 << 24) as f64 * 3.0 * self.0.turn;
            self.0.done(now + away, at, len)
        }
    }
    let plain = without_gaps(SeekingDisk(DISKS[1], 3), 0.0);
    let mut writer = OffsetWriter::new();
    writer.writes(300, &mut { DISKS[1] }, 0.0);
    writer.writes(4000, &mut SeekingDisk(DISKS[1], 3), 0.0);
    let gapped = writer.lately(4000);
    assert!(gapped < 1.03 * plain, "{plain} s, {gapped} s");
}

#[test]
fn rotational_offsets_that_slow_writes_down_stop_after_a_few_writes() {
    /// A write at the end of the last write takes one rotation, all other writes take several.
    struct CostlyGapDisk(u64);
    impl WriteTiming for CostlyGapDisk {
        fn done(&mut self, now: f64, at: u64, len: u64) -> f64 {
            let goes_on = at == std::mem::replace(&mut self.0, at + len);
            now + if goes_on { 8.333e-3 } else { 40e-3 }
        }
    }
    // With and without learning on another disk before.
    for learnt in [300, 0] {
        let mut writer = OffsetWriter::new();
        writer.writes(learnt, &mut { DISKS[1] }, 0.0);
        writer.writes(4000, &mut CostlyGapDisk(writer.at), 0.0);
        let took = writer.lately(4000);
        assert!(took < 1.05 * 8.333e-3, "{took} s");
    }
}

#[test]
fn a_record_opened_during_a_write_is_placed_at_the_predicted_head_position() {
    let mut disk = DISKS[1];
    let mut writer = OffsetWriter::new();
    writer.writes(500, &mut disk, 0.0);
    let mut took = Vec::new();
    for _ in 0..200 {
        // The next record is opened while this one is being written.
        let at = writer.at;
        let done = disk.done(writer.now, at, 8192);
        let opening = RecordOpening {
            now: instant(writer.now + 1e-3),
            at: at + 8192,
            soon: true,
            behind: true,
            most: MOST,
        };
        let gap = writer.policy.gap(&opening).unwrap_or(0);
        let next = at + 8192 + u64::from(gap.next_multiple_of(512));
        if gap > 0 {
            // The record in flight was placed before; the policy no longer knows its place.
            writer.policy.placed(next);
        }
        writer.policy.written(&CompletedWrite {
            at,
            len: 8192,
            issued: instant(writer.now),
            done: instant(done),
            alone: true,
        });
        took.push(done - writer.now);
        (writer.now, writer.at) = (done, next);
    }
    let mean = took[100..].iter().sum::<f64>() / 100.0;
    assert!(mean < 0.6 * 8.333e-3, "{mean} s");
}

#[test]
fn offset_policy_never_leaves_no_offsets_and_policy_scattered_leaves_all_kinds() {
    let opening = RecordOpening {
        now: instant(1.0),
        at: 1 << 20,
        soon: true,
        behind: false,
        most: MOST,
    };
    let asked = |gaps| {
        let mut policy = OffsetState::new(gaps);
        (0..1000).map(|_| policy.gap(&opening)).collect::<Vec<_>>()
    };
    assert!(asked(OffsetPolicy::Never).iter().all(Option::is_none));
    let seen = asked(OffsetPolicy::Scattered(1));
    assert_eq!(seen, asked(OffsetPolicy::Scattered(1)));
    assert_ne!(seen, asked(OffsetPolicy::Scattered(2)));
    assert!(seen.iter().flatten().all(|gap| *gap < MOST));
    assert!(seen.iter().flatten().any(|gap| *gap > MOST / 2));
    assert!(seen.iter().filter(|gap| gap.is_none()).count() > 200);
}
