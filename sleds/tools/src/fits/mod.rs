//! `sleds fits`: the two tools of LHEASOFT that the paper adapted (its section 5.3), for files of the Flexible Image
//! Transport System (FITS standard 4.0).
//!
//! Passes over the data read by data element, in the order that costs least ([`pass`]). The results do not depend on
//! the order. An output file gets its name when it is complete ([`target`]).
//!
//! Suggested order of reading: [`header`], [`hdu`], [`image`], then [`hist`] and [`rebin`].

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
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Command, FromArgMatches as _, Subcommand, value_parser};
use sleds::ReadPlan;

use hdu::{named, which_of};
use image::PixelFormat;
use sleds_common::{Tool, gnu, plan};
use target::FitsTarget;

pub(crate) const TOOL: Tool = Tool {
    name: "fits",
    command,
    run,
};

#[derive(Subcommand)]
enum FitsCommand {
    /// Copies a FITS file and appends the histogram of an image's values as a table
    #[command(
        after_help = "Values are those with BSCALE and BZERO; pixels that are BLANK or NaN are not \
                      counted. The table has the columns X (middle of the bin), Y (count) and ERROR \
                      (its root)."
    )]
    Hist {
        #[command(flatten)]
        common: FitsArgs,
        /// LOW:HIGH; an omitted limit is the data's own, '-' omits both
        #[arg(allow_hyphen_values = true)]
        range: String,
        /// Width of a bin
        #[arg(value_parser = positive)]
        binsize: f64,
    },
    /// Makes a smaller FITS image of sums over rectangles
    #[command(
        after_help = "Bins that are not complete at the edges are dropped. Of an image with more than \
                      two axes, each plane is done. Pixels that are BLANK or NaN are left out of sums \
                      and averages; a bin of nothing else is BLANK or NaN."
    )]
    Bin {
        #[command(flatten)]
        common: FitsArgs,
        /// Width of a bin in pixels
        #[arg(value_parser = value_parser!(u64).range(1..))]
        xbinsize: u64,
        /// Height of a bin [default: xbinsize]
        #[arg(value_parser = value_parser!(u64).range(1..))]
        ybinsize: Option<u64>,
        /// Averages instead of sums
        #[arg(long)]
        average: bool,
        /// Storage format of the result [default: as the image]
        #[arg(long, allow_negative_numbers = true, value_parser = ["8", "16", "32", "64", "-32", "-64"])]
        bitpix: Option<String>,
    },
}

/// Arguments of both commands.
#[derive(clap::Args)]
struct FitsArgs {
    /// The file; FILE[2], FILE+2 or FILE[NAME] selects one of its HDUs
    infile: OsString,
    /// The output file; a leading ! permits replacing it
    outfile: OsString,
    /// The HDU; 0 is the primary one [default: the first image]
    #[arg(long, value_name = "N|NAME")]
    hdu: Option<String>,
    /// Replace an existing output file
    #[arg(long)]
    clobber: bool,
    /// Order of reading: best reads cheap parts first, auto does so if it pays
    #[arg(long, value_name = "PLAN", value_parser = plan::NAMES.map(|(name, _)| name), default_value = "auto")]
    plan: String,
}

fn command() -> Command {
    let about = "Histograms and rebins FITS images, reading what is cheap first";
    FitsCommand::augment_subcommands(Command::new("fits").about(about))
        .subcommand_required(true)
        .arg_required_else_help(true)
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("must be more than 0".into())
    }
}

fn run(args: Vec<OsString>) -> ExitCode {
    let command = command().bin_name("sleds fits").no_binary_name(true);
    let matches = match command.try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return gnu::answer("fits", &error),
    };
    let fits = FitsCommand::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let name = matches.subcommand_name().unwrap_or_default();
    match work(name, &fits) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sleds fits {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work(name: &str, command: &FitsCommand) -> Result<()> {
    let (FitsCommand::Hist { common, .. } | FitsCommand::Bin { common, .. }) = command;
    let (input, mut which) = named(&common.infile);
    if let Some(hdu) = &common.hdu {
        which = which_of(hdu);
    }
    let plan = plan::NAMES.iter().find(|(name, _)| *name == common.plan);
    let plan = plan.map_or(ReadPlan::Auto, |(_, plan)| *plan);
    let range = match command {
        FitsCommand::Hist { range, .. } => hist::HistRange::parse(range)
            .with_context(|| format!("{range} is not a range, such as 0:100"))?,
        FitsCommand::Bin { .. } => hist::HistRange::default(),
    };
    let path = input.display().to_string();
    let fits = hdu::FitsFile::open(&input).with_context(|| path.clone())?;
    // A missing image is reported before anything is written.
    fits.image(&which).with_context(|| path.clone())?;
    if fits.bytes < fits.file_bytes {
        let more = fits.file_bytes - fits.bytes;
        eprintln!("sleds fits {name}: {path}: {more} bytes behind the last HDU are left out");
    }
    // cfitsio's programs use this prefix to permit replacing a file.
    let stripped = common.outfile.as_bytes().strip_prefix(b"!");
    let output = stripped.map_or(&common.outfile[..], OsStr::from_bytes);
    let target = FitsTarget::new(output.as_ref(), common.clobber || stripped.is_some())?;
    let done = match command {
        FitsCommand::Hist { binsize, .. } => {
            let job = hist::HistJob {
                which: &which,
                range,
                binsize: *binsize,
                plan,
            };
            hist::hist(&fits, &job, target)
        }
        FitsCommand::Bin {
            xbinsize,
            ybinsize,
            average,
            bitpix,
            ..
        } => {
            let bitpix = bitpix.as_ref().and_then(|text| text.parse().ok());
            let job = rebin::RebinJob {
                which: &which,
                x: *xbinsize,
                y: ybinsize.unwrap_or(*xbinsize),
                average: *average,
                stored: bitpix.and_then(PixelFormat::of),
                plan,
            };
            rebin::bin(&fits, &job, target)
        }
    };
    done.with_context(|| path)
}
