//! `sleds calibrate`: fills the device table.

mod target;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sleds::{DeviceEntry, DeviceTable, DeviceTableError, RateSource, ReadRates, calibrate, format};

use crate::output::{self, result_line};
use sleds_common::Tool;
use sleds_common::quantity::{rate, seconds};

pub(crate) const TOOL: Tool = Tool {
    name: "calibrate",
    command: || CalibrateArgs::command().name("calibrate"),
    run,
};

/// Measures the cost of reading on this machine's devices, and writes it to the device table
///
/// Estimates are made from this table. Without --device and --path: measures memory, and the disks of all mounted
/// filesystems that may be read (root), or the disk that the table is on (other users). Earlier measurements of other
/// devices are kept. Devices are only read. A disk that may not be opened is measured by reading a large file on it
/// that is at least a day old and not cached. Without such a file, and for a directory, a scratch file without a name
/// is used. Memory is measured with a scratch file as well: at --path, or beside the table.
///
/// Exit status: 0, all measured and written; 1, a device could not be measured, or the table not written; 2, wrong
/// usage.
#[derive(Parser)]
#[command(name = "calibrate")]
struct CalibrateArgs {
    /// A disk to be measured by reading it (may be repeated)
    #[arg(long, value_name = "DEVICE")]
    device: Vec<PathBuf>,
    /// A file to read, or a directory for a scratch file (may be repeated)
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,
    /// Approximate number of seconds for each device
    #[arg(long, value_name = "SECONDS", default_value = "8")]
    time: f64,
    /// Path of the table (as root /var/lib/forebay/sleds.toml, otherwise $XDG_STATE_HOME/forebay/sleds.toml, or
    /// $SLEDS_TABLE)
    #[expect(clippy::doc_markdown, reason = "a help text")]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the table; write nothing
    #[arg(long)]
    dry_run: bool,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let args: CalibrateArgs = match output::parse("calibrate", args) {
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

/// Measures all targets, and returns true if all of them could be measured.
fn calibrate(args: &CalibrateArgs) -> anyhow::Result<bool> {
    let path = args.output.clone().unwrap_or_else(format::path_to_write);
    let mut table = existing(&path);
    let (targets, mut complete) = target::of(&args.device, &args.path, &path);
    let named = !args.device.is_empty() || !args.path.is_empty();
    if named && targets.is_empty() {
        anyhow::bail!("nothing can be measured, so no table is written");
    }
    let budget = Duration::from_secs_f64(args.time);
    let bar = bar(targets.len() as u64 + 1);
    bar.set_message("memory");
    let cached = target::to_be_cached(&args.path, &path);
    table.memory = calibrate::memory(cached.as_ref(), budget.min(Duration::from_secs(2)) / 2)?;
    table.memory_source = RateSource::Measured;
    show(&bar, "memory", "", table.memory);
    let mut measured = 0;
    for (index, (path, file)) in targets.iter().enumerate() {
        bar.set_message(path.display().to_string());
        let before = 1000 * (index as u64 + 1);
        let mut progress = |share: f64| bar.set_position(before + (share * 1000.0) as u64);
        match calibrate::device(file, budget, &mut progress) {
            Ok(entry) => {
                measured += 1;
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
    if named && measured == 0 {
        anyhow::bail!("no device was measured, so no table is written");
    }
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

/// Returns the existing table, if it belongs to this machine.
fn existing(path: &Path) -> DeviceTable {
    match format::load_from(path) {
        Ok(table) => table,
        Err(DeviceTableError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            DeviceTable::default()
        }
        Err(error) => {
            eprintln!("sleds calibrate: {error} (it is replaced)");
            DeviceTable::default()
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

fn show_entry(bar: &ProgressBar, entry: &DeviceEntry) {
    for zone in &entry.zones {
        let name = match zone.name.as_str() {
            "" => entry.name.clone(),
            zone => format!("{}:{zone}", entry.name),
        };
        show(bar, &name, &entry.class.to_string(), zone.rates());
    }
}

fn show(bar: &ProgressBar, name: &str, class: &str, rates: ReadRates) {
    let (latency, bandwidth) = (rates.latency_s, rates.bandwidth_Bps);
    let linear = rate(rates.in_file_order().median);
    bar.suspend(|| {
        result_line!(
            "{name:<16} {class:<10}  {:>9} ({} to {})  {:>9} ({} to {})  {linear:>9} in file order",
            seconds(latency.median),
            seconds(latency.low),
            seconds(latency.high),
            rate(bandwidth.median),
            rate(bandwidth.low),
            rate(bandwidth.high)
        );
    });
}
