//! Space that `fallocate` reserved is still reserved after the daemon was killed, even if the filesystem is otherwise
//! full.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_rng::Rng;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::files::{check, world};
use crate::world::{MIB, wait_until};

const BLOCK: u64 = 4096;
const FILES: usize = 4;
/// Blocks of each file.
const BLOCKS: u64 = 1500;
/// The lengths of the writes that fill the filesystem, in bytes.
const FILLS: [usize; 3] = [64 << 10, 4096, 512];

/// Files with reserved blocks, used until the filesystem is gone.
struct ReservedFiles {
    files: [File; FILES],
    filler: File,
    rng: Rng,
    /// Blocks whose reservation is durable, by file.
    reserved: [BTreeSet<u64>; FILES],
}

impl ReservedFiles {
    fn new(dir: &Path, rng: Rng) -> ReservedFiles {
        let open = |name: String| {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(true);
            options.open(dir.join(name)).expect("opened")
        };
        ReservedFiles {
            files: std::array::from_fn(|n| open(n.to_string())),
            filler: open("filler".into()),
            rng,
            reserved: Default::default(),
        }
    }

    /// Opens the files anew, after the filesystem was mounted again.
    fn open_again(&mut self, dir: &Path) {
        let open = |name: String| {
            let path: PathBuf = dir.join(name);
            File::options().read(true).write(true).open(path)
        };
        self.files = std::array::from_fn(|n| open(n.to_string()).expect("opened"));
        self.filler = open("filler".into()).expect("opened");
    }

    /// Allocates all space that is not reserved.
    fn fill(&self) -> std::io::Result<()> {
        let mut end = self.filler.metadata()?.len();
        for len in FILLS {
            let data = vec![1; len];
            loop {
                match self.filler.write_all_at(&data, end) {
                    Ok(()) => end += len as u64,
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::NOSPC) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn act(&mut self) -> std::io::Result<()> {
        let n = self.rng.below(FILES as u64) as usize;
        let from = self.rng.below(BLOCKS);
        let blocks = from..BLOCKS.min(from + 1 + self.rng.below(200));
        let (offset, len) = (from * BLOCK, (blocks.end - from) * BLOCK);
        let file = &self.files[n];
        match self.rng.below(8) {
            0..=2 => {
                let done = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, len);
                match done {
                    Ok(()) => {
                        file.sync_all()?;
                        self.reserved[n].extend(blocks);
                    }
                    Err(Errno::NOSPC) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            3..=4 => {
                let there = self.reserved[n].range(blocks).copied();
                for block in there {
                    file.write_all_at(&[2; BLOCK as usize], block * BLOCK)?;
                }
            }
            5 => {
                self.reserved[n].retain(|block| !blocks.contains(block));
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, hole, offset, len)?;
            }
            6 => {
                let len = self.filler.metadata()?.len();
                self.filler.set_len(len / 8 * 7)?;
            }
            _ => self.fill()?,
        }
        Ok(())
    }

    /// Acts until the filesystem is gone. Fails if a write to reserved space is refused.
    fn act_until_gone(mut self, acts: &AtomicU64) -> ReservedFiles {
        loop {
            match self.act().map_err(|error| Errno::from_io_error(&error)) {
                Ok(()) => acts.fetch_add(1, Ordering::Relaxed),
                Err(Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::IO)) => return self,
                Err(error) => panic!("{error:?}"),
            };
        }
    }
}

#[test]
fn preallocated_blocks_can_be_written_after_kills_on_a_full_filesystem() {
    let Some(world) = world("preallocated_blocks_can_be_written_after_kills_on_a_full_filesystem")
    else {
        return;
    };
    let rounds = std::env::var("FOREBAY_ROUNDS").map_or(4, |n| n.parse().expect("a number"));
    for round in 0..rounds {
        world.ok(&["mount", "f", "mnt"]);
        let dir = world.path("mnt");
        let rng = Rng::new(2611 + round);
        let enough = 20 + rng.below(200);
        let reserving = ReservedFiles::new(&dir, rng);
        let acts = Arc::new(AtomicU64::new(0));
        let acting = std::thread::spawn({
            let acts = Arc::clone(&acts);
            move || reserving.act_until_gone(&acts)
        });
        wait_until("enough was done", || {
            acting.is_finished() || acts.load(Ordering::Relaxed) >= enough
        });
        world.kill("f");
        let mut reserving = acting.join().expect("nothing reserved is refused");
        let (code, found) = check(&world);
        assert!(code <= 1, "{found}");
        world.ok(&["mount", "f", "mnt"]);
        reserving.open_again(&dir);
        reserving.fill().expect("filled");
        let mut blocks = 0;
        for (n, reserved) in reserving.reserved.iter().enumerate() {
            for block in reserved {
                let written = reserving.files[n].write_all_at(&[3; BLOCK as usize], block * BLOCK);
                written.unwrap_or_else(|error| panic!("round {round}, file {n}: {error}"));
            }
            blocks += reserved.len() as u64;
        }
        eprintln!("{} MiB were reserved", blocks * BLOCK / MIB);
        drop(reserving);
        for entry in fs::read_dir(&dir).expect("listed") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        world.unmount("mnt");
    }
    assert_eq!(check(&world).0, 0);
}
