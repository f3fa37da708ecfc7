//! Runs every target on its corpus and on mutated inputs, by a fixed seed: a test for other work must not depend on
//! chance. `FOREBAY_SEED=fresh` selects and prints a new seed, and `FOREBAY_SEED=N` repeats it.

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::path::Path;

use forebay_fuzz::mutate::mutated;
use forebay_fuzz::{FuzzTarget, TARGETS, corpus, targets};
use forebay_rng::Rng;

const FIXED_SEED: u64 = 1999;
/// Work for a target, in units of its cost.
const WORK: u32 = 120_000;
/// Maximum size of all corpora, in bytes.
const CORPUS_BYTES_MAX: u64 = 300 << 10;

fn seed() -> u64 {
    match std::env::var("FOREBAY_SEED").as_deref() {
        Ok("fresh") => RandomState::new().hash_one(0u8) >> 16,
        Ok(seed) => seed.parse().expect("FOREBAY_SEED is a number or `fresh`"),
        Err(_) => FIXED_SEED,
    }
}

/// Gives `input` to the target. If the target panics, stores the input and prints how to repeat the run.
fn give(target: &FuzzTarget, input: &[u8], what: &str) {
    let run = AssertUnwindSafe(|| (target.run)(input));
    if std::panic::catch_unwind(run).is_err() {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.input", target.name));
        std::fs::write(&kept, input).expect("the input is kept");
        panic!(
            "{} fails with {what}: cargo run -p forebay-fuzz -- replay {} {}",
            target.name,
            target.name,
            kept.display()
        );
    }
}

fn fuzz(name: &str) {
    let target = targets::find(name).expect("a target");
    let entries = corpus::load(name).expect("a corpus");
    for (entry, bytes) in &entries {
        give(target, bytes, &format!("fuzz/corpus/{name}/{entry}"));
    }
    for (entry, bytes) in (target.seeds)() {
        give(target, &bytes, &format!("its own seed {entry}"));
    }
    let corpus: Vec<Vec<u8>> = entries.into_iter().map(|(_, bytes)| bytes).collect();
    let seed = seed();
    println!("{name}: seed {seed}");
    let rng = Rng::new(seed);
    for n in 0..WORK / target.cost {
        give(
            target,
            &mutated(&rng, &corpus),
            &format!("FOREBAY_SEED={seed}, input {n}"),
        );
    }
}

macro_rules! tests {
    ($($test:ident: $target:literal;)+) => {
        $(#[test] fn $test() { fuzz($target); })+

        #[test]
        fn every_target_is_tested() {
            let mut tested = vec![$($target),+];
            let mut there: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            tested.sort_unstable();
            there.sort_unstable();
            assert_eq!(tested, there);
        }
    };
}

tests! {
    any_superblock_is_read_or_refused: "superblock";
    any_record_is_read_or_refused: "record";
    any_summary_is_read_or_refused: "summary";
    any_payload_is_read_or_refused: "payload";
    any_log_is_opened_or_refused: "image";
    any_superblock_of_a_volume_is_read_or_refused: "vsl_superblock";
    any_record_of_a_volume_is_read_or_refused: "vsl_record";
    any_checkpoint_is_read_or_refused: "vsl_checkpoint";
    any_node_is_read_or_refused: "vsl_node";
    any_structure_of_a_filesystem_is_read_or_refused: "dfs_structures";
    any_extended_attributes_are_read_or_refused: "dfs_attributes";
    any_filesystem_can_be_used_or_gives_errors: "dfs_image";
    any_fuse_message_is_read_or_refused: "fuse";
    any_nbd_message_is_read_or_refused: "nbd_format";
    any_nbd_client_is_served_or_cut_off: "nbd_server";
    any_description_is_read_or_refused: "description";
    any_spec_is_read_or_refused: "spec";
    any_option_is_read_or_refused: "options";
    any_size_is_read_or_refused: "sizes";
    any_change_of_parts_of_a_file_is_understood_or_refused: "atomic_parts";
    any_line_on_a_control_socket_is_read_or_refused: "control";
    any_answer_of_a_filesystem_to_sleds_is_believed_as_far_as_it_fits: "sleds_ioctls";
    any_answer_of_a_volume_to_sleds_is_believed_as_far_as_it_fits: "sleds_reply";
}

#[test]
fn every_target_can_be_guided_by_coverage() {
    let directory = corpus::root().join("../fuzz_targets");
    let mut programs: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    programs.sort();
    let mut expected: Vec<String> = TARGETS.iter().map(|t| format!("{}.rs", t.name)).collect();
    expected.sort();
    assert_eq!(programs, expected);
    let manifest = std::fs::read_to_string(corpus::root().join("../Cargo.toml")).unwrap();
    for program in programs {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{program}\"")),
            "{program}"
        );
    }
}

#[test]
fn every_corpus_is_small_and_belongs_to_a_target() {
    let mut bytes = 0;
    for directory in std::fs::read_dir(corpus::root()).unwrap() {
        let name = directory.unwrap().file_name().into_string().unwrap();
        assert!(
            targets::find(&name).is_some(),
            "fuzz/corpus/{name} is of no target"
        );
        let kept = corpus::load(&name).unwrap();
        bytes += kept
            .iter()
            .map(|(_, input)| input.len() as u64)
            .sum::<u64>();
    }
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes of corpus");
}

#[test]
fn a_seed_gives_the_same_inputs_every_time() {
    let corpus = [b"one".to_vec(), vec![7; 300]];
    let inputs = |seed| {
        let rng = Rng::new(seed);
        std::iter::repeat_with(|| mutated(&rng, &corpus))
            .take(50)
            .collect::<Vec<_>>()
    };
    assert_eq!(inputs(3), inputs(3));
    assert_ne!(inputs(3), inputs(4));
}

#[test]
fn allocated_memory_is_counted() {
    use forebay_fuzz::cap;
    let (kept, peak) = cap::peak(|| vec![0u8; 5000]);
    assert_eq!((kept.len(), peak), (5000, 5000));
    let ((), peak) = cap::peak(|| drop(std::hint::black_box(vec![0u8; 100])));
    assert_eq!(peak, 100);
    let too_much = || cap::within(10, || drop(vec![0u8; 11]));
    assert!(std::panic::catch_unwind(too_much).is_err());
}
