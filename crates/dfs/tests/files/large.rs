//! Large or unusual cases. `FOREBAY_CASES=all` runs them at full size, which takes a long time.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use forebay_device::{Buf, BufMut};
use forebay_dfs::{
    Fallocate, FileKind, FileSpec, FsError, FsGeometry, NAME_MAX, NewAttributes, ROOT,
    RenameTarget, SYMLINK_MAX,
};

use super::world::{FsTestbed, run, run_on};

/// Returns the full number of cases, or a small number that runs quickly.
fn cases(all: u64, some: u64) -> u64 {
    match std::env::var("FOREBAY_CASES").as_deref() {
        Ok("all") => all,
        _ => some,
    }
}

fn bytes(of: &[u8]) -> Buf {
    BufMut::copy_of(of).freeze()
}

/// Makes a file and ends its use.
async fn leave(world: &FsTestbed, directory: u64, name: &[u8], kind: FileKind) -> u64 {
    let file = world.make(directory, name, kind).await;
    world.fs.forget(file, 1).await.expect("forgotten");
    file
}

async fn list(world: &FsTestbed, directory: u64) -> Vec<Vec<u8>> {
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        let listed = world.fs.list(directory, from, 512).await.expect("listed");
        let Some(last) = listed.last() else {
            return names;
        };
        from = last.next;
        names.extend(listed.into_iter().map(|one| one.entry.name));
    }
}

#[test]
fn names_may_contain_all_bytes_but_zero_and_slash() {
    run(|world| async move {
        let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
        for byte in (1..=255).filter(|byte| *byte != b'/') {
            names.insert(vec![byte; NAME_MAX]);
            if byte != b'.' {
                names.insert(vec![byte]);
            }
        }
        names.insert(b"...".to_vec());
        for name in &names {
            leave(&world, ROOT, name, FileKind::Regular).await;
        }
        let new = FileSpec::of(FileKind::Regular, 0o644);
        for wrong in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; NAME_MAX + 1]] {
            assert!(world.fs.make(ROOT, wrong, &new).await.is_err(), "{wrong:?}");
        }
        let world = world.again().await;
        let listed: BTreeSet<Vec<u8>> = list(&world, ROOT).await.into_iter().collect();
        names.insert(b".".to_vec());
        names.insert(b"..".to_vec());
        assert_eq!(listed, names);
        world
    });
}

#[test]
fn a_directory_of_very_many_names_can_be_listed_searched_and_emptied() {
    let count = cases(10_000_000, 20_000);
    run_on(
        (64 << 20) + count * 1024,
        FsGeometry::default(),
        move |world| async move {
            let directory = leave(&world, ROOT, b"many", FileKind::Directory).await;
            let first = leave(&world, directory, b"first", FileKind::Regular).await;
            world.fs.look_at(first).await.expect("there");
            for n in 0..count {
                let name = format!("name {n}");
                let linked = world.fs.link(first, directory, name.as_bytes());
                world
                    .fs
                    .forget(linked.await.expect("linked").file, 1)
                    .await
                    .expect("forgotten");
            }
            world.fs.forget(first, 1).await.expect("forgotten");
            let world = world.again().await;
            let fs = &world.fs;
            let inode = fs.look_up(ROOT, b"many").await.expect("there");
            assert_eq!(inode.size, count + 1);
            assert_eq!(fs.sectors(directory).await.expect("told"), count + 1);
            let named = fs
                .look_up(directory, format!("name {}", count / 2).as_bytes())
                .await;
            assert_eq!(u64::from(named.expect("there").links), count + 1);
            // The hashes are sufficient: ten million names would need too much memory.
            let mut names: Vec<u64> = Vec::new();
            let (hash, mut from) = (RandomState::new(), 0);
            loop {
                let listed = fs.list(directory, from, 512).await.expect("listed");
                let Some(last) = listed.last() else { break };
                from = last.next;
                names.extend(listed.iter().map(|one| hash.hash_one(&one.entry.name)));
            }
            assert_eq!(names.len() as u64, count + 3);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len() as u64, count + 3);
            let refused = fs.remove_directory(ROOT, b"many").await;
            assert!(matches!(refused, Err(FsError::NotEmpty)));
            fs.forget(first, 1).await.expect("forgotten");
            for removed in (0..=count).step_by(500) {
                let listed = fs.list(directory, 0, 502).await.expect("listed");
                let names = listed.iter().map(|one| &one.entry.name);
                for name in names.filter(|name| !name.starts_with(b".")) {
                    fs.unlink(directory, name).await.expect("its name goes");
                }
                assert!(!listed.is_empty(), "{removed} removed");
            }
            fs.remove_directory(ROOT, b"many").await.expect("it goes");
            fs.forget(directory, 1).await.expect("it goes");
            world
        },
    );
}

#[test]
fn a_file_can_have_more_than_65_536_names_and_is_removed_with_the_last() {
    run_on(256 << 20, FsGeometry::default(), |world| async move {
        let count = cases(200_000, 66_000);
        let file = world.make(ROOT, b"file", FileKind::Regular).await;
        world
            .fs
            .write(file, Some(0), bytes(b"still there"))
            .await
            .expect("written");
        for n in 0..count {
            let linked = world.fs.link(file, ROOT, format!("{n}").as_bytes()).await;
            assert_eq!(u64::from(linked.expect("linked").links), n + 2);
            world.fs.forget(file, 1).await.expect("forgotten");
        }
        world.fs.unlink(ROOT, b"file").await.expect("its name goes");
        for n in 1..count {
            let gone = world.fs.unlink(ROOT, format!("{n}").as_bytes()).await;
            gone.expect("its name goes");
        }
        world.fs.forget(file, 1).await.expect("forgotten");
        let world = world.again().await;
        let inode = world.fs.look_up(ROOT, b"0").await.expect("there");
        assert_eq!(inode.links, 1);
        let read = world.fs.read(file, 0, 100).await.expect("read");
        assert_eq!(&read[..], b"still there");
        world
    });
}

#[test]
fn a_file_of_16_tib_with_a_few_bytes_takes_a_few_sectors() {
    run(|world| async move {
        let fs = &world.fs;
        let most = FsGeometry::default().size_max();
        assert_eq!(most, 16 << 40);
        let file = world.make(ROOT, b"sparse", FileKind::Regular).await;
        let places = [0, 1 << 20, (8 << 40) + 77, most - 5];
        for at in places {
            fs.write(file, Some(at), bytes(b"bytes"))
                .await
                .expect("written");
        }
        let beyond = fs.write(file, Some(most - 4), bytes(b"bytes")).await;
        assert!(matches!(beyond, Err(FsError::TooLarge(n)) if n == most));
        let beyond = fs.write(file, Some(u64::MAX), bytes(b"b")).await;
        assert!(matches!(beyond, Err(FsError::TooLarge(_))));
        assert_eq!(
            fs.write(file, Some(most), bytes(b""))
                .await
                .expect("nothing"),
            most
        );
        let refused = fs.write(file, None, bytes(b"b")).await;
        assert!(matches!(refused, Err(FsError::TooLarge(_))));
        let grown = NewAttributes {
            size: Some(most + 1),
            ..NewAttributes::default()
        };
        assert!(matches!(
            fs.set(file, &grown).await,
            Err(FsError::TooLarge(_))
        ));
        assert_eq!(fs.sectors(file).await.expect("told"), 4);
        // Alternates between data and holes up to the end.
        let mut at = 0;
        for place in places {
            let data = fs.seek(file, at, false).await.expect("data");
            assert_eq!(data, place / 512 * 512);
            at = fs.seek(file, data, true).await.expect("a hole, or the end");
            assert_eq!(at, (data + 512).min(most));
            assert_eq!(&fs.read(file, place, 9).await.expect("read")[..5], b"bytes");
        }
        assert!(matches!(
            fs.seek(file, at, false).await,
            Err(FsError::BeyondEnd)
        ));
        assert_eq!(fs.read(file, most - 5, 100).await.expect("read").len(), 5);
        assert_eq!(fs.read(file, most, 1).await.expect("read").len(), 0);
        fs.fallocate(file, 1, most - 1, Fallocate::Punch)
            .await
            .expect("a hole");
        assert_eq!(fs.sectors(file).await.expect("told"), 1);
        assert_eq!(
            &fs.read(file, 0, 9).await.expect("read")[..],
            b"b\0\0\0\0\0\0\0\0"
        );
        let world = world.again().await;
        assert_eq!(
            world.fs.look_up(ROOT, b"sparse").await.expect("there").size,
            most
        );
        world
    });
}

#[test]
fn directories_have_unlimited_depth_and_cannot_be_moved_into_themselves() {
    run_on(128 << 20, FsGeometry::default(), |world| async move {
        let depth = cases(100_000, 3000);
        let mut below = vec![ROOT];
        for _ in 0..depth {
            let last = below[below.len() - 1];
            below.push(leave(&world, last, b"d", FileKind::Directory).await);
        }
        let world = world.again().await;
        let fs = &world.fs;
        let deepest = below[below.len() - 1];
        let refused = fs
            .rename((ROOT, b"d"), (deepest, b"d"), RenameTarget::Any)
            .await;
        assert!(matches!(refused, Err(FsError::Invalid(_))), "{refused:?}");
        leave(&world, ROOT, b"other", FileKind::Directory).await;
        let refused = fs
            .rename((ROOT, b"other"), (below[9], b"d"), RenameTarget::Any)
            .await;
        assert!(matches!(refused, Err(FsError::NotEmpty)), "{refused:?}");
        fs.rename((ROOT, b"other"), (deepest, b"d"), RenameTarget::Any)
            .await
            .expect("moved");
        fs.remove_directory(deepest, b"d").await.expect("it goes");
        while let Some(number) = below.pop().filter(|number| *number != ROOT) {
            let above = below[below.len() - 1];
            let found = fs.look_up(number, b"..").await.expect("there");
            assert_eq!(found.file, above);
            fs.forget(above, 1).await.expect("forgotten");
            fs.remove_directory(above, b"d").await.expect("it goes");
        }
        world
    });
}

#[test]
fn a_symbolic_link_can_have_a_target_of_the_maximum_path_length() {
    run(|world| async move {
        for len in [1, 384, 385, 512, 513, SYMLINK_MAX] {
            let new = FileSpec {
                target: (0..len).map(|n| b'a' + (n % 26) as u8).collect(),
                ..FileSpec::of(FileKind::Symlink, 0o777)
            };
            let made = world.fs.make(ROOT, len.to_string().as_bytes(), &new).await;
            let link = made.expect("made").file;
            let read = world.fs.read_link(link).await.expect("read");
            assert_eq!(read[..], new.target[..]);
            world.fs.forget(link, 1).await.expect("forgotten");
        }
        for (target, why) in [
            (vec![], "nowhere"),
            (vec![b'x'; SYMLINK_MAX + 1], "too far"),
        ] {
            let new = FileSpec {
                target,
                ..FileSpec::of(FileKind::Symlink, 0o777)
            };
            assert!(world.fs.make(ROOT, b"wrong", &new).await.is_err(), "{why}");
        }
        world
    });
}

#[test]
fn files_that_were_only_read_do_not_all_stay_in_memory() {
    run_on(256 << 20, FsGeometry::default(), |world| async move {
        let count = cases(200_000, 20_000);
        for n in 0..count {
            let file = world
                .make(ROOT, n.to_string().as_bytes(), FileKind::Regular)
                .await;
            world.fs.forget(file, 1).await.expect("forgotten");
        }
        let world = world.again().await;
        world.now.set(5000);
        for n in 0..count {
            let file = world.fs.look_up(ROOT, n.to_string().as_bytes()).await;
            let file = file.expect("there").file;
            world.fs.read(file, 0, 1).await.expect("read");
            world.fs.forget(file, 1).await.expect("forgotten");
        }
        // Files that stayed in memory would still have times to be written.
        let before = world.fs.space().stats().batches;
        world.fs.sync().await.expect("durable");
        let written = world.fs.space().stats().batches - before;
        assert!(written < 17_000, "{written} files were kept");
        world
    });
}
