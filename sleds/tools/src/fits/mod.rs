//! `sleds fits`: the two tools of LHEASOFT that the paper adapted (its section 5.3), on files of the
//! Flexible Image Transport System (FITS standard 4.0).
//!
//! Passes over the data go by data element in the order that costs least ([`pass`]); the results do
//! not depend on it. A file that is made gets its name when it is whole ([`target`]).
//!
//! To read: [`header`], [`hdu`], [`image`], then [`hist`] and [`rebin`].

mod checksum;
mod hdu;
mod header;
mod hist;
mod image;
mod pass;
mod rebin;
mod target;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sleds::Plan;

use hdu::{Fits, Which, named, which_of};
use image::Stored;
use sleds_common::Tool;
use target::Target;

pub(crate) const TOOL: Tool = Tool {
    name: "fits",
    command,
    run,
};

fn command() -> Command {
    Command::new("fits")
        .about("Histograms and rebins FITS images, reading what is cheap first")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(hist_command())
        .subcommand(bin_command())
}

fn common(command: Command) -> Command {
    let plans = sleds_common::plan::NAMES.map(|(name, _)| name);
    command
        .arg(
            Arg::new("infile")
                .required(true)
                .value_parser(value_parser!(OsString))
                .help("The file; FILE[2], FILE+2 or FILE[NAME] is one of its HDUs"),
        )
        .arg(
            Arg::new("outfile")
                .required(true)
                .value_parser(value_parser!(OsString))
                .help("The file to make; with ! before it, it may exist"),
        )
        .arg(
            Arg::new("hdu")
                .long("hdu")
                .value_name("N|NAME")
                .help("The HDU; 0 is the primary one [default: the first image]"),
        )
        .arg(
            Arg::new("clobber")
                .long("clobber")
                .action(ArgAction::SetTrue)
                .help("Replace the output if it exists"),
        )
        .arg(
            Arg::new("plan")
                .long("plan")
                .value_name("PLAN")
                .value_parser(plans)
                .default_value("auto")
                .help("Order of reading: best reads what is cheap first, auto where it pays"),
        )
}

fn hist_command() -> Command {
    let command = Command::new("hist")
        .about("Copies a FITS file and appends the histogram of an image's values as a table")
        .after_help(
            "Values are those with BSCALE and BZERO; pixels that are BLANK or NaN are not counted. \
             The table has the columns X (middle of the bin), Y (count) and ERROR (its root).",
        );
    common(command)
        .arg(
            Arg::new("range")
                .required(true)
                .allow_hyphen_values(true)
                .help("LOW:HIGH; an end left out is the data's, '-' is both"),
        )
        .arg(
            Arg::new("binsize")
                .required(true)
                .value_parser(positive)
                .help("Width of a bin"),
        )
}

fn bin_command() -> Command {
    let command = Command::new("bin")
        .about("Makes a smaller FITS image of sums over rectangles")
        .after_help(
            "Bins that are not complete at the edges are dropped. Of an image with more than two \
             axes, each plane is done. Pixels that are BLANK or NaN are left out of sums and \
             averages; a bin of nothing else is BLANK or NaN.",
        );
    let size = |name: &'static str| Arg::new(name).value_parser(value_parser!(u64).range(1..));
    common(command)
        .arg(
            size("xbinsize")
                .required(true)
                .help("Width of a bin in pixels"),
        )
        .arg(size("ybinsize").help("Height of a bin [default: xbinsize]"))
        .arg(
            Arg::new("average")
                .long("average")
                .action(ArgAction::SetTrue)
                .help("Averages, not sums"),
        )
        .arg(
            Arg::new("bitpix")
                .long("bitpix")
                .allow_negative_numbers(true)
                .value_parser(["8", "16", "32", "64", "-32", "-64"])
                .help("How the result is stored [default: as the image]"),
        )
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match number.is_finite() && number > 0.0 {
        true => Ok(number),
        false => Err("must be more than 0".into()),
    }
}

fn run(args: Vec<OsString>) -> ExitCode {
    let command = command().bin_name("sleds fits").no_binary_name(true);
    let matches = command.get_matches_from(args);
    let Some((name, matches)) = matches.subcommand() else {
        return ExitCode::from(2);
    };
    match work(name, matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sleds fits {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What both commands are told.
struct Given {
    input: PathBuf,
    output: PathBuf,
    which: Which,
    clobber: bool,
    plan: Plan,
}

fn given(matches: &ArgMatches) -> Given {
    let word = |name: &str| {
        matches
            .get_one::<OsString>(name)
            .cloned()
            .unwrap_or_default()
    };
    let (input, mut which) = named(&word("infile"));
    if let Some(hdu) = matches.get_one::<String>("hdu") {
        which = which_of(hdu);
    }
    let output = word("outfile");
    // The sign by which cfitsio's programs are told to replace a file.
    let stripped = output.as_bytes().strip_prefix(b"!").map(OsStr::from_bytes);
    let plan = matches.get_one::<String>("plan");
    let plan = sleds_common::plan::NAMES
        .iter()
        .find(|(name, _)| plan.is_some_and(|p| p == name));
    Given {
        input,
        clobber: matches.get_flag("clobber") || stripped.is_some(),
        output: stripped.unwrap_or(&output).into(),
        which,
        plan: plan.map_or(Plan::Auto, |(_, plan)| *plan),
    }
}

fn work(name: &str, matches: &ArgMatches) -> Result<()> {
    let given = given(matches);
    let path = given.input.display().to_string();
    let range = match matches.try_get_one::<String>("range") {
        Ok(Some(text)) => {
            let range = hist::Range::parse(text);
            range.with_context(|| format!("{text} is not a range, such as 0:100"))?
        }
        _ => hist::Range::default(),
    };
    let fits = Fits::open(&given.input).with_context(|| path.clone())?;
    // Known to be wanted before anything is written.
    fits.image(&given.which).with_context(|| path.clone())?;
    if fits.bytes < fits.file_bytes {
        let more = fits.file_bytes - fits.bytes;
        eprintln!("sleds fits {name}: {path}: {more} bytes behind the last HDU are left out");
    }
    let target = Target::new(&given.output, given.clobber)?;
    let done = match name {
        "hist" => {
            let job = hist::Job {
                which: &given.which,
                range,
                binsize: matches.get_one("binsize").copied().unwrap_or(1.0),
                plan: given.plan,
            };
            hist::hist(&fits, &job, target)
        }
        _ => {
            let x = matches.get_one("xbinsize").copied().unwrap_or(1);
            let bitpix = matches.get_one::<String>("bitpix");
            let job = rebin::Job {
                which: &given.which,
                x,
                y: matches.get_one("ybinsize").copied().unwrap_or(x),
                average: matches.get_flag("average"),
                stored: bitpix.and_then(|text| Stored::of(text.parse().ok()?)),
                plan: given.plan,
            };
            rebin::bin(&fits, &job, target)
        }
    };
    done.with_context(|| path)
}
