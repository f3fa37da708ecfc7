//! Compares the cached number of sectors of a file with the space's map.

use forebay_device::BufMut;
use forebay_dfs::{Fallocate, FileKind, Fs, NewAttributes, ROOT};
use forebay_rng::Rng;
use futures_util::future::join_all;

use crate::world::run;

const END: u64 = 600 << 10;

/// Counts the mapped sectors of a file with a chunk.
async fn counted(fs: &Fs, file: u64) -> u64 {
    let geometry = fs.superblock().geometry;
    let inode = fs.inode(file).await.expect("known");
    let (mut at, mut sectors) = (inode.base, 0);
    let end = inode.base + geometry.chunk_sectors();
    while let Some(run) = fs.space().next_mapped(at..end).await.expect("read") {
        sectors += run.end - run.start;
        at = run.end;
    }
    sectors
}

async fn write(fs: &Fs, file: u64, at: u64, len: u64) {
    let data = BufMut::copy_of(&vec![7; len as usize]).freeze();
    fs.write(file, Some(at), data).await.expect("written");
}

/// Changes the size or the mapped ranges of a file at random.
async fn change(fs: &Fs, file: u64, rng: &Rng) {
    let (at, len) = (rng.below(END), 1 + rng.below(20 << 10));
    match rng.below(6) {
        0 => {
            let what = *[
                Fallocate::Punch,
                Fallocate::Zero { keep_size: false },
                Fallocate::Reserve { keep_size: false },
            ]
            .get(rng.below(3) as usize)
            .expect("one of three");
            fs.fallocate(file, at, len, what).await.expect("done");
        }
        1 => {
            let size = NewAttributes {
                size: Some(40_000 + at),
                ..NewAttributes::default()
            };
            fs.set(file, &size).await.expect("done");
        }
        _ => write(fs, file, at, len).await,
    }
}

#[test]
fn the_sector_count_of_a_file_equals_its_mapped_sectors_under_concurrent_changes() {
    run(|world| async move {
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        write(&world.fs, file, 0, 40_000).await;
        let rng = Rng::new(5);
        for _ in 0..200 {
            let several = (0..1 + rng.below(3)).map(|_| {
                let (fs, rng) = (&world.fs, Rng::new(rng.next()));
                async move {
                    change(fs, file, &rng).await;
                    fs.sectors(file).await.expect("counted");
                }
            });
            join_all(several).await;
            let said = world.fs.sectors(file).await.expect("counted");
            let preallocated = world.fs.space().capacity().preallocated / 512;
            assert_eq!(said, counted(&world.fs, file).await + preallocated);
        }
        world
    });
}
