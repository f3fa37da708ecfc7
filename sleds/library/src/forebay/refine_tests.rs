//! Refinement of extents by reported and by missing parts.

use super::*;

const MIB: u64 = 1 << 20;

fn extent(offset: u64, end: u64, under: BackingTier) -> BackingExtent {
    BackingExtent { offset, end, under }
}

fn part(start: u64, end: u64, place: ReportedTier) -> TierExtent {
    TierExtent { start, end, place }
}

/// A device whose first MiB is in the log, the second in memory, the third lost, and the others on the data device. An
/// answer covers at most `most` bytes, and only `answers` questions are answered.
struct FakeReporter {
    most: u64,
    answers: usize,
    asked: Vec<(u64, u64)>,
}

impl TierReporter for &mut FakeReporter {
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<TierExtent>, u64)> {
        self.asked.push((start, end));
        if self.asked.len() > self.answers {
            return None;
        }
        let end = end.min(start.saturating_add(self.most));
        let all = [
            part(0, MIB, ReportedTier::Log),
            part(MIB, 2 * MIB, ReportedTier::Memory),
            part(2 * MIB, 3 * MIB, ReportedTier::Unknown),
            part(3 * MIB, u64::MAX, ReportedTier::Home),
        ];
        let clipped = all.map(|one| part(one.start.max(start), one.end.min(end), one.place));
        let parts = clipped.into_iter().filter(|one| one.start < one.end);
        Some((parts.collect(), end))
    }
}

fn device(most: u64, answers: usize) -> FakeReporter {
    FakeReporter {
        most,
        answers,
        asked: Vec::new(),
    }
}

#[test]
fn every_range_has_its_reported_tier_and_holes_stay_holes() {
    let extents = [
        extent(0, 100, BackingTier::Nothing),
        // The partition begins at half a MiB: half a MiB of the log, then half a MiB of memory.
        extent(100, MIB + 100, BackingTier::Data(Some(0))),
        extent(MIB + 100, 2 * MIB, BackingTier::Data(Some(4 * MIB))),
        extent(2 * MIB, 3 * MIB, BackingTier::Data(Some(2 * MIB))),
        extent(3 * MIB, 4 * MIB, BackingTier::Data(None)),
    ];
    let expected = [
        extent(0, 100, BackingTier::Nothing),
        extent(100, MIB / 2 + 100, BackingTier::Log),
        extent(MIB / 2 + 100, MIB + 100, BackingTier::Memory),
        extent(MIB + 100, 2 * MIB, BackingTier::Data(Some(4 * MIB))),
        extent(2 * MIB, 5 * MIB / 2, BackingTier::Unknown),
        extent(5 * MIB / 2, 3 * MIB, BackingTier::Data(Some(5 * MIB / 2))),
        extent(3 * MIB, 4 * MIB, BackingTier::Unknown),
    ];
    for most in [u64::MAX, MIB / 4] {
        let mut device = device(most, usize::MAX);
        let refined = refine(&extents, Some(MIB / 2), &mut device);
        // Parts on the data device are not joined.
        let mut joined: Vec<BackingExtent> = Vec::new();
        for one in refined {
            match (joined.last_mut(), one.under) {
                (Some(last), BackingTier::Data(Some(at)))
                    if last.under == BackingTier::Data(at.checked_sub(last.end - last.offset)) =>
                {
                    last.end = one.end;
                }
                _ => joined.push(one),
            }
        }
        assert_eq!(joined, expected, "{most}");
    }
}

#[test]
fn unanswered_ranges_are_unknown_and_not_queried_again() {
    let extents: Vec<BackingExtent> = (0..3000)
        .map(|n| {
            extent(
                n * 4096,
                (n + 1) * 4096,
                BackingTier::Data(Some(n * 7 * MIB)),
            )
        })
        .collect();
    let mut silent = device(u64::MAX, 0);
    let refined = refine(&extents, Some(0), &mut silent);
    assert_eq!(refined, [extent(0, 3000 * 4096, BackingTier::Unknown)]);
    let mut scattered = device(u64::MAX, usize::MAX);
    let refined = refine(&extents, Some(0), &mut scattered);
    assert_eq!(scattered.asked.len(), QUESTIONS_MAX);
    assert_eq!(refined[0], extent(0, 4096, BackingTier::Log));
    let last = refined.last().map(|one| (one.end, one.under));
    assert_eq!(last, Some((3000 * 4096, BackingTier::Unknown)));
}

#[test]
fn impossible_answers_are_treated_as_unknown() {
    struct WrongReporter(Vec<TierExtent>, u64);
    impl TierReporter for WrongReporter {
        fn tell(&mut self, _: u64, _: u64) -> Option<(Vec<TierExtent>, u64)> {
            Some((self.0.clone(), self.1))
        }
    }
    let extents = [extent(0, MIB, BackingTier::Data(Some(MIB)))];
    for wrong in [
        WrongReporter(
            vec![
                part(MIB, 2 * MIB, ReportedTier::Log),
                part(0, MIB, ReportedTier::Log),
            ],
            2 * MIB,
        ),
        WrongReporter(vec![part(2 * MIB, MIB, ReportedTier::Log)], 2 * MIB),
        WrongReporter(vec![part(0, 2 * MIB, ReportedTier::Log)], MIB),
    ] {
        let refined = refine(&extents, Some(0), wrong);
        assert_eq!(refined, [extent(0, MIB, BackingTier::Unknown)]);
    }
    // The answer omits the middle, and the bytes after its last part.
    let gaps = vec![
        part(0, MIB + 100, ReportedTier::Log),
        part(MIB + 200, MIB + 300, ReportedTier::Memory),
    ];
    let refined = refine(&extents, Some(0), WrongReporter(gaps, u64::MAX));
    let expected = [
        extent(0, 100, BackingTier::Log),
        extent(100, 200, BackingTier::Unknown),
        extent(200, 300, BackingTier::Memory),
        extent(300, MIB, BackingTier::Unknown),
    ];
    assert_eq!(refined, expected);
}
