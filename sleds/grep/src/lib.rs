//! `sleds grep`: GNU's `grep`, in the order that costs least.
//!
//! The command line (`args.rs`) gives a `GrepConfig`. Each file (`files.rs`) is read in pieces, in any order (`pieces.rs`),
//! and each piece is searched as a whole (the crate `regex-posix`, `perl/`). Matches are printed in the order of the
//! file (`emit.rs`, `line.rs`). The behaviour is that of GNU grep 3.8.

mod args;
mod block;
mod color;
mod config;
mod digest;
mod emit;
mod files;
mod glob;
mod head;
mod line;
mod output;
mod patterns;
mod perl;
mod pieces;
#[cfg(test)]
mod pieces_tests;
mod regex;
mod runs;
mod walk;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use args::{GrepRequest, GrepUsageError};
use color::ColorSequences;
use config::{ColorWhen, FileListing, GrepConfig};
use files::{Grep, StandardOutput};
use output::GrepOutput;
use regex::{CompiledPatterns, PatternMessages};
use sleds_common::Tool;
use sleds_common::gnu::{self, ErrorReporter};
use sleds_common::locale::{Charset, Locale};

/// The tool's entry for the program.
pub const TOOL: Tool = Tool {
    name: "grep",
    command: args::command,
    run,
};

/// Exit codes.
const SELECTED: u8 = 0;
const NOTHING_SELECTED: u8 = 1;
const TROUBLE: u8 = 2;

fn run(args: Vec<OsString>) -> ExitCode {
    let mut complaints = ErrorReporter::new("grep");
    let code = match args::parse(args, gnu::permutes()) {
        Ok(GrepRequest::Help) => {
            gnu::print_help(args::command(), &mut complaints);
            if complaints.any() { TROUBLE } else { SELECTED }
        }
        Ok(GrepRequest::Version) => {
            gnu::print_version(&mut complaints);
            if complaints.any() { TROUBLE } else { SELECTED }
        }
        Ok(GrepRequest::Nothing) => {
            eprint_usage();
            TROUBLE
        }
        Ok(GrepRequest::Search(config)) => start(*config, complaints),
        Err(GrepUsageError::Usage(usage)) => {
            complaints.say(&usage.0);
            eprint_usage();
            TROUBLE
        }
        // GNU grep's exit code differs here from its documentation.
        Err(GrepUsageError::Argument(usage)) => {
            complaints.say(&usage.0);
            eprint_usage();
            NOTHING_SELECTED
        }
        Err(GrepUsageError::Plain(text)) => {
            complaints.say(text);
            TROUBLE
        }
    };
    ExitCode::from(code)
}

fn eprint_usage() {
    eprintln!("Usage: sleds grep [OPTION]... PATTERNS [FILE]...");
    eprintln!("Try 'sleds grep --help' for more information.");
}

/// Prepares the search, and searches.
fn start(mut config: GrepConfig, mut complaints: ErrorReporter) -> u8 {
    for warning in std::mem::take(&mut config.warnings) {
        complaints.note(warning);
    }
    let locale = Locale::of_environment();
    if locale.charset() == Charset::Multibyte {
        let encoding = locale.encoding();
        complaints.note(format!(
            "warning: {encoding} is searched byte by byte, so a match may begin or end within a \
             character; use a locale in UTF-8"
        ));
    }
    let standard_output = StandardOutput::look();
    settle(&mut config, locale, &standard_output);
    if config.max_count == 0 && config.listing != FileListing::Nonmatching {
        return NOTHING_SELECTED;
    }
    let colors = colors(&config, &standard_output, &complaints);
    let Some(mut regex) = compile(&config, locale, &mut complaints) else {
        return TROUBLE;
    };
    config.skip_holes = skips_holes(&config, &mut regex);
    let out = GrepOutput::new(&config, colors);
    let grep = Grep {
        show_names: config.with_filename,
        config,
        regex,
        out,
        complaints,
        output: standard_output,
        trouble: false,
    };
    grep.all()
}

/// Makes the options consistent with each other and with the output.
fn settle(config: &mut GrepConfig, locale: Locale, output: &StandardOutput) {
    config.utf8 = locale.charset() == Charset::Utf8;
    if *output == StandardOutput::Nowhere {
        config.quiet_for_nobody();
    }
    if config.quiet {
        config.listing = FileListing::None;
    }
    if config.first_is_enough() {
        config.count = false;
    }
    if config.patterns.is_empty() {
        if !config.invert {
            // An empty list of patterns matches nothing, so no file needs to be read.
            config.max_count = 0;
        }
        // With `-v`, these options have no effect.
        config.whole_lines = false;
        config.whole_words = false;
    }
}

/// Returns true if the empty lines of a hole can be left out: they are not selected, and not printed as context.
fn skips_holes(config: &GrepConfig, regex: &mut CompiledPatterns) -> bool {
    let matches = regex.find_line(&[config.eol], 0);
    let selects = matches.map_or(true, |line| line.is_some() != config.invert);
    let prints = config.eol == 0 && config.has_context();
    !selects && !prints
}

/// Compiles the patterns into one expression, or reports their errors.
fn compile(
    config: &GrepConfig,
    locale: Locale,
    complaints: &mut ErrorReporter,
) -> Option<CompiledPatterns> {
    let mut said = PatternMessages::default();
    let regex = CompiledPatterns::new(config, locale, &mut said);
    for warning in said.warnings {
        complaints.note(format!("warning: {warning}"));
    }
    if regex.is_none() {
        for error in said.errors {
            complaints.say(error);
        }
    }
    regex
}

fn colors(
    config: &GrepConfig,
    output: &StandardOutput,
    complaints: &ErrorReporter,
) -> ColorSequences {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let on = match config.color {
        ColorWhen::Never => false,
        ColorWhen::Always => true,
        ColorWhen::Auto => *output == StandardOutput::Terminal && !dumb && !config.quiet,
    };
    if !on {
        return ColorSequences::none();
    }
    let old = std::env::var_os("GREP_COLOR");
    let new = std::env::var_os("GREP_COLORS");
    let bytes = |v: &Option<OsString>| v.as_ref().map(|v| v.as_bytes().to_vec());
    let (colors, warning) = ColorSequences::of_user(bytes(&old).as_deref(), bytes(&new).as_deref());
    if let Some(warning) = warning {
        complaints.note(warning);
    }
    colors
}
