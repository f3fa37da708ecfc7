//! Preallocated space counts as used, is reserved for its file, and is released.

use forebay_device::BufMut;
use forebay_dfs::{Edits, Fallocate, FileKind, Fs, FsError, NewAttributes, ROOT};
use forebay_rng::Rng;
use forebay_vsl::SpaceError;

use super::world::run;

const MIB: u64 = 1 << 20;
const KEEP: Fallocate = Fallocate::Reserve { keep_size: true };
const EXTEND: Fallocate = Fallocate::Reserve { keep_size: false };

async fn sectors(fs: &Fs, file: u64) -> u64 {
    fs.sectors(file).await.expect("counted")
}

async fn resize(fs: &Fs, file: u64, size: u64) {
    let new = NewAttributes {
        size: Some(size),
        ..NewAttributes::default()
    };
    fs.set(file, &new).await.expect("resized");
}

async fn zeroes(fs: &Fs, file: u64, at: Option<u64>, len: u64) -> Result<u64, FsError> {
    fs.write(file, at, BufMut::zeroed(len as usize).freeze())
        .await
}

/// Writes to a file until the filesystem is full.
async fn fill(fs: &Fs, file: u64) {
    for len in [64 << 10, 4096, 512] {
        loop {
            match zeroes(fs, file, None, len).await {
                Ok(_) => {}
                Err(FsError::Space(SpaceError::Full { .. })) => break,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Returns the filesystem's free space and the number of sectors of a file.
async fn taken(fs: &Fs, file: u64) -> (u64, u64) {
    (fs.room().free, sectors(fs, file).await)
}

#[test]
fn preallocated_space_counts_as_used_and_is_writable_on_a_full_volume() {
    run(|world| async move {
        let fs = &world.fs;
        let (file, filler) = (
            world.make(ROOT, b"file", FileKind::Regular).await,
            world.make(ROOT, b"filler", FileKind::Regular).await,
        );
        let (free, _) = taken(fs, file).await;
        fs.fallocate(file, 0, 4 * MIB, EXTEND)
            .await
            .expect("preallocated");
        fs.fallocate(file, MIB, 5 * MIB, KEEP)
            .await
            .expect("preallocated");
        let (left, blocks) = taken(fs, file).await;
        assert_eq!(blocks, 6 * MIB / 512);
        assert!((6 * MIB..7 * MIB).contains(&(free - left)), "{free} {left}");
        fill(fs, filler).await;
        let world = world.again().await;
        let fs = &world.fs;
        let file = fs.look_up(ROOT, b"file").await.expect("there").file;
        assert_eq!(sectors(fs, file).await, 6 * MIB / 512);
        // The filler gets no space, and the file all of its preallocated space.
        let filler = fs.look_up(ROOT, b"filler").await.expect("there").file;
        assert!(zeroes(fs, filler, None, 512).await.is_err());
        let mut order: Vec<u64> = (0..6 * MIB / 4096).collect();
        Rng::new(1).shuffle(&mut order);
        for block in order {
            zeroes(fs, file, Some(block * 4096), 4096)
                .await
                .expect("written");
            assert_eq!(sectors(fs, file).await, 6 * MIB / 512);
        }
        // Blocks were preallocated one by one, but take less space when they are written in pairs. Only this difference
        // remains.
        let mut more = 0;
        while zeroes(fs, file, None, 4096).await.is_ok() {
            more += 1;
        }
        assert!(more <= 6 * MIB / 4096 / 100, "{more} blocks");
        world.again().await
    });
}

#[test]
fn released_space_is_available_to_other_files() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        let other = world.make(ROOT, b"other", FileKind::Regular).await;
        zeroes(fs, file, Some(0), 1000).await.expect("written");
        let before = taken(fs, file).await;
        fs.fallocate(file, 0, 2 * MIB, KEEP)
            .await
            .expect("preallocated");
        let with = taken(fs, file).await;
        assert!(with.0 < before.0 && with.1 == 2 * MIB / 512);
        // A hole in the middle releases the space that it covers.
        fs.fallocate(file, MIB, MIB / 2, Fallocate::Punch)
            .await
            .expect("a hole");
        assert_eq!(taken(fs, file).await.1, 3 * MIB / 2 / 512);
        // Zeroing releases no space, also where the file was written.
        fs.fallocate(file, 0, 4096, Fallocate::Zero { keep_size: true })
            .await
            .expect("zeroed");
        assert_eq!(taken(fs, file).await.1, 3 * MIB / 2 / 512);
        resize(fs, file, 4 * MIB).await;
        assert_eq!(taken(fs, file).await.1, 3 * MIB / 2 / 512);
        resize(fs, file, 512 << 10).await;
        assert_eq!(taken(fs, file).await.1, 1024);
        // An exchange releases the preallocated ranges of both files.
        fs.fallocate(other, 0, MIB, EXTEND)
            .await
            .expect("preallocated");
        fs.exchange_data(file, other).await.expect("exchanged");
        assert_eq!((sectors(fs, file).await, sectors(fs, other).await), (0, 0));
        fs.fallocate(file, 0, 3 * MIB, KEEP)
            .await
            .expect("preallocated");
        fs.unlink(ROOT, b"file").await.expect("its name goes");
        fs.forget(file, 1).await.expect("it goes");
        let left = fs.room().free;
        assert!(before.0.abs_diff(left) < 64 << 10, "{} {left}", before.0);
        assert_eq!(fs.space().capacity().preallocated, 0);
        world.again().await
    });
}

/// Punches a hole into a file, by an edit or by `fallocate`.
async fn punch(fs: &Fs, file: u64, at: u64, len: u64, together: bool) {
    if together {
        let mut edits = Edits::default();
        edits.punch(at, len);
        fs.edit(&[(file, edits)].into()).await.expect("edited");
    } else {
        fs.fallocate(file, at, len, Fallocate::Punch)
            .await
            .expect("a hole");
    }
}

/// The record of a file's ranges is removed once all of its sectors are mapped. The other bytes of a sector can be
/// written again without more space, so a hole in a part of a sector leaves it mapped.
#[test]
fn a_hole_releases_only_whole_sectors_of_written_and_of_preallocated_ranges() {
    run(|world| async move {
        let fs = &world.fs;
        for together in [false, true] {
            for is_written in [false, true] {
                let name = format!("{together} {is_written}");
                let file = world.make(ROOT, name.as_bytes(), FileKind::Regular).await;
                let len = 100 * 512 + 100;
                fs.fallocate(file, 0, len, EXTEND)
                    .await
                    .expect("preallocated");
                fs.fallocate(file, len, 100, KEEP)
                    .await
                    .expect("preallocated");
                if is_written {
                    // The sector is written again while the rest of it is preallocated.
                    zeroes(fs, file, Some(0), len).await.expect("written");
                    fs.forget(file, 1).await.expect("forgotten");
                }
                assert_eq!(sectors(fs, file).await, 101, "{name}");
                punch(fs, file, 700, 100, together).await;
                punch(fs, file, len - 50, 50, together).await;
                assert_eq!(sectors(fs, file).await, 101, "{name}");
                punch(fs, file, 1000, 1100, together).await;
                assert_eq!(sectors(fs, file).await, 99, "{name}");
                punch(fs, file, 99 * 512 + 1, 1024, together).await;
                assert_eq!(sectors(fs, file).await, 98, "{name}");
                punch(fs, file, 0, 1 << 30, together).await;
                assert_eq!(sectors(fs, file).await, 0, "{name}");
            }
        }
        assert_eq!(fs.space().capacity().preallocated, 0);
        world.again().await
    });
}

#[test]
fn concurrent_holes_in_a_file_each_release_their_space() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        fs.fallocate(file, 0, MIB, EXTEND)
            .await
            .expect("preallocated");
        let holes = (0..64).map(|n| punch(fs, file, n * 16_384, 4096, n % 4 != 0));
        futures_util::future::join_all(holes).await;
        let left = (MIB - 64 * 4096) / 512;
        assert_eq!(sectors(fs, file).await, left);
        let world = world.again().await;
        let file = world.fs.look_up(ROOT, b"file").await.expect("there").file;
        assert_eq!(sectors(&world.fs, file).await, left);
        world
    });
}

#[test]
fn small_files_and_files_that_move_keep_their_preallocated_space() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        fs.fallocate(file, 0, 1024, EXTEND)
            .await
            .expect("preallocated");
        assert_eq!(sectors(fs, file).await, 2);
        zeroes(fs, file, Some(0), 1024).await.expect("written");
        assert_eq!(sectors(fs, file).await, 2);
        // Moves the data from the i-node to the slot, and from there to the chunk.
        let moving = world.make(ROOT, b"moving", FileKind::Regular).await;
        zeroes(fs, moving, Some(0), 100).await.expect("written");
        fs.fallocate(moving, 0, 100_000, KEEP)
            .await
            .expect("preallocated");
        let all = 100_000_u64.div_ceil(512);
        for size in [100, 300, 1000, 30_000, 40_000, 99_999] {
            assert_eq!(sectors(fs, moving).await, all);
            zeroes(fs, moving, Some(size - 50), 50)
                .await
                .expect("written");
        }
        assert_eq!(sectors(fs, moving).await, all);
        let mut edits = Edits::default();
        edits.write(70_000, BufMut::zeroed(3000).freeze());
        let edits = [(moving, edits)].into();
        fs.edit(&edits).await.expect("edited");
        assert_eq!(sectors(fs, moving).await, all);
        world.again().await
    });
}

#[test]
fn a_file_has_no_more_preallocated_ranges_than_its_record_holds() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        for n in 0..510 {
            fs.fallocate(file, n * 8192, 4096, KEEP)
                .await
                .expect("preallocated");
        }
        let refused = fs.fallocate(file, 510 * 8192, 4096, KEEP).await;
        assert!(
            matches!(refused, Err(FsError::PreallocatedRanges)),
            "{refused:?}"
        );
        // A range that closes a gap does not increase the number of ranges.
        fs.fallocate(file, 4096, 4096, KEEP)
            .await
            .expect("preallocated");
        fs.fallocate(file, 510 * 8192, 4096, KEEP)
            .await
            .expect("preallocated");
        assert_eq!(sectors(fs, file).await, 512 * 8);
        // A hole that would split a range beyond the limit stays preallocated, and reads as zeroes.
        zeroes(fs, file, Some(0), 512 << 10).await.expect("written");
        let before = sectors(fs, file).await;
        fs.fallocate(file, 512, 512, Fallocate::Punch)
            .await
            .expect("a hole");
        assert_eq!(sectors(fs, file).await, before);
        assert_eq!(fs.seek(file, 0, true).await.expect("found"), 512);
        world.again().await
    });
}

#[test]
fn records_of_used_up_preallocations_and_of_removed_files_are_removed() {
    run(|world| async move {
        let fs = &world.fs;
        let used_up = world.make(ROOT, b"used up", FileKind::Regular).await;
        let kept = world.make(ROOT, b"kept", FileKind::Regular).await;
        for file in [used_up, kept] {
            fs.fallocate(file, 0, MIB, EXTEND)
                .await
                .expect("preallocated");
        }
        zeroes(fs, used_up, Some(0), MIB).await.expect("written");
        let records = async |fs: &Fs| {
            let mut found = 0;
            fs.dump(&mut |item| {
                found += u64::from(matches!(item, forebay_dfs::FsDumpItem::Preallocated { .. }));
            })
            .await
            .expect("dumped");
            found
        };
        assert_eq!(records(fs).await, 2);
        fs.forget(used_up, 1).await.expect("forgotten");
        assert_eq!(records(fs).await, 1);
        zeroes(fs, kept, Some(0), MIB).await.expect("written");
        assert_eq!(records(fs).await, 1);
        let world = world.again().await;
        assert_eq!(records(&world.fs).await, 0);
        world
    });
}
