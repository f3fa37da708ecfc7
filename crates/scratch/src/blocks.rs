//! The trial without root: all steps at block level, by NBD clients.
//!
//! The clients imitate a filesystem: small writes to scattered places, and flushes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_nbd::client::BlockingNbdClient;
use forebay_rng::Rng;

use super::context::TryContext;
use super::drive::ScratchVolume;
use super::raw_server::{EXPORT, RawAccess, RawServer};
use super::report::{PhaseTimes, TryReport};
use super::setup::{StorageSetup, StorageShape, TriedVolume, move_home};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

const BLOCK: usize = 4096;
/// Writes of each user in a phase, as many as files in a tree.
const WRITES: u32 = 500;
/// Flushed writes of each user in a phase.
const FLUSHED_WRITES: u32 = 100;
/// Blocks that each user writes in the crash test, and writes between flushes.
const CRASH_BLOCKS: u64 = 512;
const CRASH_BATCH: u64 = 8;
/// Time that users write before the daemon is killed.
const WRITING: Duration = Duration::from_secs(2);

pub(super) fn run(
    context: &TryContext,
    shapes: &[StorageShape],
    report: &mut TryReport,
) -> CommandResult {
    report.table(vec![
        "All columns: 4 KiB and 10 KB requests to the block device over NBD, without a filesystem."
            .into(),
    ]);
    for shape in shapes.iter().copied() {
        result_line!("{}: {} users work on it", shape.column(), context.users);
        let setup = StorageSetup::new(context, shape, None)?;
        let times = match setup.volume(context, shape)? {
            None => plain(context, report, &setup)?,
            Some(volume) => {
                let (setup, volume) = (&setup, &volume);
                let tried = TriedVolume {
                    shape,
                    setup,
                    volume,
                };
                cached(context, report, tried)?
            }
        };
        report.times(shape.column(), times);
        setup.remove(context);
    }
    Ok(())
}

fn plain(
    context: &TryContext,
    report: &mut TryReport,
    setup: &StorageSetup,
) -> CommandResult<PhaseTimes> {
    let access = RawAccess::Socket(context.scratch.dir().join("plain.sock"));
    let server = RawServer::start(&setup.spec, access)?;
    let times = work(context, server.at(), EXPORT)?;
    context.note_lateness(report, server.stop()?);
    Ok(times)
}

fn cached(
    context: &TryContext,
    report: &mut TryReport,
    tried: TriedVolume<'_>,
) -> CommandResult<PhaseTimes> {
    let TriedVolume { shape, volume, .. } = tried;
    volume.attach("none")?;
    let times = work(context, &volume.nbd_socket(), "")?;
    if shape.is_killed() {
        let promised = crash(context, volume)?;
        recover(report, tried, &promised)?;
    } else {
        move_home(report, shape, volume)?;
    }
    Ok(times)
}

/// One user's extent of the export.
struct UserRegion {
    start: u64,
    blocks: u64,
}

fn region(user: u32, users: u32, len: u64) -> UserRegion {
    let blocks = len / BLOCK as u64 / u64::from(users);
    UserRegion {
        start: u64::from(user) * blocks * BLOCK as u64,
        blocks,
    }
}

impl UserRegion {
    fn at(&self, block: u64) -> u64 {
        self.start + block % self.blocks * BLOCK as u64
    }
}

fn work(context: &TryContext, socket: &Path, export: &str) -> CommandResult<PhaseTimes> {
    let (users, writes) = (context.users, context.amount(WRITES));
    let flushed_writes = context.amount(FLUSHED_WRITES);
    let mut times = PhaseTimes::new();
    let mut phase =
        |name: &'static str,
         each: &(dyn Fn(&mut BlockingNbdClient, &UserRegion, &Rng) -> io::Result<()> + Sync)|
         -> CommandResult {
            context.stop.check()?;
            let started = Instant::now();
            together(users, &|user| {
                let mut client = BlockingNbdClient::connect(socket, export)?;
                let region = region(user, users, client.len());
                each(&mut client, &region, &Rng::new(user.into()))?;
                client.flush()
            })?;
            let took = started.elapsed();
            result_line!("  {name}: {:.3} s", took.as_secs_f64());
            times.push((name, took));
            Ok(())
        };
    phase("10 KB writes, then flush", &|client, region, numbers| {
        (0..writes).try_for_each(|_| {
            let len = BLOCK * (1 + numbers.below(4) as usize);
            let at = region.at(numbers.below(region.blocks - 4));
            client.write(at, &numbers.bytes(len))
        })
    })?;
    phase("copy, then flush", &|client, region, numbers| {
        (0..writes).try_for_each(|_| {
            let from = region.at(numbers.below(region.blocks));
            let data = client.read(from, BLOCK as u32)?;
            client.write(region.at(numbers.below(region.blocks)), &data)
        })
    })?;
    phase("writes, flush each", &|client, region, numbers| {
        (0..flushed_writes).try_for_each(|_| {
            client.write(
                region.at(numbers.below(region.blocks)),
                &numbers.bytes(BLOCK),
            )?;
            client.flush()
        })
    })?;
    Ok(times)
}

fn together(users: u32, each: &(dyn Fn(u32) -> io::Result<()> + Sync)) -> CommandResult {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..users)
            .map(|user| scope.spawn(move || each(user)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a user panicked")))
        };
        threads
            .into_iter()
            .map(join)
            .collect::<io::Result<Vec<()>>>()
    })
    .map_err(|error| CommandFailure::io(format!("a user failed: {error}")))?;
    Ok(())
}

/// The newest flushed version of each block of one user.
struct FlushedVersions {
    region: UserRegion,
    versions: Vec<u64>,
}

/// Returns a block's content in one version: its number, repeated, so that a torn block is detected.
fn content(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(BLOCK / 8)
}

/// Returns the version of a block; `None` if the block is torn.
fn version_of(data: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(*data.first_chunk()?);
    (data == content(version)).then_some(version)
}

/// Kills the daemon while users write. Returns the versions that were flushed.
fn crash(context: &TryContext, volume: &ScratchVolume) -> CommandResult<Vec<FlushedVersions>> {
    let (users, socket) = (context.users, &*volume.nbd_socket());
    result_line!("killing the daemon while {users} users write");
    let killed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..users)
            .map(|user| scope.spawn(move || write_until_it_fails(socket, user, users)))
            .collect();
        let until = Instant::now() + WRITING;
        while Instant::now() < until && !context.stop.is_set() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let killed = volume.kill();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<FlushedVersions>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a user panicked")))
        };
        let promises: io::Result<Vec<_>> = threads.into_iter().map(join).collect();
        killed.and_then(|()| promises.map_err(CommandFailure::io))
    });
    context.stop.check()?;
    killed
}

fn write_until_it_fails(socket: &Path, user: u32, users: u32) -> io::Result<FlushedVersions> {
    let mut client = BlockingNbdClient::connect(socket, "")?;
    let region = region(user, users, client.len());
    let blocks = CRASH_BLOCKS.min(region.blocks);
    let mut versions = vec![0; blocks as usize];
    let numbers = Rng::new(u64::from(user) + 1000);
    // Known versions first: the phases left other content.
    for block in 0..blocks {
        client.write(region.at(block), &content(0))?;
    }
    client.flush()?;
    for version in 1.. {
        let batch: Vec<u64> = (0..CRASH_BATCH).map(|_| numbers.below(blocks)).collect();
        let mut write = || -> io::Result<()> {
            for block in &batch {
                client.write(region.at(*block), &content(version))?;
            }
            client.flush()
        };
        if write().is_err() {
            break;
        }
        for block in batch {
            versions[block as usize] = version;
        }
    }
    Ok(FlushedVersions { region, versions })
}

fn recover(
    report: &mut TryReport,
    tried: TriedVolume<'_>,
    promised: &[FlushedVersions],
) -> CommandResult {
    let TriedVolume {
        shape,
        setup,
        volume,
    } = tried;
    result_line!("recovering");
    let started = Instant::now();
    volume.attach("none")?;
    report.note(format!(
        "recovery took {:.3} s",
        started.elapsed().as_secs_f64()
    ));
    let found = {
        let mut client =
            BlockingNbdClient::connect(&volume.nbd_socket(), "").map_err(CommandFailure::io)?;
        compare(report, "the recovered volume", promised, |at| {
            client.read(at, BLOCK as u32)
        })?
    };
    move_home(report, shape, volume)?;
    if !shape.is_in_front() {
        report.check("`forebay check` reports the volume clean", volume.check());
        return Ok(());
    }
    let image = File::open(&setup.data.path).map_err(CommandFailure::io)?;
    let alone = compare(report, "the data image alone", promised, |at| {
        let mut data = vec![0; BLOCK];
        image.read_exact_at(&mut data, at).map(|()| data)
    })?;
    report.expect(
        "the image alone equals the volume",
        alone == found,
        "they differ",
    );
    Ok(())
}

/// Compares the content with the flushed versions. Returns the versions found.
fn compare(
    report: &mut TryReport,
    place: &str,
    promised: &[FlushedVersions],
    mut read: impl FnMut(u64) -> io::Result<Vec<u8>>,
) -> CommandResult<Vec<Option<u64>>> {
    let (mut found, mut broken) = (Vec::new(), 0);
    for promise in promised {
        for (block, version) in (0..).zip(&promise.versions) {
            let data = read(promise.region.at(block)).map_err(CommandFailure::io)?;
            let there = version_of(&data);
            // A newer version is correct: it was written and not yet flushed.
            broken += usize::from(there.is_none_or(|there| there < *version));
            found.push(there);
        }
    }
    report.expect(
        format!(
            "all {} blocks are as flushed, or newer, in {place}",
            found.len()
        ),
        broken == 0,
        &format!("{broken} are not"),
    );
    Ok(found)
}
