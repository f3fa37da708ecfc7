//! Compares the time of our `wc` and `grep` with GNU's, with and without a possible gain from another reading order.
//!
//! The limit: never more than 2 % slower, and not slower at all on cached files.

mod cases;
mod inputs;
mod table;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::MemfdFlags;

use super::arguments::{BenchFolders, mebibytes};
use super::cgroup::{CgroupGuard, MachineLimits, UNLIMITED};
use super::files;
use super::measure::{self, RunMeasurement};
use super::stats::Median;
use cases::{CASES, CostCase, INPUTS, InputKind, PageCacheState, STATES};
use inputs::InputFiles;
use table::{CostCell, CostRow, CostSection, LOCALES};

/// Minimum duration of a round in seconds. A round is repeated up to [`REPEATS`] times to reach it.
const ROUND_S: f64 = 0.03;
const REPEATS: usize = 30;

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct CostSettings {
    #[command(flatten)]
    folders: BenchFolders,
    /// Names to measure: wc, grep; large, medium, tiny, many, tree, long, scripts, binary; cached, half, uncached,
    /// throttled
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of measurements of each
    #[arg(long, value_name = "N", default_value = "11", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Size of the large text, in MiB
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = mebibytes)]
    size: u64,
    /// Read rate of the slow disk, in MiB per second
    #[arg(long, value_name = "MIB/S", default_value = "100", value_parser = mebibytes)]
    rate: u64,
}

impl CostSettings {
    /// Returns true if `name`, one of `names`, is selected. Without a selection among `names`, all are selected.
    fn wants(&self, name: &str, names: &[&str]) -> bool {
        let named = |name: &str| self.only.iter().any(|only| only == name);
        named(name) || !names.iter().any(|name| named(name))
    }

    fn wants_tool(&self, tool: &str) -> bool {
        self.wants(tool, &TOOLS)
    }

    fn inputs(&self) -> impl Iterator<Item = (InputKind, &'static str, &'static str)> {
        let names = INPUTS.map(|(_, name, _)| name);
        INPUTS
            .into_iter()
            .filter(move |(_, name, _)| self.wants(name, &names))
    }

    fn states(&self) -> impl Iterator<Item = (PageCacheState, &'static str, &'static str)> {
        let names = STATES.map(|(_, name, _)| name);
        STATES
            .into_iter()
            .filter(move |(_, name, _)| self.wants(name, &names))
    }
}

const TOOLS: [&str; 2] = ["wc", "grep"];

/// Measures, and returns the report's path.
///
/// # Errors
/// If files cannot be made, a program fails, or the outputs of both programs differ.
pub(super) fn run(settings: &CostSettings) -> Result<PathBuf> {
    check_names(&settings.only)?;
    files::make_folder(&settings.folders.output)?;
    let scratch = files::scratch(&settings.folders.directory)?;
    let mut sections = Vec::new();
    let mut skipped = String::new();
    let progress =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{elapsed} {msg}")?);
    for (input, name, about) in settings.inputs() {
        let directory = scratch.path().join(name);
        let made = inputs::make(input, &directory, settings.size, settings.folders.seed)?;
        for (state, _, state_name) in settings.states() {
            let takes =
                |case: &&CostCase| input.takes(case, state) && settings.wants_tool(case.tool);
            let cases: Vec<_> = CASES.iter().filter(takes).collect();
            if cases.is_empty() {
                continue;
            }
            let title = format!("{about}, {state_name}");
            match limited(settings, state, &directory) {
                Err(error) => writeln!(skipped, "Not measured: {title}, since {error:#}.")?,
                Ok(_limited) => {
                    let rows = rows(settings, &cases, &made, state, |case| {
                        progress.set_message(format!("{title}: {case}"));
                        progress.tick();
                    })?;
                    sections.push(CostSection { title, state, rows });
                }
            }
        }
        fs::remove_dir_all(&directory)?;
    }
    progress.finish_and_clear();
    let page = table::page(&(preface(settings)? + &skipped), &sections);
    files::report(&settings.folders.output, "costs.md", &page)
}

/// Measures commands on files in a state. Calls `begins` for each command.
fn rows(
    settings: &CostSettings,
    cases: &[&CostCase],
    made: &InputFiles,
    state: PageCacheState,
    begins: impl Fn(&str),
) -> Result<Vec<CostRow>> {
    let row = |case: &&CostCase| {
        let title = case.title();
        begins(&title);
        let cells = LOCALES.map(|locale| cell(settings, case, made, state, locale));
        let cells = cells.into_iter().collect::<Result<_>>()?;
        Ok(CostRow { title, cells })
    };
    cases.iter().map(row).collect()
}

fn check_names(only: &[String]) -> Result<()> {
    let inputs = INPUTS.map(|(_, name, _)| name);
    let states = STATES.map(|(_, name, _)| name);
    let names: Vec<&str> = TOOLS.into_iter().chain(inputs).chain(states).collect();
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => bail!(
            "nothing is called \"{name}\"; there are {}",
            names.join(", ")
        ),
        None => Ok(()),
    }
}

/// Throttles the disk if the state requires it.
fn limited(
    settings: &CostSettings,
    state: PageCacheState,
    directory: &Path,
) -> Result<Option<CgroupGuard>> {
    let limits = MachineLimits {
        memory: UNLIMITED,
        read_bps: settings.rate,
    };
    let slow = state == PageCacheState::Throttled;
    slow.then(|| CgroupGuard::enter(directory, limits))
        .transpose()
}

/// The two command lines to compare.
struct CommandPair {
    gnu: (PathBuf, Vec<OsString>),
    ours: (PathBuf, Vec<OsString>),
}

impl CommandPair {
    fn new(case: &CostCase, made: &InputFiles) -> Result<CommandPair> {
        let mut args: Vec<OsString> = Vec::new();
        if made.recursive {
            args.push("-r".into());
        }
        args.extend(case.args.iter().map(OsString::from));
        args.extend(made.operands.iter().map(OsString::from));
        let tool = OsString::from(case.tool);
        let program = measure::this_program()?;
        Ok(CommandPair {
            ours: (
                program,
                std::iter::once(tool).chain(args.iter().cloned()).collect(),
            ),
            gnu: (case.tool.into(), args),
        })
    }
}

/// Measures one command in one locale: rounds of GNU's program and ours, in alternating order.
fn cell(
    settings: &CostSettings,
    case: &CostCase,
    made: &InputFiles,
    state: PageCacheState,
    locale: &str,
) -> Result<CostCell> {
    let pair = CommandPair::new(case, made)?;
    let output = File::from(rustix::fs::memfd_create("printed", MemfdFlags::CLOEXEC)?);
    let measure = |ours: bool| {
        made.prepare(state)?;
        let (program, args) = if ours { &pair.ours } else { &pair.gnu };
        measure::run(program, args, &[("LC_ALL", locale.as_ref())], &output)
    };
    // The first run of each program is not counted, since it loads the program.
    let first = measure(false)?;
    let expected = measure::printed(&output)?;
    measure(true)?;
    ensure!(
        measure::printed(&output)? == expected,
        "{} prints something else than GNU's in the locale {locale} ({} ...)",
        case.title(),
        made.operands[0].display()
    );
    let repeats = ((ROUND_S / first.seconds) as usize).clamp(1, REPEATS);
    let mut rounds = Vec::new();
    for first in 0..settings.rounds as usize {
        rounds.push(round(first..first + repeats, &measure)?);
    }
    Ok(compare(&rounds))
}

/// Runs both programs in turn. In pairs with an even number, GNU's is first.
fn round(
    pairs: Range<usize>,
    measure: &impl Fn(bool) -> Result<RunMeasurement>,
) -> Result<(Vec<RunMeasurement>, Vec<RunMeasurement>)> {
    let (mut gnu, mut ours) = (Vec::new(), Vec::new());
    for pair in pairs {
        if pair % 2 == 0 {
            gnu.push(measure(false)?);
            ours.push(measure(true)?);
        } else {
            ours.push(measure(true)?);
            gnu.push(measure(false)?);
        }
    }
    Ok((gnu, ours))
}

/// Returns the ratios of our times to GNU's, round by round.
fn compare(rounds: &[(Vec<RunMeasurement>, Vec<RunMeasurement>)]) -> CostCell {
    let sum = |runs: &[RunMeasurement], what: fn(&RunMeasurement) -> f64| {
        runs.iter().map(what).sum::<f64>()
    };
    let ratios = |what: fn(&RunMeasurement) -> f64| {
        let ratio = |(gnu, ours): &(Vec<RunMeasurement>, Vec<RunMeasurement>)| {
            sum(ours, what) / sum(gnu, what)
        };
        Median::of(&rounds.iter().map(ratio).collect::<Vec<_>>())
    };
    let mean = |(gnu, _): &(Vec<RunMeasurement>, Vec<RunMeasurement>)| {
        sum(gnu, |run| run.seconds) / gnu.len() as f64
    };
    let means: Vec<f64> = rounds.iter().map(mean).collect();
    CostCell {
        wall: ratios(|run| run.seconds),
        cpu: ratios(|run| run.cpu_s),
        gnu_s: Median::of(&means).median,
    }
}

fn preface(settings: &CostSettings) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "`sleds bench costs`: times of ours divided by GNU's, medians of {} rounds with the interval \
         that holds the median with 90 % certainty. In a round both ran alternately, up to {REPEATS} \
         times if they are quick. **Bold**: above the bar with all of the interval; `?`: with the \
         median. Both printed the same in every case. The large text has {} MiB; long lines, scripts \
         and random bytes a quarter of that. The slow disk reads {} MiB a second.\n",
        settings.rounds,
        settings.size >> 20,
        settings.rate >> 20
    )?;
    for tool in TOOLS {
        writeln!(text, "{}.", version(Path::new(tool))?)?;
    }
    text += &measure::machine();
    Ok(text)
}

fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(only: &[&str]) -> CostSettings {
        CostSettings {
            folders: BenchFolders::default(),
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            rounds: 11,
            size: 1 << 20,
            rate: 1 << 20,
        }
    }

    #[test]
    fn a_name_filter_excludes_only_others_of_its_kind() {
        let some = settings(&["wc", "tiny", "long"]);
        assert!(some.wants_tool("wc") && !some.wants_tool("grep"));
        let inputs: Vec<_> = some.inputs().map(|(_, name, _)| name).collect();
        assert_eq!(inputs, ["tiny", "long"]);
        assert_eq!(some.states().count(), STATES.len());
        assert!(check_names(&some.only).is_ok());
        assert!(check_names(&["gerp".to_owned()]).is_err());
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let run = |seconds: f64| RunMeasurement {
            seconds,
            cpu_s: seconds / 2.0,
            read_bytes: 0,
        };
        // The machine became ten times as slow in the second round.
        let rounds = [
            (vec![run(1.0), run(1.0)], vec![run(1.0), run(2.0)]),
            (vec![run(10.0), run(10.0)], vec![run(15.0), run(15.0)]),
        ];
        let cell = compare(&rounds);
        assert_eq!((cell.wall.median, cell.cpu.median), (1.5, 1.5));
        assert_eq!(cell.gnu_s, 5.5);
    }

    #[test]
    fn both_programs_get_identical_arguments() {
        let made = InputFiles {
            operands: vec!["a".into(), "b".into()],
            recursive: true,
            files: Vec::new(),
        };
        let pair = CommandPair::new(&CASES[6], &made).unwrap();
        assert_eq!(pair.gnu.1, ["-r", "forebay", "a", "b"]);
        assert_eq!(pair.ours.1, ["grep", "-r", "forebay", "a", "b"]);
    }
}
