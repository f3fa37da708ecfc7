use std::time::Duration;

use super::*;

const PART: &str = "k9xxg08uxm";

fn flash(channels: u32, dies_per_channel: u32) -> Flash {
    let arrangement = ChipArrangement {
        channels,
        dies_per_channel,
    };
    Flash::new(named(PART).unwrap(), arrangement)
}

fn block(channel: u32, die: u32, plane: u32, block: u32) -> EraseBlock {
    EraseBlock {
        channel,
        die,
        plane,
        block,
    }
}

fn read(block: EraseBlock, page: u32) -> FlashOp {
    FlashOp::Read { block, page }
}

fn program(block: EraseBlock, page: u32) -> FlashOp {
    FlashOp::Program { block, page }
}

/// Submits all requests at the start; returns their completion times, in microseconds.
fn times(flash: &mut Flash, ops: &[FlashOp]) -> Vec<u64> {
    for (id, op) in (0..).zip(ops) {
        flash.submit(Instant::default(), id, *op).unwrap();
    }
    run(flash, ops.len())
}

fn run(flash: &mut Flash, count: usize) -> Vec<u64> {
    let (mut done, mut times) = (Vec::new(), vec![0; count]);
    while let Some(at) = flash.next_event() {
        flash.advance(at, &mut done);
    }
    assert_eq!(done.len(), count);
    assert!(done.is_sorted_by_key(|completion| completion.at));
    for FlashCompletion { id, at } in done {
        times[id as usize] = at.as_nanos() / 1000;
    }
    times
}

// Times of this part in microseconds: read 25, program 200, erase 1500, transfer 102 (4096 bytes of 25 ns).

#[test]
fn flash_times_of_read_program_and_erase_consist_of_array_and_transfer_times() {
    let at = block(0, 0, 0, 0);
    assert_eq!(times(&mut flash(1, 1), &[read(at, 0)]), [127]);
    assert_eq!(times(&mut flash(1, 1), &[program(at, 0)]), [302]);
    assert_eq!(times(&mut flash(1, 1), &[FlashOp::Erase(at)]), [1500]);
}

#[test]
fn requests_to_one_plane_are_executed_one_after_another() {
    let at = block(0, 0, 0, 0);
    let ops = [program(at, 0), program(at, 1), read(at, 0)];
    assert_eq!(times(&mut flash(1, 1), &ops), [302, 604, 732]);
}

#[test]
fn planes_of_a_die_overlap_array_time_but_not_transfers() {
    let ops = [
        program(block(0, 0, 0, 0), 0),
        program(block(0, 0, 1, 0), 0),
        program(block(0, 0, 0, 0), 1),
    ];
    assert_eq!(times(&mut flash(1, 1), &ops), [404, 404, 707]);
}

#[test]
fn planes_of_a_die_do_not_overlap_different_operations() {
    let ops = [
        FlashOp::Erase(block(0, 0, 0, 0)),
        read(block(0, 0, 1, 0), 0),
    ];
    assert_eq!(times(&mut flash(1, 1), &ops), [1500, 1627]);
}

#[test]
fn dies_of_a_channel_overlap_except_for_transfers_and_channels_overlap_fully() {
    let two = |a: EraseBlock, b: EraseBlock| [program(a, 0), program(b, 0)];
    let shared = two(block(0, 0, 0, 0), block(0, 1, 0, 0));
    assert_eq!(times(&mut flash(1, 2), &shared), [302, 404]);
    let apart = two(block(0, 0, 0, 0), block(1, 0, 0, 0));
    assert_eq!(times(&mut flash(2, 1), &apart), [302, 302]);
}

#[test]
fn a_page_is_programmed_once_and_in_order() {
    let mut flash = flash(1, 1);
    let at = block(0, 0, 0, 7);
    let mut submit = |op| flash.submit(Instant::default(), 0, op);
    let out_of_order = FlashError::OutOfOrder {
        block: at,
        page: 1,
        next: 0,
    };
    assert_eq!(submit(program(at, 1)), Err(out_of_order));
    assert_eq!(submit(program(at, 0)), Ok(()));
    let again = FlashError::Programmed { block: at, page: 0 };
    assert_eq!(submit(program(at, 0)), Err(again));
    assert_eq!(submit(FlashOp::Erase(at)), Ok(()));
    assert_eq!(submit(program(at, 0)), Ok(()));
}

#[test]
fn pages_may_be_skipped_and_stay_unwritable_until_the_block_is_erased() {
    let mut flash = flash(1, 1);
    let at = block(0, 0, 0, 7);
    flash.submit(Instant::default(), 0, program(at, 0)).unwrap();
    flash.skip(at, 5).unwrap();
    flash.submit(Instant::default(), 0, program(at, 5)).unwrap();
    let passed = FlashError::Programmed { block: at, page: 3 };
    assert_eq!(flash.skip(at, 3), Err(passed));
    let none = FlashError::NoSuchPlace(program(at, 64));
    assert_eq!(flash.skip(at, 64), Err(none));
    assert_eq!(flash.wear(at).unwrap().programs, 2);
    flash
        .submit(Instant::default(), 0, FlashOp::Erase(at))
        .unwrap();
    flash.submit(Instant::default(), 0, program(at, 0)).unwrap();
}

#[test]
fn a_refused_request_has_no_effect() {
    let mut flash = flash(1, 1);
    let at = block(0, 0, 0, 0);
    assert!(flash.submit(Instant::default(), 0, program(at, 3)).is_err());
    assert_eq!(flash.wear(at), Some(BlockWear::default()));
    assert_eq!(flash.next_event(), None);
}

#[test]
fn programs_and_erases_are_counted_by_block() {
    let mut flash = flash(1, 1);
    let (a, b) = (block(0, 0, 2, 5), block(0, 0, 2, 6));
    let ops = [
        program(a, 0),
        program(a, 1),
        FlashOp::Erase(a),
        program(a, 0),
        program(b, 0),
    ];
    times(&mut flash, &ops);
    let wear = |programs, erases| BlockWear {
        programs,
        erases,
        reads: 0,
        next_page: 1,
    };
    assert_eq!(flash.wear(a), Some(wear(3, 1)));
    assert_eq!(flash.wear(b), Some(wear(1, 0)));
    let programs: u64 = flash.all_wear().iter().map(|wear| wear.programs).sum();
    assert_eq!(programs, 4);
}

#[test]
fn addresses_outside_of_the_chip_are_refused() {
    let mut flash = flash(1, 2);
    let mut submit = |op| flash.submit(Instant::default(), 0, op);
    for op in [
        read(block(1, 0, 0, 0), 0),
        read(block(0, 2, 0, 0), 0),
        read(block(0, 0, 4, 0), 0),
        read(block(0, 0, 0, 2048), 0),
        read(block(0, 0, 0, 0), 64),
        program(block(0, 0, 0, 0), 64),
    ] {
        assert_eq!(submit(op), Err(FlashError::NoSuchPlace(op)));
    }
}

#[test]
fn a_late_advance_returns_the_original_completion_times() {
    let mut flash = flash(2, 2);
    let mut ops = Vec::new();
    for n in 0..32 {
        ops.push(program(block(n % 2, n / 2 % 2, n / 4 % 4, n / 16), 0));
    }
    let stepwise = times(&mut flash, &ops);
    let mut late = self::flash(2, 2);
    for (id, op) in (0..).zip(&ops) {
        late.submit(Instant::default(), id, *op).unwrap();
    }
    let mut done = Vec::new();
    late.advance(Instant::default().plus(Duration::from_secs(9)), &mut done);
    done.sort_by_key(|completion| completion.id);
    let at_once: Vec<u64> = done.iter().map(|c| c.at.as_nanos() / 1000).collect();
    assert_eq!(at_once, stepwise);
}

#[test]
fn every_named_flash_part_is_found_with_the_source_of_its_figures() {
    for (name, source) in names() {
        let part = named(name).unwrap();
        assert!(
            source.contains("table") || source.contains("data sheet"),
            "{name}"
        );
        assert!(part.page_bytes.is_power_of_two() && part.pages_per_block.is_power_of_two());
    }
    assert_eq!(names().count(), 4);
    assert_eq!(named("no such part"), None);
    // 16 Gbit, as in its name.
    let arrangement = ChipArrangement {
        channels: 1,
        dies_per_channel: 1,
    };
    let micron = Flash::new(named("mt29f16g08abaca").unwrap(), arrangement);
    assert_eq!(micron.bytes(), 2 << 30);
}
