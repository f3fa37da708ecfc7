//! Concurrent operations. Each of these bugs was found by reading: an operation changes the space a little earlier than
//! memory, and another operation looks in between.

use std::cell::Cell;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_dfs::{Fallocate, FileKind, FileSpec, FsError, NewAttributes, ROOT};
use futures_util::future::join;

use super::world::{run, there};

/// An amount of data large enough that other tasks run between the batch in the space and the update of memory.
const MUCH: usize = 128 << 10;

fn bytes(of: u8, len: usize) -> Buf {
    let mut buf = BufMut::zeroed(len);
    buf.fill(of);
    buf.freeze()
}

#[test]
fn reads_while_a_file_moves_to_a_chunk_return_its_data() {
    run(|world| async move {
        let (fs, rt) = (world.fs.clone(), world.rt.clone());
        let file = world.make(ROOT, b"a", FileKind::Regular).await;
        fs.write(file, Some(0), bytes(7, 20_000))
            .await
            .expect("written");
        let (is_done, looks) = (Cell::new(false), Cell::new(0));
        let writes = async {
            fs.write(file, Some(40_000), bytes(8, MUCH))
                .await
                .expect("written");
            is_done.set(true);
        };
        let reads = async {
            while !is_done.get() {
                let read = fs.read(file, 0, 20_000).await.expect("read");
                assert!(read.iter().all(|byte| *byte == 7), "it reads as zeroes");
                let hole = fs.seek(file, 0, true).await.expect("sought");
                assert!(hole >= 20_000, "a hole at {hole}, where data is");
                looks.set(looks.get() + 1);
                rt.yield_now().await;
            }
        };
        join(writes, reads).await;
        assert!(looks.get() > 0, "nobody looked");
        world
    });
}

#[test]
fn reads_while_a_file_is_truncated_never_return_unwritten_zeroes() {
    run(|world| async move {
        let (fs, rt) = (world.fs.clone(), world.rt.clone());
        // Some of the sizes trigger the interleaving that this test needs.
        for round in 0..200 {
            let file = world.make(ROOT, b"a", FileKind::Regular).await;
            let len = 2000 + 97 * round;
            fs.write(file, Some(0), bytes(7, len))
                .await
                .expect("written");
            let is_done = Cell::new(false);
            let cuts = async {
                let new = NewAttributes {
                    size: Some([0, 1000][round % 2]),
                    ..NewAttributes::default()
                };
                fs.set(file, &new).await.expect("cut off");
                is_done.set(true);
            };
            let reads = async {
                while !is_done.get() {
                    let read = fs.read(file, 0, len).await.expect("read");
                    assert!(read.iter().all(|byte| *byte == 7), "it reads as zeroes");
                    rt.yield_now().await;
                }
            };
            join(cuts, reads).await;
            fs.unlink(ROOT, b"a").await.expect("its name goes");
            fs.forget(file, 1).await.expect("it goes");
        }
        world
    });
}

#[test]
fn the_times_of_a_write_are_kept_when_reads_run_during_it() {
    run(|world| async move {
        let (fs, rt) = (world.fs.clone(), world.rt.clone());
        let file = world.make(ROOT, b"a", FileKind::Regular).await;
        world.now.set(2000);
        let is_done = Rc::new(Cell::new(false));
        let writes = async {
            fs.write(file, Some(0), bytes(8, MUCH))
                .await
                .expect("written");
            is_done.set(true);
        };
        let reads = async {
            while !is_done.get() {
                fs.read(file, 0, 10).await.expect("read");
                rt.yield_now().await;
            }
        };
        join(writes, reads).await;
        let inode = fs.inode(file).await.expect("there");
        let times = (
            inode.accessed.seconds,
            inode.modified.seconds,
            inode.changed.seconds,
        );
        assert_eq!(times, (2000, 2000, 2000));
        fs.forget(file, 1).await.expect("forgotten");
        let world = world.again().await;
        let again = world.fs.look_up(ROOT, b"a").await.expect("there");
        assert_eq!(again, inode);
        world
    });
}

#[test]
fn a_file_forgotten_during_the_removal_of_its_last_name_is_removed() {
    run(|world| async move {
        let fs = world.fs.clone();
        for _ in 0..400 {
            let file = world.make(ROOT, b"a", FileKind::Regular).await;
            let (gone, forgotten) = join(fs.unlink(ROOT, b"a"), fs.forget(file, 1)).await;
            gone.expect("its name goes");
            forgotten.expect("it goes");
            assert!(matches!(fs.inode(file).await, Err(FsError::NotFound)));
        }
        world
    });
}

#[test]
fn a_lookup_during_the_creation_or_removal_of_a_name_finds_a_complete_file_or_none() {
    run(|world| async move {
        let (fs, rt) = (world.fs.clone(), world.rt.clone());
        let is_done = Cell::new(false);
        let changes = async {
            for round in 0..400u32 {
                let file = world.make(ROOT, b"a", FileKind::Regular).await;
                fs.write(file, Some(0), bytes(1, 100))
                    .await
                    .expect("written");
                fs.forget(file, 1).await.expect("forgotten");
                if round % 3 == 0 {
                    world.make(ROOT, b"b", FileKind::Regular).await;
                    fs.rename((ROOT, b"b"), (ROOT, b"a"), forebay_dfs::RenameTarget::Any)
                        .await
                        .expect("renamed");
                }
                fs.unlink(ROOT, b"a").await.expect("its name goes");
            }
            is_done.set(true);
        };
        let looks = async {
            while !is_done.get() {
                let _is_there = there(&fs, b"a").await;
                rt.yield_now().await;
            }
        };
        join(changes, looks).await;
        world.again().await
    });
}

/// Found by the simulator with clients that do two things at once.
#[test]
fn a_hole_in_the_middle_does_not_undo_a_concurrent_change_of_the_size() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"a", FileKind::Regular).await;
        let whole = bytes(7, 100_000);
        fs.write(file, Some(0), whole).await.expect("written");
        let keep_size = true;
        let whats = [
            Fallocate::Punch,
            Fallocate::Zero { keep_size },
            Fallocate::Reserve { keep_size },
        ];
        for what in whats {
            let size = fs.inode(file).await.expect("there").size;
            let grows = fs.write(file, Some(size), bytes(8, MUCH));
            let (grown, holed) = join(grows, fs.fallocate(file, 5000, 3000, what)).await;
            grown.expect("written");
            holed.expect("done");
            let now = fs.inode(file).await.expect("there").size;
            assert_eq!(now, size + MUCH as u64, "{what:?}");
        }
        world.again().await
    });
}

#[test]
fn files_without_a_name_are_removed_when_all_files_are_forgotten() {
    run(|world| async move {
        let fs = world.fs.clone();
        for n in 0..20_u8 {
            let file = world.make(ROOT, &[b'a' + n], FileKind::Regular).await;
            fs.write(file, Some(0), bytes(n, 20_000)).await.unwrap();
            if n % 2 == 0 {
                fs.unlink(ROOT, &[b'a' + n]).await.unwrap();
            }
        }
        let new = FileSpec::of(FileKind::Regular, 0o600);
        fs.make_nameless(&new).await.unwrap();
        fs.forget_all().await.unwrap();
        for n in 0..20_u8 {
            assert_eq!(there(&fs, &[b'a' + n]).await, n % 2 != 0);
        }
        // `run` checks that no orphan is left.
        world
    });
}
