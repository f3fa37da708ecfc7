//! Hostile contents of the space with valid checksums cause errors, and no endless loops.

use std::rc::Rc;

use forebay_device::BufMut;
use forebay_dfs::{
    DirectoryEntry, FileKind, FileSpec, Fs, FsError, Inode, NewAttributes, ROOT, RenameTarget,
};
use forebay_units::Sector;
use forebay_vsl::{Batch, Space};

use super::world::{FsTestbed, run_unchecked};

/// Returns the only entry of a directory, and its sector.
async fn only_entry(fs: &Fs, directory: u64) -> (Sector, DirectoryEntry) {
    let base = fs.inode(directory).await.expect("there").base;
    let mapped = fs.space().next_mapped(base..base + (1 << 35)).await;
    let at = Sector(mapped.expect("read").expect("an entry").start);
    let read = fs
        .space()
        .read(at, BufMut::zeroed(512))
        .await
        .expect("read");
    let entry = DirectoryEntry::decode(&read)
        .expect("an entry")
        .expect("an entry");
    (at, entry)
}

async fn put(space: &Space, at: Sector, bytes: &[u8]) {
    let batch = Batch::of_write(at, BufMut::copy_of(bytes).freeze());
    let done = space.apply(&batch, forebay_device::Durability::Flush).await;
    done.expect("written");
}

/// Makes a file, changes its directory entry with `change`, and opens the filesystem again.
async fn with_entry(world: FsTestbed, change: impl FnOnce(&mut DirectoryEntry)) -> FsTestbed {
    let file = world.make(ROOT, b"a", FileKind::Regular).await;
    world.fs.forget(file, 1).await.expect("forgotten");
    let (at, mut entry) = only_entry(&world.fs, ROOT).await;
    change(&mut entry);
    put(world.fs.space(), at, &entry.encode()).await;
    world.again().await
}

fn contradicts<T: std::fmt::Debug>(done: Result<T, FsError>) {
    assert!(
        matches!(
            done,
            Err(FsError::Contradiction { .. } | FsError::Damaged { .. })
        ),
        "{done:?}"
    );
}

/// Found by reading: a lookup read the entry again and again.
#[test]
fn an_entry_of_a_missing_file_is_an_error() {
    run_unchecked(|world| async move {
        let world = with_entry(world, |entry| entry.file += 1).await;
        let fs = &world.fs;
        contradicts(fs.look_up(ROOT, b"a").await);
        contradicts(fs.unlink(ROOT, b"a").await);
        contradicts(
            fs.rename((ROOT, b"a"), (ROOT, b"b"), RenameTarget::Any)
                .await,
        );
        assert_eq!(fs.list(ROOT, 0, 9).await.expect("listed").len(), 3);
    });
}

#[test]
fn an_entry_of_an_earlier_file_with_an_equal_number_is_an_error() {
    run_unchecked(|world| async move {
        let world = with_entry(world, |entry| entry.generation += 1).await;
        contradicts(world.fs.look_up(ROOT, b"a").await);
        let new = FileSpec::of(FileKind::Regular, 0o644);
        contradicts(world.fs.make(ROOT, b"a", &new).await);
    });
}

/// Found by reading: an i-node of a pipe claimed to have data, and its removal also removed the data at that location.
#[test]
fn an_inconsistent_i_node_is_an_error_and_its_removal_removes_nothing_else() {
    type InodeChange = fn(&mut Inode);
    let impossible: [(&str, InodeChange); 5] = [
        ("a pipe with data", |inode| {
            (inode.kind, inode.base) = (FileKind::Fifo, 4096);
        }),
        ("too many names", |inode| inode.links = u32::MAX),
        ("a symbolic link that is too long", |inode| {
            (inode.kind, inode.size) = (FileKind::Symlink, 5000);
        }),
        ("a directory without a place", |inode| {
            inode.kind = FileKind::Directory;
        }),
        ("another's number", |inode| inode.file += 1),
    ];
    for (what, change) in impossible {
        run_unchecked(move |world| async move {
            let file = world.make(ROOT, b"a", FileKind::Regular).await;
            world.fs.forget(file, 1).await.expect("forgotten");
            let mut inode = world.fs.inode(file).await.expect("there");
            change(&mut inode);
            let files = 1 << 27;
            put(world.fs.space(), Sector(files + file), &inode.encode()).await;
            let world = world.again().await;
            contradicts(world.fs.look_up(ROOT, b"a").await);
            contradicts(world.fs.unlink(ROOT, b"a").await);
            let new = NewAttributes {
                size: Some(0),
                ..NewAttributes::default()
            };
            contradicts(world.fs.set(file, &new).await);
            let problems = Rc::new(std::cell::RefCell::new(Vec::new()));
            let noted = Rc::clone(&problems);
            let checked = world
                .fs
                .check(&mut |problem| noted.borrow_mut().push(problem))
                .await;
            assert!(checked.is_ok() && !problems.borrow().is_empty(), "{what}");
        });
    }
}

#[test]
fn adding_a_subdirectory_beyond_the_maximum_link_count_is_refused() {
    run_unchecked(|world| async move {
        let directory = world.make(ROOT, b"a", FileKind::Directory).await;
        let mut inode = world.fs.inode(directory).await.expect("there");
        (inode.links, inode.size) = (i32::MAX as u32, 1 << 35);
        let files = 1 << 27;
        put(world.fs.space(), Sector(files + directory), &inode.encode()).await;
        world.fs.forget(directory, 1).await.expect("forgotten");
        let world = world.again().await;
        let fs = &world.fs;
        let other = world.make(ROOT, b"b", FileKind::Directory).await;
        world.make(other, b"c", FileKind::Regular).await;
        let new = FileSpec::of(FileKind::Directory, 0o755);
        let refused = fs.make(directory, b"c", &new).await;
        assert!(matches!(refused, Err(FsError::Links)), "{refused:?}");
        let refused = fs
            .rename((ROOT, b"b"), (directory, b"b"), RenameTarget::Any)
            .await;
        assert!(matches!(refused, Err(FsError::Links)), "{refused:?}");
        fs.rename((other, b"c"), (directory, b"c"), RenameTarget::Any)
            .await
            .expect("renamed");
        let refused = fs
            .rename((directory, b"c"), (ROOT, b"b"), RenameTarget::Exchange)
            .await;
        assert!(matches!(refused, Err(FsError::Links)), "{refused:?}");
    });
}

#[test]
fn paths_of_files_are_found_beside_damaged_entries_and_circles_of_directories() {
    run_unchecked(|world| async move {
        let whole = world.make(ROOT, b"whole", FileKind::Directory).await;
        let deep = world.make(whole, b"deep", FileKind::Directory).await;
        let file = world.make(deep, b"file", FileKind::Regular).await;
        let other = world.make(ROOT, b"other", FileKind::Directory).await;
        let lost = world.make(other, b"lost", FileKind::Regular).await;
        let files = [file, lost, deep, ROOT, 999_999].into();
        let paths = world.fs.paths(&files).await;
        let path = |file| paths.get(&file).map(Vec::as_slice);
        assert_eq!(path(file), Some(b"/whole/deep/file".as_slice()));
        assert_eq!(path(lost), Some(b"/other/lost".as_slice()));
        assert_eq!(path(deep), Some(b"/whole/deep".as_slice()));
        assert_eq!(path(ROOT), Some(b"/".as_slice()));
        assert_eq!(path(999_999), None);
        // The only name in `other` becomes damage, and `whole` becomes a name in `deep`, which lies below it.
        let (at, _) = only_entry(&world.fs, other).await;
        put(world.fs.space(), at, &[0x55; 512]).await;
        let (at, mut entry) = only_entry(&world.fs, deep).await;
        (entry.file, entry.kind) = (whole, FileKind::Directory);
        put(world.fs.space(), at, &entry.encode()).await;
        let world = world.again().await;
        let paths = world.fs.paths(&files).await;
        assert!(!paths.contains_key(&lost) && !paths.contains_key(&file));
    });
}
