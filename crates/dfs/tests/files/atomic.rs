//! Atomic changes of many ranges have the same result as sequential changes.

use std::collections::BTreeMap;

use forebay_device::{Buf, BufMut};
use forebay_dfs::{Edits, FileKind, FileSpec, Fs, FsError, FsGeometry, ROOT};
use forebay_rng::Rng;

use crate::world::run_on;

fn run<F: Future<Output = ()> + 'static>(work: impl FnOnce(Fs) -> F + 'static) {
    run_on(256 << 20, FsGeometry::default(), |world| async move {
        work(world.fs.clone()).await;
        world
    });
}

async fn make(fs: &Fs, name: &str) -> u64 {
    let new = FileSpec::of(FileKind::Regular, 0o644);
    let made = fs.make(ROOT, name.as_bytes(), &new).await;
    made.expect("made").file
}

async fn content(fs: &Fs, file: u64) -> Vec<u8> {
    let size = fs.inode(file).await.expect("there").size;
    let read = fs.read(file, 0, size as usize).await;
    read.expect("read").to_vec()
}

fn data(len: u64, of: u8) -> Buf {
    BufMut::copy_of(&vec![of; len as usize]).freeze()
}

/// Returns random edits, and applies the same edits to a vector.
fn edits(rng: &Rng, model: &mut Vec<u8>) -> Edits {
    let mut edits = Edits::new();
    let most = rng.pick(&[300, 2000, 40_000, 100_000]);
    for _ in 0..1 + rng.below(6) {
        let (offset, len) = (rng.below(most), 1 + rng.below(most / 2));
        let (first, last) = (offset as usize, (offset + len) as usize);
        if rng.one_in(3) {
            edits.punch(offset, len);
            let end = last.min(model.len());
            model[first.min(end)..end].fill(0);
        } else {
            let byte = rng.below(256) as u8;
            edits.write(offset, data(len, byte));
            model.resize(model.len().max(last), 0);
            model[first..last].fill(byte);
        }
    }
    edits
}

#[test]
fn edits_of_files_of_any_size_give_the_edited_content() {
    run(|fs| async move {
        let rng = Rng::new(7);
        for round in 0..60 {
            let names = [
                format!("a{round}"),
                format!("b{round}"),
                format!("c{round}"),
            ];
            let mut files = Vec::new();
            for name in &names {
                files.push((make(&fs, name).await, Vec::new()));
            }
            for _ in 0..6 {
                let mut all = BTreeMap::new();
                for (file, model) in &mut files {
                    if rng.coin() {
                        all.insert(*file, edits(&rng, model));
                    }
                }
                fs.edit(&all).await.expect("done");
                for (file, model) in &files {
                    assert!(content(&fs, *file).await == *model, "round {round}");
                }
            }
        }
    });
}

#[test]
fn edits_that_are_too_large_or_of_files_without_data_change_nothing() {
    run(|fs| async move {
        let file = make(&fs, "a").await;
        fs.write(file, Some(0), data(8192, 1)).await.expect("done");
        let mut large = Edits::new();
        for n in 0..65 {
            large.write(n << 20, data(1 << 20, 2));
        }
        let refused = fs.edit(&BTreeMap::from([(file, large)])).await;
        assert!(matches!(refused, Err(FsError::TooMuch { .. })));
        let mut many = Edits::new();
        for n in 0..8193 {
            many.write(n * 1024, data(512, 2));
        }
        let refused = fs.edit(&BTreeMap::from([(file, many)])).await;
        assert!(matches!(refused, Err(FsError::TooMuch { .. })));
        let mut one = Edits::new();
        one.write(0, data(100, 3));
        let both = BTreeMap::from([(ROOT, one.clone()), (file, one)]);
        let refused = fs.edit(&both);
        assert!(matches!(refused.await, Err(FsError::IsDirectory)));
        assert_eq!(content(&fs, file).await, vec![1; 8192]);
        // Neighbouring pieces count as one.
        let mut row = Edits::new();
        for n in 0..8 << 10 {
            row.write(n * 4096, data(4096, n as u8));
        }
        row.write(1 << 30, data(1, 5));
        fs.edit(&BTreeMap::from([(file, row)])).await.expect("done");
        assert_eq!(fs.inode(file).await.expect("there").size, (1 << 30) + 1);
    });
}

#[test]
fn concurrent_edits_of_the_same_files_neither_deadlock_nor_mix() {
    run(|fs| async move {
        let files = [make(&fs, "a").await, make(&fs, "b").await];
        for file in files {
            fs.write(file, Some(0), data(1 << 16, 0))
                .await
                .expect("done");
        }
        let rng = Rng::new(3);
        let all = (1..100u8).map(|byte| {
            let mut all = BTreeMap::new();
            for file in files {
                let mut edits = Edits::new();
                for at in [0, 7 << 12, 15 << 12] {
                    edits.write(at, data(4096, byte));
                }
                all.insert(file, edits);
            }
            let (fs, alone) = (fs.clone(), rng.one_in(4));
            async move {
                if alone {
                    let whole = fs.write(files[0], Some(0), data(1 << 16, byte)).await;
                    whole.expect("done");
                }
                fs.edit(&all).await.expect("done");
            }
        });
        futures_util::future::join_all(all).await;
        let (a, b) = (content(&fs, files[0]).await, content(&fs, files[1]).await);
        let last = b[0];
        for at in [0, 7 << 12, 15 << 12] {
            assert_eq!(b[at..at + 4096], vec![last; 4096]);
        }
        assert!(a[1 << 12..7 << 12].iter().all(|byte| *byte == a[1 << 12]));
    });
}

#[test]
fn an_exchange_swaps_the_data_of_two_files_of_any_sizes() {
    run(|fs| async move {
        let sizes = [0, 1, 300, 384, 385, 5000, 32 << 10, (32 << 10) + 1, 3 << 20];
        for (n, first) in sizes.into_iter().enumerate() {
            for (m, second) in sizes.into_iter().enumerate() {
                let a = make(&fs, &format!("a{n}.{m}")).await;
                let b = make(&fs, &format!("b{n}.{m}")).await;
                fs.write(a, Some(0), data(first, 1)).await.expect("done");
                fs.write(b, Some(0), data(second, 2)).await.expect("done");
                for turn in 0..3 {
                    let had = (content(&fs, a).await, content(&fs, b).await);
                    fs.exchange_data(a, b).await.expect("done");
                    let has = (content(&fs, b).await, content(&fs, a).await);
                    assert!(had == has, "{first} and {second}, {turn}");
                }
                for name in ["a", "b"] {
                    let name = format!("{name}{n}.{m}");
                    fs.unlink(ROOT, name.as_bytes()).await.expect("gone");
                }
                fs.forget(a, 1).await.expect("gone");
                fs.forget(b, 1).await.expect("gone");
            }
        }
    });
}

#[test]
fn an_exchange_of_too_much_data_changes_nothing() {
    run(|fs| async move {
        let (a, b) = (make(&fs, "a").await, make(&fs, "b").await);
        for n in 0..5 {
            let part = data(8 << 20, 1);
            fs.write(a, Some(n * (8 << 20)), part).await.expect("done");
        }
        for n in 0..4 {
            let part = data(8 << 20, 2);
            fs.write(b, Some(n * (8 << 20)), part).await.expect("done");
        }
        let refused = fs.exchange_data(a, b).await;
        assert!(matches!(refused, Err(FsError::TooMuch { .. })));
        assert!(content(&fs, a).await.iter().all(|byte| *byte == 1));
        fs.exchange_data(a, a).await.expect("nothing to be done");
        assert!(matches!(
            fs.exchange_data(a, ROOT).await,
            Err(FsError::IsDirectory)
        ));
    });
}
