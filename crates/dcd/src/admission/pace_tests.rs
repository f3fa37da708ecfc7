use super::*;

const SEGMENT: u32 = 1 << 20;

fn at(seconds: f64) -> Instant {
    Instant::default().plus(Duration::from_secs_f64(seconds))
}

fn near(value: f64, wanted: f64) {
    let off = (value - wanted).abs();
    assert!(off <= wanted.abs() * 1e-6, "{value} instead of {wanted}");
}

/// Returns the pace of a burst that began at 0 and destaged windows of one fragment, given by bytes and end time.
fn emptied(windows: &[(u64, f64)]) -> LogPace {
    let mut pace = LogPace::new(SegmentSeq(0));
    pace.begin(at(0.0));
    for (bytes, by) in windows {
        empty(&mut pace, *bytes, *by);
    }
    pace
}

fn empty(pace: &mut LogPace, bytes: u64, by: f64) {
    pace.begin_window(bytes, 1, 1);
    pace.wrote_home(1, at(by));
    pace.end_window();
}

#[test]
fn the_write_rate_averages_all_writes_at_first_and_then_the_last_seconds() {
    assert_eq!(LogPace::new(SegmentSeq(0)).rate(), None);
    // One write in one second, then three in three: four in four.
    near(emptied(&[(1_000_000, 1.0)]).rate().unwrap(), 1e6);
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    pace.begin_window(3_000_000, 3, 3);
    for second in [2.0, 3.0, 4.0] {
        pace.wrote_home(1, at(second));
    }
    near(pace.rate().unwrap(), 1e6);
    // Then three seconds for one: five in seven, not the mean of the two rates.
    let mut pace = emptied(&[(1, 1.0), (1, 1.5), (1, 2.0), (1, 2.0), (1, 4.0)]);
    near(pace.writes_assumed(), 5.0 / 4.0);
    // However long the device was fast, a few seconds are enough to measure that it is slow now.
    (1..=400).for_each(|n| empty(&mut pace, 1_000_000, 4.0 + f64::from(n) / 4.0));
    near((pace.writes_assumed() * 100.0).round(), 400.0);
    empty(&mut pace, 1_000_000, 105.0);
    assert!(
        (3.3..3.5).contains(&pace.writes_assumed()),
        "{}",
        pace.writes_assumed()
    );
    (106..135).for_each(|second| empty(&mut pace, 1_000_000, f64::from(second)));
    assert!(
        (1.0..1.05).contains(&pace.writes_assumed()),
        "{}",
        pace.writes_assumed()
    );
}

#[test]
fn log_bytes_freed_per_data_device_write_are_those_of_the_current_window() {
    // Overwritten data took few writes.
    let mut pace = emptied(&[(8_000_000, 1.0), (8_000_000, 2.0)]);
    near(pace.rate().unwrap(), 8e6);
    // The next data takes one write for each fragment.
    pace.begin_window(8_000_000, 2_000, 2_000);
    near(pace.rate().unwrap(), 4e3);
    pace.end_window();
    // An empty window does not change the rate.
    pace.begin_window(8_000_000, 0, 0);
    pace.end_window();
    near(pace.rate().unwrap(), 4e3);
}

#[test]
fn yielding_to_clients_and_time_between_bursts_do_not_lower_the_rate() {
    let mut pace = LogPace::new(SegmentSeq(0));
    pace.stood_back(Duration::from_secs(100));
    pace.begin(at(200.0));
    pace.begin_window(2_000_000, 2, 2);
    // Ten seconds, of which destaging yielded for eight.
    pace.stood_back(Duration::from_secs(8));
    pace.wrote_home(1, at(205.0));
    pace.wrote_home(1, at(210.0));
    pace.end_window();
    near(pace.rate().unwrap(), 1e6);
    pace.end();
    pace.stood_back(Duration::from_secs(292));
    pace.begin(at(900.0));
    empty(&mut pace, 1_000_000, 901.0);
    near(pace.rate().unwrap(), 1e6);
    // If destaging only yielded, its rate stays as it was.
    pace.stood_back(Duration::from_secs(4));
    empty(&mut pace, 1_000_000, 905.0);
    near(pace.rate().unwrap(), 1e6);
}

#[test]
fn destaged_fragments_count_at_once_until_their_segment_is_free_or_the_burst_ends() {
    let mut pace = LogPace::new(SegmentSeq(0));
    pace.begin(at(0.0));
    pace.begin_window(1_000, 4, 4);
    pace.wrote_home(1, at(1.0));
    assert_eq!(pace.unflushed(), (250.0, 1));
    // Fragments that are no longer live when the window ends count as destaged: their space becomes free, too.
    pace.end_window();
    assert_eq!(pace.unflushed(), (1_000.0, 4));
    // The next window is written while the one before is committed.
    pace.begin_window(600, 3, 1);
    pace.wrote_home(2, at(3.0));
    pace.freed(1_000, 4);
    assert_eq!(pace.unflushed(), (400.0, 2));
    // More fragments than the window has do not free more space than it has.
    pace.went_home(9);
    assert_eq!(pace.unflushed(), (600.0, 3));
    pace.end();
    assert_eq!(pace.unflushed(), (0.0, 0));
    pace.wrote_home(1, at(5.0));
    assert_eq!(pace.unflushed(), (0.0, 0), "of no window");
}

#[test]
fn a_window_without_live_data_counts_as_a_whole() {
    let mut pace = emptied(&[]);
    pace.begin_window(3_000_000, 0, 0);
    assert_eq!(pace.unflushed(), (0.0, 0));
    pace.end_window();
    assert_eq!(pace.unflushed(), (3_000_000.0, 0));
    assert_eq!(pace.rate(), None);
}

#[test]
fn a_writer_waits_for_taken_space_at_the_given_multiple_of_the_emptying_rate() {
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    let head = SegmentSeq(0);
    assert_eq!(pace.wait(1.0, at(2.0)), Duration::ZERO);
    pace.take(500_000, head, SEGMENT);
    // The allowance of a hundredth of a second was saved.
    near(pace.wait(1.0, at(2.0)).as_secs_f64(), 0.49);
    near(pace.wait(2.0, at(2.0)).as_secs_f64(), 0.245);
    near(pace.wait(1.0, at(2.2)).as_secs_f64(), 0.29);
    near(pace.wait(2.0, at(2.3)).as_secs_f64(), 0.045);
    assert_eq!(pace.wait(1.0, at(2.4)), Duration::ZERO);
}

#[test]
fn paced_requests_proceed_at_the_emptying_rate_and_idle_time_is_not_saved_up() {
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    // A minute without requests saves no more allowance than a hundredth of a second does.
    let (began, mut now, mut taken) = (60.0, 60.0, 0);
    while now < began + 2.0 {
        let wait = pace.wait(1.0, at(now));
        if wait.is_zero() {
            pace.take(4_000, SegmentSeq(0), SEGMENT);
            taken += 4_000;
        } else {
            now += wait.as_secs_f64();
        }
    }
    assert!((2_000_000..=2_020_000).contains(&taken), "{taken}");
}

#[test]
fn no_request_delays_the_next_by_more_than_a_second() {
    let mut pace = emptied(&[(1_000, 1.0)]);
    pace.take(1 << 30, SegmentSeq(0), SEGMENT);
    near(pace.wait(1.0, at(2.0)).as_secs_f64(), 1.0);
    near(pace.wait(1.0, at(2.75)).as_secs_f64(), 0.25);
    assert_eq!(pace.wait(1.0, at(3.1)), Duration::ZERO);
}

#[test]
fn log_space_of_a_request_is_estimated_from_the_segments_it_filled() {
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    // 64 KiB of requests fill a segment: each takes 16 times its size.
    for segment in 0..60 {
        for _ in 0..16 {
            pace.take(4_096, SegmentSeq(segment), SEGMENT);
        }
    }
    pace.wait(1.0, at(1e6));
    assert!(pace.left_of_newest(SEGMENT) < 1e-6);
    pace.take(4_096, SegmentSeq(60), SEGMENT);
    near(pace.left_of_newest(SEGMENT), 15.0 / 16.0);
    // 64 KiB of the log, less the saved allowance.
    near(pace.wait(1.0, at(1e6)).as_secs_f64(), 0.065_536 - 0.01);
}

#[test]
fn segments_filled_without_a_request_are_charged_to_no_request() {
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    assert_eq!(pace.wait(1.0, at(1.0)), Duration::ZERO);
    pace.take(100_000, SegmentSeq(5), SEGMENT);
    near(pace.wait(1.0, at(1.0)).as_secs_f64(), 0.09);
}

#[test]
fn space_taken_while_writers_were_unpaced_is_not_waited_for() {
    let mut pace = emptied(&[(1_000_000, 1.0)]);
    pace.take(1 << 30, SegmentSeq(0), SEGMENT);
    pace.forgive();
    assert_eq!(pace.wait(1.0, at(1.0)), Duration::ZERO);
    pace.take(500_000, SegmentSeq(0), SEGMENT);
    near(pace.wait(1.0, at(1.0)).as_secs_f64(), 0.5);
}
