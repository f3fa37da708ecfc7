//! A full filesystem returns errors, and can be emptied again.

use forebay_device::BufMut;
use forebay_dfs::{
    AttributeCondition, Fallocate, FileKind, FileSpec, Fs, FsError, FsGeometry, NewAttributes,
    ROOT, RenameTarget,
};
use forebay_vsl::SpaceError;

use super::world::{FsTestbed, run, run_on};

fn is_full<T>(done: &Result<T, FsError>) -> bool {
    matches!(done, Err(FsError::Space(SpaceError::Full { .. })))
}

/// Fills the filesystem to the last sector.
async fn fill(fs: &Fs, file: u64) {
    for len in [256 << 10, 4096, 512] {
        loop {
            let done = fs.write(file, None, BufMut::zeroed(len).freeze()).await;
            if is_full(&done) {
                break;
            }
            done.expect("written");
        }
    }
}

/// Forgets a file, and fills the space that this frees.
async fn forget(world: &FsTestbed, file: u64, filler: u64) {
    world.fs.forget(file, 1).await.expect("forgotten");
    fill(&world.fs, filler).await;
}

#[test]
fn free_space_is_reported_and_a_full_volume_refuses_writes_and_can_be_emptied() {
    run(|world| async move {
        let fs = &world.fs;
        let empty = fs.room();
        assert!(empty.bytes < 64 << 20 && empty.free > empty.bytes - (64 << 10));
        let file = world.make(ROOT, b"a", FileKind::Regular).await;
        let too_much = Fallocate::Reserve { keep_size: true };
        let refused = fs.fallocate(file, 0, empty.free + 1, too_much).await;
        assert!(is_full(&refused));
        fill(fs, file).await;
        assert!(fs.room().free < 256 << 10 && fs.room().bytes < empty.bytes / 16 * 17);
        // Preallocation of mapped data needs no more space.
        fs.fallocate(file, 0, 1 << 20, too_much)
            .await
            .expect("it is there");
        fs.unlink(ROOT, b"a").await.expect("its name goes");
        fs.forget(file, 1).await.expect("it goes");
        assert!(fs.room().free > empty.free - (64 << 10));
        world
    });
}

#[test]
fn a_volume_that_is_full_to_the_last_sector_can_be_emptied_while_all_files_are_open() {
    run(|world| async move {
        let fs = &world.fs;
        let filler = world.make(ROOT, b"filler", FileKind::Regular).await;
        let directory = world.make(ROOT, b"directory", FileKind::Directory).await;
        let mut files = Vec::new();
        for name in [b"a", b"b", b"c", b"d", b"e"] {
            files.push(world.make(directory, name, FileKind::Regular).await);
        }
        let [a, b, c, _, e] = files[..] else {
            unreachable!("five were made")
        };
        fs.write(e, Some(0), BufMut::zeroed(50_000).freeze())
            .await
            .expect("written");
        fs.set_attribute(e, b"user.a", &[7; 2000], AttributeCondition::Any, None)
            .await
            .expect("set");
        let empty = world.make(ROOT, b"empty", FileKind::Directory).await;
        fill(fs, filler).await;
        let new = FileSpec::of(FileKind::Regular, 0o644);
        assert!(is_full(&fs.make(ROOT, b"more", &new).await));
        // Each file is in use, so that it needs an orphan record.
        fs.unlink(directory, b"a").await.expect("its name goes");
        forget(&world, a, filler).await;
        fs.rename((directory, b"c"), (directory, b"b"), RenameTarget::Any)
            .await
            .expect("another goes");
        forget(&world, b, filler).await;
        fs.rename((directory, b"b"), (ROOT, b"c"), RenameTarget::Free)
            .await
            .expect("it has another name");
        fs.remove_directory(ROOT, b"empty").await.expect("it goes");
        forget(&world, empty, filler).await;
        fs.remove_attribute(e, b"user.a").await.expect("it goes");
        fill(fs, filler).await;
        let size = |size| NewAttributes {
            size: Some(size),
            ..NewAttributes::default()
        };
        fs.fallocate(e, 100, 10_000, Fallocate::Punch)
            .await
            .expect("a hole");
        fill(fs, filler).await;
        for cut in [40_001, 700, 10, 0] {
            fs.set(e, &size(cut)).await.expect("cut off");
            fill(fs, filler).await;
        }
        fs.sync_file(c, false).await.expect("durable");
        fs.unlink(ROOT, b"c").await.expect("its name goes");
        forget(&world, c, filler).await;
        let free = fs.room().free;
        fs.unlink(ROOT, b"filler").await.expect("its name goes");
        fs.forget(filler, 1).await.expect("it goes");
        assert!(fs.room().free > free + (30 << 20));
        world.again().await
    });
}

#[test]
fn repeated_filling_and_emptying_does_not_lose_capacity() {
    run_on(40 << 20, FsGeometry::default(), |world| async move {
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let file = world.make(ROOT, b"a", FileKind::Regular).await;
            fill(&world.fs, file).await;
            sizes.push(world.fs.inode(file).await.expect("there").size);
            world.fs.unlink(ROOT, b"a").await.expect("its name goes");
            world.fs.forget(file, 1).await.expect("it goes");
        }
        let (least, most) = (sizes.iter().min(), sizes.iter().max());
        assert!(
            least.zip(most).is_some_and(|(a, b)| b - a < 1 << 20),
            "{sizes:?}"
        );
        world
    });
}
