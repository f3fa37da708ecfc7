//! Refinement of extents by reported and by missing parts.

use super::*;

const MIB: u64 = 1 << 20;

fn extent(offset: u64, end: u64, under: Under) -> Extent {
    Extent { offset, end, under }
}

fn part(start: u64, end: u64, place: In) -> Part {
    Part { start, end, place }
}

/// A device whose first MiB is in the log, the second in memory, the third lost, and the others on the data device. An
/// answer covers at most `most` bytes, and only `answers` questions are answered.
struct Device {
    most: u64,
    answers: usize,
    asked: Vec<(u64, u64)>,
}

impl Tell for &mut Device {
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<Part>, u64)> {
        self.asked.push((start, end));
        if self.asked.len() > self.answers {
            return None;
        }
        let end = end.min(start.saturating_add(self.most));
        let all = [
            part(0, MIB, In::Log),
            part(MIB, 2 * MIB, In::Memory),
            part(2 * MIB, 3 * MIB, In::Unknown),
            part(3 * MIB, u64::MAX, In::Home),
        ];
        let clipped = all.map(|one| part(one.start.max(start), one.end.min(end), one.place));
        let parts = clipped.into_iter().filter(|one| one.start < one.end);
        Some((parts.collect(), end))
    }
}

fn device(most: u64, answers: usize) -> Device {
    Device {
        most,
        answers,
        asked: Vec::new(),
    }
}

#[test]
fn each_part_is_what_is_told_of_it_and_holes_stay_what_they_are() {
    let extents = [
        extent(0, 100, Under::Nothing),
        // The partition begins at half a MiB: half a MiB of the log, then half a MiB of memory.
        extent(100, MIB + 100, Under::Data(Some(0))),
        extent(MIB + 100, 2 * MIB, Under::Data(Some(4 * MIB))),
        extent(2 * MIB, 3 * MIB, Under::Data(Some(2 * MIB))),
        extent(3 * MIB, 4 * MIB, Under::Data(None)),
    ];
    let expected = [
        extent(0, 100, Under::Nothing),
        extent(100, MIB / 2 + 100, Under::Log),
        extent(MIB / 2 + 100, MIB + 100, Under::Memory),
        extent(MIB + 100, 2 * MIB, Under::Data(Some(4 * MIB))),
        extent(2 * MIB, 5 * MIB / 2, Under::Unknown),
        extent(5 * MIB / 2, 3 * MIB, Under::Data(Some(5 * MIB / 2))),
        extent(3 * MIB, 4 * MIB, Under::Unknown),
    ];
    for most in [u64::MAX, MIB / 4] {
        let mut device = device(most, usize::MAX);
        let refined = refine(&extents, Some(MIB / 2), &mut device);
        // Parts on the data device are not joined.
        let mut joined: Vec<Extent> = Vec::new();
        for one in refined {
            match (joined.last_mut(), one.under) {
                (Some(last), Under::Data(Some(at)))
                    if last.under == Under::Data(at.checked_sub(last.end - last.offset)) =>
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
fn what_is_not_answered_is_not_known_and_not_asked_over_and_over() {
    let extents: Vec<Extent> = (0..3000)
        .map(|n| extent(n * 4096, (n + 1) * 4096, Under::Data(Some(n * 7 * MIB))))
        .collect();
    let mut silent = device(u64::MAX, 0);
    let refined = refine(&extents, Some(0), &mut silent);
    assert_eq!(refined, [extent(0, 3000 * 4096, Under::Unknown)]);
    let mut scattered = device(u64::MAX, usize::MAX);
    let refined = refine(&extents, Some(0), &mut scattered);
    assert_eq!(scattered.asked.len(), QUESTIONS_MAX);
    assert_eq!(refined[0], extent(0, 4096, Under::Log));
    let last = refined.last().map(|one| (one.end, one.under));
    assert_eq!(last, Some((3000 * 4096, Under::Unknown)));
}

#[test]
fn answers_that_cannot_be_are_none() {
    struct Wrong(Vec<Part>, u64);
    impl Tell for Wrong {
        fn tell(&mut self, _: u64, _: u64) -> Option<(Vec<Part>, u64)> {
            Some((self.0.clone(), self.1))
        }
    }
    let extents = [extent(0, MIB, Under::Data(Some(MIB)))];
    for wrong in [
        Wrong(
            vec![part(MIB, 2 * MIB, In::Log), part(0, MIB, In::Log)],
            2 * MIB,
        ),
        Wrong(vec![part(2 * MIB, MIB, In::Log)], 2 * MIB),
        Wrong(vec![part(0, 2 * MIB, In::Log)], MIB),
    ] {
        let refined = refine(&extents, Some(0), wrong);
        assert_eq!(refined, [extent(0, MIB, Under::Unknown)]);
    }
    // The answer omits the middle, and the bytes after its last part.
    let gaps = vec![
        part(0, MIB + 100, In::Log),
        part(MIB + 200, MIB + 300, In::Memory),
    ];
    let refined = refine(&extents, Some(0), Wrong(gaps, u64::MAX));
    let expected = [
        extent(0, 100, Under::Log),
        extent(100, 200, Under::Unknown),
        extent(200, 300, Under::Memory),
        extent(300, MIB, Under::Unknown),
    ];
    assert_eq!(refined, expected);
}
