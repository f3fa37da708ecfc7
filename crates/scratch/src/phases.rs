//! The measured work of users on a mounted filesystem. Each phase ends with a sync of the filesystem.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_device::BufMut;
use forebay_rng::Rng;
use rustix::fs::OFlags;

use crate::context::TryContext;
use crate::report::PhaseTimes;
use crate::tree::GeneratedTree;
use crate::users::together;
use crate::writers::write_durably;

/// Files of each user's tree, about as many as in the paper's tree.
const FILES: u32 = 500;
/// Files that each user writes with fsync.
const MAILS: u32 = 100;
/// Commits of each user's database, and commits between two checkpoints.
const COMMITS: u32 = 100;
const COMMITS_A_CHECKPOINT: u32 = 20;
/// Pages that a checkpoint writes, of the pages of the database.
const CHECKPOINT_PAGES: u32 = 16;
const DATABASE_PAGES: u64 = 512;
/// Random writes to each user's image, writes between two flushes of the guest, and pages of the image.
const IMAGE_WRITES: u32 = 160;
const WRITES_A_FLUSH: u32 = 16;
const IMAGE_PAGES: u64 = 2048;
const PAGE: usize = 4096;

/// Measures the phases one after the other.
struct PhaseRun<'a> {
    context: &'a TryContext,
    dir: &'a Path,
    trees: Vec<GeneratedTree>,
    times: PhaseTimes,
}

/// Measures what most machines do today: small files and commits that are made durable one by one, a virtual machine's
/// image, and after these the programs of the paper.
pub(super) fn everyday(context: &TryContext, dir: &Path) -> CommandResult<PhaseTimes> {
    let mut run = PhaseRun::new(context, dir);
    run.small_files()?;
    run.database()?;
    run.image()?;
    run.programs()?;
    Ok(run.times)
}

/// Measures the programs of the paper, and small files that are made durable one by one.
pub(super) fn of_paper(context: &TryContext, dir: &Path) -> CommandResult<PhaseTimes> {
    let mut run = PhaseRun::new(context, dir);
    run.programs()?;
    run.small_files()?;
    Ok(run.times)
}

impl<'a> PhaseRun<'a> {
    fn new(context: &'a TryContext, dir: &'a Path) -> PhaseRun<'a> {
        let files = context.amount(FILES);
        let tree = |user: u32| GeneratedTree::generate(user.into(), files.into());
        PhaseRun {
            context,
            dir,
            trees: (0..context.users).map(tree).collect(),
            times: PhaseTimes::new(),
        }
    }

    fn home(&self, user: u32) -> PathBuf {
        self.dir.join(format!("user{user}"))
    }

    /// Measures a phase.
    fn measure(
        &mut self,
        name: &'static str,
        each: impl Fn(&Self, u32) -> io::Result<()> + Sync,
    ) -> CommandResult {
        self.context.stop.check()?;
        let this = &*self;
        let took = together(this.dir, this.context.users, &|user| each(this, user))
            .map_err(|error| CommandFailure::io(format!("{name} failed: {error}")))?;
        result_line!("  {name}: {:.3} s", took.as_secs_f64());
        self.times.push((name, took));
        Ok(())
    }

    /// Makes each user's file of zeroes before a phase.
    fn prepare(&self, name: &str, pages: u64) -> CommandResult {
        let make = |user| {
            let home = self.home(user);
            fs::create_dir_all(&home)?;
            fs::write(home.join(name), vec![0; pages as usize * PAGE])
        };
        let made = together(self.dir, self.context.users, &make);
        made.map(drop).map_err(CommandFailure::io)
    }

    fn programs(&mut self) -> CommandResult {
        self.measure("untar, then sync", |run, user| {
            run.trees[user as usize].unpack(&run.home(user).join("tree"))
        })?;
        self.measure("copy, then sync", |run, user| {
            let home = run.home(user);
            run.trees[user as usize].copy(&home.join("tree"), &home.join("copy"))
        })?;
        self.measure("remove, then sync", |run, user| {
            fs::remove_dir_all(run.home(user).join("tree"))
        })
    }

    fn small_files(&mut self) -> CommandResult {
        let mails = self.context.amount(MAILS);
        self.measure("small files, fsync each", |run, user| {
            let mail = run.home(user).join("mail");
            fs::create_dir_all(&mail)?;
            let content = [user as u8; PAGE];
            (0..mails).try_for_each(|n| write_durably(&mail.join(n.to_string()), &content))
        })
    }

    /// Measures the writes of a database with a log: each commit appends a page to the log and makes it durable. A
    /// checkpoint writes changed pages to their places, and the log begins again.
    fn database(&mut self) -> CommandResult {
        self.prepare("database", DATABASE_PAGES)?;
        self.prepare("database.log", u64::from(COMMITS_A_CHECKPOINT))?;
        let commits = self.context.amount(COMMITS);
        self.measure("database, commit each", |run, user| {
            let home = run.home(user);
            let pages = OpenOptions::new().write(true).open(home.join("database"))?;
            let log = OpenOptions::new()
                .write(true)
                .open(home.join("database.log"))?;
            let numbers = Rng::new(u64::from(user));
            let page = numbers.bytes(PAGE);
            for commit in 1..=commits {
                let at = u64::from((commit - 1) % COMMITS_A_CHECKPOINT) * PAGE as u64;
                log.write_all_at(&page, at)?;
                log.sync_data()?;
                if commit % COMMITS_A_CHECKPOINT == 0 {
                    for _ in 0..CHECKPOINT_PAGES {
                        let at = numbers.below(DATABASE_PAGES) * PAGE as u64;
                        pages.write_all_at(&page, at)?;
                    }
                    pages.sync_data()?;
                }
            }
            Ok(())
        })
    }

    /// Measures the writes of a virtual machine to its image: direct writes to random places, with flushes.
    fn image(&mut self) -> CommandResult {
        self.prepare("image", IMAGE_PAGES)?;
        let writes = self.context.amount(IMAGE_WRITES);
        self.measure("image, random writes", |run, user| {
            let image = direct(&run.home(user).join("image"))?;
            let numbers = Rng::new(u64::from(user));
            let page = BufMut::copy_of(&numbers.bytes(PAGE));
            for write in 1..=writes {
                image.write_all_at(&page, numbers.below(IMAGE_PAGES) * PAGE as u64)?;
                if write % WRITES_A_FLUSH == 0 {
                    image.sync_data()?;
                }
            }
            Ok(())
        })
    }
}

/// Opens a file for direct writes, or for ordinary writes where the filesystem has no direct writes.
fn direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits() as i32;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(path);
    opened.or_else(|_| OpenOptions::new().write(true).open(path))
}
