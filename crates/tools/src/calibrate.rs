//! `sleds calibrate`: fills the device table.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{Mode, OFlags};
use sleds::{Entry, Place, Rates, Source, Table, TableError, calibrate, format};

use crate::Tool;
use crate::output::{self, result_line};
use crate::quantity::{rate, seconds};

pub(crate) const TOOL: Tool = Tool {
    name: "calibrate",
    command: || Args::command().name("calibrate"),
    run,
};

/// Bytes of the scratch file that is read where a directory is named.
const SCRATCH_BYTES: u64 = 128 << 20;

/// Measures what reading costs on this machine's devices, and writes it down
///
/// Fills the table that estimates are made from. Without --device and --path: memory, and the disks
/// of all mounted filesystems that may be read (root), or the one that the table is on (others). What was
/// measured before of other devices stays. Devices are only read; where a directory is named, a
/// scratch file without a name is written in it and read.
///
/// Exit status: 0, all measured and written; 1, something could not be measured, or the table not
/// written; 2, wrong usage.
#[derive(Parser)]
#[command(name = "calibrate")]
struct Args {
    /// A disk to be measured by reading it (may be repeated)
    #[arg(long, value_name = "DEVICE")]
    device: Vec<PathBuf>,
    /// A file to be read, or a directory to make a scratch file in (may be repeated)
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,
    /// Seconds to spend on each device, about
    #[arg(long, value_name = "SECONDS", default_value = "8")]
    time: f64,
    /// Where the table is (as root /var/lib/forebay/sleds.toml, else
    /// $XDG_STATE_HOME/forebay/sleds.toml, or $SLEDS_TABLE)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the table; write nothing
    #[arg(long)]
    dry_run: bool,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let args: Args = match output::parse("calibrate", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    if !(args.time > 0.0 && args.time <= 86_400.0) {
        eprintln!(
            "sleds calibrate: --time {}: not between 0 and a day",
            args.time
        );
        return ExitCode::from(output::USAGE);
    }
    match calibrate(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sleds calibrate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all could be measured.
fn calibrate(args: &Args) -> anyhow::Result<bool> {
    let path = args.output.clone().unwrap_or_else(format::path_to_write);
    let mut table = existing(&path);
    let (targets, mut complete) = targets(args, &path);
    let budget = Duration::from_secs_f64(args.time);
    let bar = bar(targets.len() as u64 + 1);
    bar.set_message("memory");
    table.memory = calibrate::memory(budget.min(Duration::from_secs(2)) / 2)?;
    table.memory_source = Source::Measured;
    show(&bar, "memory", "", table.memory);
    for (index, (path, file)) in targets.iter().enumerate() {
        bar.set_message(path.display().to_string());
        let before = 1000 * (index as u64 + 1);
        let mut progress = |share: f64| bar.set_position(before + (share * 1000.0) as u64);
        match calibrate::device(file, budget, &mut progress) {
            Ok(entry) => {
                show_entry(&bar, &entry);
                table.put(entry);
            }
            Err(error) => {
                bar.suspend(|| eprintln!("sleds calibrate: {}: {error}", path.display()));
                complete = false;
            }
        }
    }
    bar.finish_and_clear();
    if let Some(fault) = table.fault() {
        anyhow::bail!("what was measured makes no table: {fault}");
    }
    if args.dry_run {
        result_line!("{}", format::print(&table).trim_end());
        return Ok(complete);
    }
    format::save(&table, &path)?;
    sleds::forget_observations(&path);
    result_line!("written to {}", path.display());
    Ok(complete)
}

/// The table that is there, if it is one of this machine.
fn existing(path: &Path) -> Table {
    match format::load_from(path) {
        Ok(table) => table,
        Err(TableError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Table::default()
        }
        Err(error) => {
            eprintln!("sleds calibrate: {error} (it is replaced)");
            Table::default()
        }
    }
}

fn bar(targets: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}");
    bar.set_style(style.expect("the template is valid"));
    bar.set_length(targets * 1000);
    bar
}

fn show_entry(bar: &ProgressBar, entry: &Entry) {
    for zone in &entry.zones {
        let name = match zone.name.as_str() {
            "" => entry.name.clone(),
            zone => format!("{}:{zone}", entry.name),
        };
        show(bar, &name, &entry.class.to_string(), zone.rates());
    }
}

fn show(bar: &ProgressBar, name: &str, class: &str, rates: Rates) {
    let (latency, bandwidth) = (rates.latency_s, rates.bandwidth_Bps);
    bar.suspend(|| {
        result_line!(
            "{name:<16} {class:<10}  {:>9} ({} to {})  {:>9} ({} to {})",
            seconds(latency.median),
            seconds(latency.low),
            seconds(latency.high),
            rate(bandwidth.median),
            rate(bandwidth.low),
            rate(bandwidth.high)
        );
    });
}

/// What to read, by what it is called; and whether all of it could be opened.
fn targets(args: &Args, table: &Path) -> (Vec<(PathBuf, File)>, bool) {
    let mut wanted: Vec<(PathBuf, io::Result<File>)> = Vec::new();
    for device in &args.device {
        wanted.push((device.clone(), File::open(device)));
    }
    for path in &args.path {
        wanted.push((path.clone(), file_to_read(path)));
    }
    if wanted.is_empty() && rustix::process::geteuid().is_root() {
        wanted = disks()
            .into_iter()
            .map(|disk| (disk.clone(), File::open(&disk)))
            .collect();
    }
    if wanted.is_empty() {
        let directory = table.parent().unwrap_or(Path::new("."));
        let file = fs::create_dir_all(directory).and_then(|()| file_to_read(directory));
        wanted.push((directory.to_owned(), file));
    }
    let mut complete = true;
    let mut targets = Vec::new();
    for (path, file) in wanted {
        match file {
            Ok(file) => targets.push((path, file)),
            Err(error) => {
                eprintln!("sleds calibrate: {}: {error}", path.display());
                complete = false;
            }
        }
    }
    (targets, complete)
}

/// The disks under what is mounted, each once, with a place where it is.
fn disks() -> BTreeMap<PathBuf, PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut disks = BTreeMap::new();
    for point in points {
        let place = File::open(point).and_then(|directory| Place::of(&directory));
        for device in place.map(|place| place.chain).unwrap_or_default() {
            let pieced = ["loop", "zram", "ram"]
                .iter()
                .any(|kind| device.name.starts_with(kind));
            if device.bytes.is_some_and(|bytes| bytes > 0) && !pieced {
                let disk = Path::new("/dev").join(&device.name);
                disks.entry(disk).or_insert_with(|| PathBuf::from(point));
                // What it is made of is measured through it.
                break;
            }
        }
    }
    disks
}

/// The disk; where even root may not open it (in a container), a scratch file on it.
fn disk_to_read((disk, point): (PathBuf, PathBuf)) -> (PathBuf, io::Result<File>) {
    match File::open(&disk) {
        Ok(file) => (disk, Ok(file)),
        Err(error) => {
            let place = if point.is_dir() {
                point
            } else {
                std::env::temp_dir()
            };
            let why = format!("cannot be read ({error}), so a scratch file");
            eprintln!(
                "sleds calibrate: {}: {why} in {} is",
                disk.display(),
                place.display()
            );
            let file = file_to_read(&place);
            (place, file)
        }
    }
}

/// The file itself, or a scratch file in a directory.
fn file_to_read(path: &Path) -> io::Result<File> {
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        return File::open(path);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(_) => named_scratch(path)?,
    };
    fill(&file)?;
    Ok(file)
}

/// Where files without a name cannot be made: one that loses its name at once.
fn named_scratch(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".sleds-calibrate.{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Bytes that neither compress nor repeat, so that they have to be stored.
fn fill(mut file: &File) -> io::Result<()> {
    let stat = rustix::fs::fstatvfs(file)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let mut left = SCRATCH_BYTES.min(free / 4);
    let mut block = vec![0; 1 << 20];
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    while left > 0 {
        for part in block.chunks_exact_mut(8) {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            part.copy_from_slice(&number.to_le_bytes());
        }
        let length = left.min(block.len() as u64);
        file.write_all(&block[..length as usize])?;
        left -= length;
    }
    file.sync_all()
}
