//! Tests of the reader: every byte is returned once, whatever is cached and whatever happens to the file.

mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use common::{
    PAGE, TestRandom, assert_whole, can_evict, cold, evict, joined, mix, path, pieces, scratch,
    skipped, text, warm,
};
use sleds::{FileReader, Presence, ReadOptions, ReadPlan, ReadUnit, residency};

fn options(plan: ReadPlan, unit: ReadUnit, chunk: usize) -> ReadOptions {
    ReadOptions {
        plan,
        unit,
        chunk,
        ..ReadOptions::default()
    }
}

#[test]
fn every_byte_is_read_once_and_no_unit_is_cut_with_any_cached_ranges() {
    let dir = scratch();
    let seed = 1;
    let mut random = TestRandom(seed);
    for round in 0..40 {
        let length = 1 + random.below(3 << 20) as usize;
        let content = text(&mut random, length);
        let file = cold(&path(&dir, "file"), &content);
        mix(&file, &mut random, [3, 40, 300][round % 3]);
        let start = random.below(length as u64);
        let size = 1 + random.below(100) as u32;
        let unit = match round % 4 {
            0 => ReadUnit::Bytes,
            1 => ReadUnit::Elements { start, size },
            _ => ReadUnit::Records(b'\n'),
        };
        let chunk = 1 + random.below(300_000) as usize;
        for plan in [ReadPlan::Best, ReadPlan::Linear, ReadPlan::Auto] {
            let mut handle = &file;
            handle.rewind().unwrap();
            let got = pieces(&file, options(plan, unit, chunk));
            let from = if let ReadUnit::Elements { start, .. } = unit {
                start
            } else {
                0
            };
            let why = format!("seed {seed}, round {round}, {plan:?} {unit:?} chunk {chunk}");
            assert!(joined(&got, from) == content[from as usize..], "{why}");
            assert_whole(&got, unit, &content);
            assert_eq!(handle.stream_position().unwrap(), length as u64, "{why}");
        }
    }
}

#[test]
fn cached_ranges_are_read_first_and_both_groups_in_file_order() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "cached_ranges_are_read_first_and_both_groups_in_file_order",
            "pages cannot be evicted here",
        );
    }
    let content = vec![7; 2 << 20];
    let file = cold(&path(&dir, "file"), &content);
    warm(&file, 100..200);
    warm(&file, 400..450);
    let runs = residency(&file, 0, 2 << 20).unwrap();
    let reading = options(ReadPlan::Best, ReadUnit::Bytes, 64 << 10);
    let mut reader = FileReader::for_first_hit(&file, reading).unwrap();
    let mut got = Vec::new();
    while let Some(piece) = reader.next_piece().unwrap() {
        got.push((piece.offset, piece.data.to_vec()));
    }
    let cached = |at: u64| {
        let run = runs
            .iter()
            .find(|run| (run.offset..run.end()).contains(&at))
            .unwrap();
        run.presence == Presence::Cached
    };
    let order: Vec<(bool, u64)> = got.iter().map(|(at, _)| (!cached(*at), *at)).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(got[0].0, 100 * PAGE);
}

#[test]
fn reading_in_best_order_leaves_the_page_cache_unchanged() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "reading_in_best_order_leaves_the_page_cache_unchanged",
            "pages cannot be evicted here",
        );
    }
    let file = cold(&path(&dir, "file"), &vec![b'x'; 8 << 20]);
    warm(&file, 1000..1500);
    let before = residency(&file, 0, 8 << 20).unwrap();
    pieces(&file, options(ReadPlan::Best, ReadUnit::Bytes, 256 << 10));
    assert_eq!(residency(&file, 0, 8 << 20).unwrap(), before);
}

#[test]
fn auto_reads_small_and_uniformly_cached_files_linearly() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), &vec![b'x'; 4 << 20]);
    let plan = |file: &File| {
        FileReader::new(file, ReadOptions::default())
            .unwrap()
            .plan()
    };
    assert_eq!(plan(&file), ReadPlan::Linear);
    warm(&file, 0..1024);
    assert_eq!(plan(&file), ReadPlan::Linear);
    let small = cold(&path(&dir, "small"), &vec![b'x'; 64 << 10]);
    warm(&small, 4..8);
    assert_eq!(plan(&small), ReadPlan::Linear);
}

#[test]
fn a_search_for_the_first_hit_reads_cached_ranges_first() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "a_search_for_the_first_hit_reads_cached_ranges_first",
            "pages cannot be evicted here",
        );
    }
    let file = cold(&path(&dir, "file"), &vec![b'x'; 4 << 20]);
    warm(&file, 512..600);
    let mut reader = FileReader::for_first_hit(&file, ReadOptions::default()).unwrap();
    assert_eq!(reader.plan(), ReadPlan::Best);
    assert_eq!(reader.next_piece().unwrap().unwrap().offset, 512 * PAGE);
}

#[test]
fn reading_begins_at_the_position_of_the_file() {
    let dir = scratch();
    let content = text(&mut TestRandom(3), 1 << 20);
    let mut file = cold(&path(&dir, "file"), &content);
    warm(&file, 50..90);
    for plan in [ReadPlan::Linear, ReadPlan::Best] {
        file.seek(SeekFrom::Start(12_345)).unwrap();
        let mut reader = FileReader::new(&file, options(plan, ReadUnit::Bytes, 10_000)).unwrap();
        assert_eq!(reader.start(), 12_345);
        let mut got = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            got.push((piece.offset, piece.data.to_vec()));
        }
        assert!(joined(&got, 12_345) == content[12_345..]);
        file.seek(SeekFrom::Start(content.len() as u64 + 5))
            .unwrap();
        assert!(pieces(&file, options(plan, ReadUnit::Bytes, 100)).is_empty());
    }
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let content = text(&mut TestRandom(4), 300_000);
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = content.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let pipe = File::from(std::os::fd::OwnedFd::from(child.stdout.take().unwrap()));
    let got = pieces(
        &pipe,
        options(ReadPlan::Best, ReadUnit::Records(b'\n'), 4096),
    );
    writer.join().unwrap();
    child.wait().unwrap();
    assert!(joined(&got, 0) == content);
    assert_whole(&got, ReadUnit::Records(b'\n'), &content);
}

#[test]
fn a_file_of_proc_with_length_zero_is_read() {
    let file = File::open("/proc/self/status").unwrap();
    for plan in [ReadPlan::Linear, ReadPlan::Best, ReadPlan::Auto] {
        let mut handle = &file;
        handle.rewind().unwrap();
        let all = joined(&pieces(&file, options(plan, ReadUnit::Bytes, 100)), 0);
        assert!(
            String::from_utf8(all).unwrap().contains("\nPid:"),
            "{plan:?}"
        );
    }
}

#[test]
fn holes_are_left_out_where_zero_bytes_end_records() {
    let dir = scratch();
    let hole = 64 << 20;
    let text = b"one\ntwo\n".repeat(1000);
    let file = cold(&path(&dir, "file"), &text);
    file.write_all_at(&text, hole).unwrap();
    file.set_len(4 * hole).unwrap();
    file.sync_all().unwrap();
    for plan in [ReadPlan::Linear, ReadPlan::Best, ReadPlan::Auto] {
        for unit in [ReadUnit::Records(0), ReadUnit::RecordsOrZeros(b'\n')] {
            (&mut &file).rewind().unwrap();
            let options = ReadOptions {
                skip_holes: true,
                ..options(plan, unit, 64 << 10)
            };
            let mut reader = FileReader::new(&file, options).unwrap();
            let (mut content, mut end, mut read) = (Vec::<u8>::new(), 0, 0);
            while let Some(piece) = reader.next_piece().unwrap() {
                assert_eq!(piece.offset - piece.skipped, end);
                end = piece.offset + piece.data.len() as u64;
                read += piece.data.len() as u64;
                content.extend(piece.data.iter().filter(|byte| **byte != 0));
            }
            assert!(content == [&text[..], &text].concat(), "{plan:?} {unit:?}");
            assert!(read < hole / 2, "{plan:?} {unit:?}: {read} bytes");
            assert_eq!((&mut &file).stream_position().unwrap(), 4 * hole);
        }
    }
    (&mut &file).rewind().unwrap();
    let without = ReadOptions {
        skip_holes: true,
        ..options(ReadPlan::Linear, ReadUnit::Bytes, 1 << 20)
    };
    let all: u64 = pieces(&file, without)
        .iter()
        .map(|piece| piece.1.len() as u64)
        .sum();
    assert_eq!(
        all,
        4 * hole,
        "bytes in holes are not left out of other units"
    );
}

#[test]
fn a_directory_is_an_error() {
    let dir = scratch();
    let file = File::open(dir.path()).unwrap();
    let mut reader = FileReader::new(&file, ReadOptions::default()).unwrap();
    let error = reader.next_piece().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::IsADirectory);
}

#[test]
fn an_empty_file_has_no_pieces() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), b"");
    for plan in [ReadPlan::Linear, ReadPlan::Best, ReadPlan::Auto] {
        assert!(pieces(&file, options(plan, ReadUnit::Bytes, 10)).is_empty());
    }
}

#[test]
fn data_appended_during_reading_is_read_and_a_continued_line_stays_whole() {
    let dir = scratch();
    let mut content = text(&mut TestRandom(5), 1 << 20);
    content.extend(b"begun");
    let file = cold(&path(&dir, "file"), &content);
    // The end is cached, so it is read first, before the rest of its last line is written.
    warm(&file, 200..257);
    let reading = options(ReadPlan::Best, ReadUnit::Records(b'\n'), 16 << 10);
    let mut reader = FileReader::new(&file, reading).unwrap();
    let mut got = Vec::new();
    let first = reader.next_piece().unwrap().unwrap();
    got.push((first.offset, first.data.to_vec()));
    let added = b" and ended\nanother\n";
    file.write_all_at(added, content.len() as u64).unwrap();
    content.extend(added);
    while let Some(piece) = reader.next_piece().unwrap() {
        got.push((piece.offset, piece.data.to_vec()));
    }
    assert!(joined(&got, 0) == content);
    assert_whole(&got, ReadUnit::Records(b'\n'), &content);
}

#[test]
fn a_file_that_shrinks_during_reading_gives_its_remaining_data_without_a_crash() {
    let dir = scratch();
    let seed = 6;
    let mut random = TestRandom(seed);
    for round in 0..30 {
        let content = text(&mut random, 1 << 20);
        let file = cold(&path(&dir, "file"), &content);
        mix(&file, &mut random, 60);
        let unit = [ReadUnit::Bytes, ReadUnit::Records(b'\n')][round % 2];
        let mut reader = FileReader::new(&file, options(ReadPlan::Best, unit, 20_000)).unwrap();
        let left = random.below(1 << 20);
        let mut seen = vec![false; content.len()];
        for n in 0.. {
            if n == 5 {
                file.set_len(left).unwrap();
            }
            let Some(piece) = reader.next_piece().unwrap() else {
                break;
            };
            for (index, byte) in piece.data.iter().enumerate() {
                let at = piece.offset as usize + index;
                assert!(!seen[at], "seed {seed}, round {round}: byte {at} twice");
                assert_eq!(*byte, content[at], "seed {seed}, round {round}: byte {at}");
                seen[at] = true;
            }
        }
        let missing = seen[..left as usize].iter().position(|seen| !seen);
        assert_eq!(missing, None, "seed {seed}, round {round}, cut at {left}");
    }
}

#[test]
fn pages_evicted_during_reading_are_still_read() {
    let dir = scratch();
    let mut random = TestRandom(7);
    let content = text(&mut random, 4 << 20);
    let file = cold(&path(&dir, "file"), &content);
    for unit in [
        ReadUnit::Bytes,
        ReadUnit::Records(b'\n'),
        ReadUnit::Elements { start: 3, size: 7 },
    ] {
        mix(&file, &mut random, 200);
        let mut reader = FileReader::new(&file, options(ReadPlan::Best, unit, 30_000)).unwrap();
        let mut got = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            got.push((piece.offset, piece.data.to_vec()));
            match got.len() % 7 {
                0 => evict(&file),
                3 => warm(&file, 0..500),
                _ => {}
            }
        }
        let from = reader.start();
        assert!(joined(&got, from) == content[from as usize..], "{unit:?}");
        assert_whole(&got, unit, &content);
    }
}

#[test]
fn holes_read_as_zeroes() {
    let dir = scratch();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path(&dir, "sparse"))
        .unwrap();
    file.set_len(5 << 20).unwrap();
    file.write_all_at(&[1; 10_000], 1 << 20).unwrap();
    file.write_all_at(&[2; 10_000], 4 << 20).unwrap();
    evict(&file);
    let mut content = Vec::new();
    File::open(path(&dir, "sparse"))
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    evict(&file);
    warm(&file, 250..260);
    let got = pieces(&file, options(ReadPlan::Best, ReadUnit::Bytes, 100_000));
    assert!(joined(&got, 0) == content);
}

#[test]
fn pieces_exceed_the_requested_length_only_for_a_longer_unit() {
    let dir = scratch();
    let mut random = TestRandom(9);
    let content = text(&mut random, 1 << 20);
    let file = cold(&path(&dir, "file"), &content);
    for plan in [ReadPlan::Linear, ReadPlan::Best] {
        for unit in [
            ReadUnit::Bytes,
            ReadUnit::Records(b'\n'),
            ReadUnit::Elements { start: 0, size: 8 },
        ] {
            mix(&file, &mut random, 30);
            let mut handle = &file;
            handle.rewind().unwrap();
            let got = pieces(&file, options(plan, unit, 30_000));
            assert!(joined(&got, 0) == content);
            let longest = got.iter().map(|(_, data)| data.len()).max().unwrap();
            assert!(longest <= 30_000, "{plan:?} {unit:?}: {longest}");
        }
    }
}

#[test]
fn a_record_longer_than_a_piece_is_returned_whole() {
    let dir = scratch();
    let mut content = vec![b'x'; 3 << 20];
    content[100] = b'\n';
    content[2_500_000] = b'\n';
    let file = cold(&path(&dir, "file"), &content);
    warm(&file, 300..400);
    let got = pieces(
        &file,
        options(ReadPlan::Best, ReadUnit::Records(b'\n'), 1000),
    );
    assert!(joined(&got, 0) == content);
    assert_whole(&got, ReadUnit::Records(b'\n'), &content);
}

#[test]
fn a_file_in_memory_is_read() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("a_file_in_memory_is_read", "no /dev/shm");
    };
    let content = text(&mut TestRandom(8), 1 << 20);
    std::fs::write(dir.path().join("file"), &content).unwrap();
    let file = File::open(dir.path().join("file")).unwrap();
    for plan in [ReadPlan::Linear, ReadPlan::Best, ReadPlan::Auto] {
        let mut handle = &file;
        handle.rewind().unwrap();
        let got = pieces(&file, options(plan, ReadUnit::Records(b'\n'), 10_000));
        assert!(joined(&got, 0) == content);
    }
}

#[test]
fn no_data_is_returned_beyond_the_limit_in_either_order() {
    let dir = scratch();
    let mut random = TestRandom(23);
    let content = text(&mut random, 3 << 20);
    let file = cold(&path(&dir, "file"), &content);
    for plan in [ReadPlan::Linear, ReadPlan::Best, ReadPlan::Auto] {
        for unit in [ReadUnit::Bytes, ReadUnit::Elements { start: 11, size: 8 }] {
            for limit in [0, 11, 12, 19 + PAGE, 1 << 20, 3 << 20, 4 << 20] {
                mix(&file, &mut random, 40);
                let mut handle = &file;
                handle.rewind().unwrap();
                let mut reader =
                    FileReader::before(&file, limit, options(plan, unit, 30_000)).unwrap();
                let from = reader.start() as usize;
                let mut got = Vec::new();
                while let Some(piece) = reader.next_piece().unwrap() {
                    got.push((piece.offset, piece.data.to_vec()));
                }
                let to = (limit as usize).min(content.len()).max(from);
                let whole = joined(&got, from as u64);
                assert!(whole == content[from..to], "{plan:?} {unit:?} {limit}");
            }
        }
    }
}

/// Returns the bytes of file pages that are accounted to this process.
fn resident_file_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssFile:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn mapped_cache_pages_do_not_accumulate_in_the_address_space() {
    const MIB: u64 = 1 << 20;
    let dir = scratch();
    let file = File::create_new(path(&dir, "file")).unwrap();
    file.set_len(96 * MIB).unwrap();
    let mut file = File::open(path(&dir, "file")).unwrap();
    std::io::copy(&mut file, &mut std::io::sink()).unwrap();
    file.rewind().unwrap();
    let before = resident_file_bytes();
    let mut most = 0;
    let mut reader =
        FileReader::new(&file, options(ReadPlan::Best, ReadUnit::Bytes, 256 << 10)).unwrap();
    while reader.next_piece().unwrap().is_some() {
        most = most.max(resident_file_bytes());
    }
    assert!(
        most < before + 48 * MIB,
        "{before} bytes before, {most} then"
    );
}
