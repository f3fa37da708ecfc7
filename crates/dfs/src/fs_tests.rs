use std::cell::Cell;

use forebay_device::{Device, RamDevice};
use forebay_rt::{Executor, VirtualTime};
use forebay_vsl::{SegmentLayout, SpaceSettings};
use futures_util::future::join;

use super::*;
use crate::names::FileSpec;

/// The geometry with the fewest files, 4 million.
const GEOMETRY: FsGeometry = FsGeometry {
    chunk_bits: 40,
    slot_sectors: 8,
};

fn run<F: Future<Output = ()> + 'static>(work: impl FnOnce(Fs) -> F + 'static) {
    run_with(GEOMETRY, work);
}

fn run_with<F: Future<Output = ()> + 'static>(
    geometry: FsGeometry,
    work: impl FnOnce(Fs) -> F + 'static,
) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let device: Rc<dyn Device> = Rc::new(RamDevice::new(256 << 20, 4096));
        let making = forebay_vsl::SpaceSpec {
            volume: VolumeId([1; 16]),
            layout: SegmentLayout::for_device(&device.geometry(), None).expect("it fits"),
            space_sectors: geometry.space_sectors(),
            placement: forebay_vsl::PlacementKind::Lfs,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        let made = forebay_vsl::create(rt.clone(), Rc::clone(&device), &making);
        made.await.expect("made");
        let opened = forebay_vsl::open(rt, device, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("taken up");
        let clock: FsClock = Rc::new(FileTime::default);
        let making = FsSpec {
            volume: VolumeId([1; 16]),
            geometry,
            hash_key: [2; 16],
            owner: (0, 0),
            permissions: 0o755,
        };
        create(&space, &making, &clock).await.expect("made");
        work(open(space, clock).await.expect("taken up")).await;
    });
}

async fn make(fs: &Fs, name: &[u8]) -> Result<Inode> {
    make_in(fs, ROOT, name).await
}

async fn make_in(fs: &Fs, directory: u64, name: &[u8]) -> Result<Inode> {
    let new = FileSpec::of(FileKind::Regular, 0o644);
    fs.make(directory, name, &new).await
}

#[test]
fn a_new_file_beyond_the_maximum_is_refused_until_a_file_is_removed() {
    run(|fs| async move {
        let files = GEOMETRY.files();
        // Reserves all numbers but three.
        let others = (ROOT + 1..files).filter(|n| ![2, 1000, files - 1].contains(n));
        fs.0.taken.borrow_mut().extend(others);
        let mut made = Vec::new();
        for name in [b"a", b"b", b"c"] {
            made.push(make(&fs, name).await.expect("there is one").file);
        }
        made.sort_unstable();
        assert_eq!(made, [2, 1000, files - 1]);
        let refused = make(&fs, b"d").await;
        assert!(matches!(refused, Err(FsError::Files(n)) if n == files));
        let gone = fs.look_up(ROOT, b"b").await.expect("there").file;
        fs.unlink(ROOT, b"b").await.expect("its name goes");
        assert!(make(&fs, b"d").await.is_err(), "it is still in use");
        fs.forget(gone, 2).await.expect("it goes");
        assert_eq!(make(&fs, b"d").await.expect("there is one").file, gone);
    });
}

/// Found by reading: a number was free in the space while memory still held the removed file. The new file was confused
/// with the removed one, and lookups did not find it.
#[test]
fn a_file_number_is_not_reused_before_its_removed_file_has_left_memory() {
    run(|fs| async move {
        // Another directory, so that the two operations do not wait for each other's lock.
        let new = FileSpec::of(FileKind::Directory, 0o755);
        let other = fs.make(ROOT, b"other", &new).await.expect("made").file;
        for round in 0..1000 {
            let old = make_in(&fs, other, b"a").await.expect("made");
            fs.forget(old.file, 1).await.expect("forgotten");
            fs.0.cursor.set(old.file);
            let new = Cell::new(None);
            let makes = async { new.set(Some(make(&fs, b"b").await.expect("made"))) };
            let (gone, ()) = join(fs.unlink(other, b"a"), makes).await;
            gone.expect("its name goes");
            let new = new.take().expect("made");
            assert!(new.links == 1 && new.generation > old.generation, "{round}");
            assert_eq!(fs.look_up(ROOT, b"b").await.expect("there"), new);
            fs.unlink(ROOT, b"b").await.expect("its name goes");
            fs.forget(new.file, 2).await.expect("it goes");
        }
        let mut problems = Vec::new();
        let checked = fs.check(&mut |problem| problems.push(problem)).await;
        assert_eq!((checked.expect("read").files, problems), (2, Vec::new()));
    });
}

/// Found by review: up to twice as many files stayed in memory as were ever in use at a time.
#[test]
fn unused_files_leave_memory_after_any_number_of_files_was_in_use() {
    use crate::files::IDLE_MAX;
    run(|fs| async move {
        let (mut used, count) = (Vec::new(), 2 * IDLE_MAX);
        for n in 0..count {
            used.push(
                make(&fs, format!("{n}").as_bytes())
                    .await
                    .expect("made")
                    .file,
            );
        }
        let known = || fs.0.files.borrow().known();
        assert!(known() > count);
        for file in &used {
            fs.forget(*file, 1).await.expect("forgotten");
        }
        assert!(known() <= IDLE_MAX + 1, "{}", known());
        // The limit includes files that are used again, and files whose times are newer in memory.
        for file in &used {
            fs.look_at(*file).await.expect("there");
            fs.note_read(*file);
            fs.forget(*file, 1).await.expect("forgotten");
            assert!(known() <= IDLE_MAX + 1, "{}", known());
        }
        for file in &used[..10] {
            assert_eq!(fs.inode(*file).await.expect("there").links, 1);
        }
    });
}

#[test]
fn changes_without_new_data_do_not_drop_the_sector_count_of_a_file() {
    run(|fs| async move {
        let file = make(&fs, b"a").await.expect("made").file;
        for n in 0..100 {
            let data = BufMut::copy_of(&[7; 512]).freeze();
            fs.write(file, Some(n * 4096), data).await.expect("written");
        }
        assert_eq!(fs.sectors(file).await.expect("counted"), 100);
        let known = || {
            let files = fs.0.files.borrow();
            files.get(file).expect("used").counted.known()
        };
        assert_eq!(known(), Some(100));
        let new = crate::NewAttributes {
            permissions: Some(0o600),
            ..Default::default()
        };
        fs.set(file, &new).await.expect("set");
        assert_eq!(known(), Some(100));
        fs.note_read(file);
        fs.sync_file(file, false).await.expect("durable");
        assert_eq!(known(), Some(100));
        let punch = crate::Fallocate::Punch;
        fs.fallocate(file, 0, 4096, punch).await.expect("done");
        assert_eq!(known(), None);
        assert_eq!(fs.sectors(file).await.expect("counted"), 99);
    });
}

/// Returns `count` names whose entries all hash to nearby sectors of a directory.
fn crowd(fs: &Fs, directory: &Inode, count: usize) -> Vec<Vec<u8>> {
    let mut groups = std::collections::BTreeMap::<u64, Vec<Vec<u8>>>::new();
    for n in 0_u64.. {
        let name = format!("{n:x}").into_bytes();
        let first = fs.hashed(directory, &name, 0).0;
        let group = groups.entry(first / 4).or_default();
        group.push(name);
        if group.len() == count {
            return std::mem::take(group);
        }
    }
    unreachable!("names never end")
}

/// Found with `--largest-file 512MiB`: a directory refused names when a twelfth of its table was full.
#[test]
fn names_with_almost_equal_hashes_all_find_a_free_entry() {
    let geometry = FsGeometry {
        chunk_bits: 20,
        slot_sectors: 8,
    };
    run_with(geometry, |fs| async move {
        let root = fs.inode(ROOT).await.expect("there");
        let names = crowd(&fs, &root, 20);
        for name in &names {
            let file = make(&fs, name).await.expect("made").file;
            fs.forget(file, 1).await.expect("forgotten");
        }
        let further = fs.inode(ROOT).await.expect("there").further;
        assert!((1..=3).contains(&further), "{further}");
        // Each name is found in any window, also after other names were removed.
        for name in &names[..10] {
            fs.unlink(ROOT, name).await.expect("its name goes");
        }
        for name in &names[10..] {
            let file = fs.look_up(ROOT, name).await.expect("there").file;
            fs.forget(file, 1).await.expect("forgotten");
        }
        let to = (ROOT, &names[0][..]);
        let moved = fs.rename((ROOT, &names[19]), to, crate::RenameTarget::Any);
        moved.await.expect("moved");
        let mut problems = Vec::new();
        let checked = fs.check(&mut |problem| problems.push(problem)).await;
        assert_eq!((checked.expect("read").names, problems), (10, Vec::new()));
        for name in names[10..19].iter().chain([&names[0]]) {
            fs.unlink(ROOT, name).await.expect("its name goes");
        }
        assert_eq!(fs.inode(ROOT).await.expect("there").further, 0);
    });
}

#[test]
fn the_file_count_includes_files_created_and_removed_while_counting() {
    run(|fs| async move {
        let mut used = Vec::new();
        for n in 0..50 {
            used.push(
                make(&fs, format!("{n}").as_bytes())
                    .await
                    .expect("made")
                    .file,
            );
        }
        while !fs.count_files().await.expect("counted") {}
        assert_eq!(fs.room().used_files, 51);
        fs.unlink(ROOT, b"7").await.expect("its name goes");
        assert_eq!(fs.room().used_files, 51, "it is in use");
        fs.forget(used[7], 1).await.expect("it goes");
        make(&fs, b"more").await.expect("made");
        make(&fs, b"and more").await.expect("made");
        assert_eq!(fs.room().used_files, 52);
    });
}
