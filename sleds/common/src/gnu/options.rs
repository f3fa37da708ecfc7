//! Parses command lines like the GNU programs: options and operands in any order, abbreviated long options, and `--` as
//! their end. With `POSIXLY_CORRECT` set, operands end the options too. A single table of options defines the parser
//! and, through [`command`], the help, the man page and the completions.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::quote::quotation_marks;
use crate::text;

/// Argument of an option, with its name in the help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionArgument {
    /// No argument.
    None,
    /// A required argument.
    Required(&'static str),
    /// An optional argument: only as `--option=VALUE`, or directly after the letter.
    Optional(&'static str),
}

/// An option. Several rows may share an `id`.
pub struct ToolOption<T: 'static> {
    /// Identifier of the option in the tool.
    pub id: T,
    /// Letter.
    pub short: Option<u8>,
    /// Long name.
    pub long: Option<&'static str>,
    /// Argument.
    pub arg: OptionArgument,
    /// Help text; empty for a hidden option.
    pub help: &'static str,
    /// True if the GNU program does not have the option. Its name cannot be abbreviated, so that an abbreviation of
    /// another option has the same meaning as in the GNU program.
    pub ours: bool,
}

impl<T: Copy> ToolOption<T> {
    /// Makes an option; `short` is 0 for an option without a letter.
    pub const fn new(
        id: T,
        short: u8,
        long: Option<&'static str>,
        arg: OptionArgument,
        help: &'static str,
    ) -> ToolOption<T> {
        ToolOption {
            id,
            short: if short == 0 { None } else { Some(short) },
            long,
            arg,
            help,
            ours: false,
        }
    }

    /// Makes an option without an argument.
    pub const fn flag(id: T, short: u8, long: &'static str, help: &'static str) -> ToolOption<T> {
        ToolOption::new(id, short, Some(long), OptionArgument::None, help)
    }

    /// Makes an option with an argument, which the help calls `arg`.
    pub const fn with(
        id: T,
        short: u8,
        long: &'static str,
        arg: &'static str,
        help: &'static str,
    ) -> ToolOption<T> {
        ToolOption::new(id, short, Some(long), OptionArgument::Required(arg), help)
    }

    /// Marks an option that the GNU program does not have.
    #[must_use]
    pub const fn of_ours(self) -> ToolOption<T> {
        ToolOption { ours: true, ..self }
    }
}

/// A parsed item of the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedArgument<T> {
    /// An option, with its argument.
    Option(T, Option<OsString>),
    /// An operand.
    Operand(OsString),
}

/// An error in the command line; contains the text of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageError(pub Vec<u8>);

/// Parses `args`. If `permute` is false, the first operand ends the options.
///
/// # Errors
/// If an option is unknown or ambiguous, or its argument is missing or superfluous.
pub fn parse<T: Copy + PartialEq>(
    table: &[ToolOption<T>],
    args: Vec<OsString>,
    permute: bool,
) -> Result<Vec<ParsedArgument<T>>, UsageError> {
    let items = parse_words(table, args, permute)?;
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

/// Parses `args` like [`parse`]. Each item has the number of its word on the command line.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_words<T: Copy + PartialEq>(
    table: &[ToolOption<T>],
    args: Vec<OsString>,
    permute: bool,
) -> Result<Vec<(usize, ParsedArgument<T>)>, UsageError> {
    let mut items = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    let mut word = 0;
    while let Some(arg) = args.next() {
        word += 1;
        match arg.as_bytes() {
            b"--" => break,
            [b'-', b'-', name @ ..] => items.push((word, long(table, name, &mut args)?)),
            [b'-', letters @ ..] if !letters.is_empty() => {
                let mut add = |item| items.push((word, item));
                short(table, letters, &mut args, &mut add)?;
            }
            _ => {
                items.push((word, ParsedArgument::Operand(arg)));
                if !permute {
                    break;
                }
            }
        }
    }
    items.extend(args.map(|arg| (word + 1, ParsedArgument::Operand(arg))));
    Ok(items)
}

/// Returns true unless the user requests that the first operand ends the options.
pub fn permutes() -> bool {
    std::env::var_os("POSIXLY_CORRECT").is_none()
}

/// Parses the option in `--TEXT`.
fn long<T: Copy + PartialEq>(
    table: &[ToolOption<T>],
    text: &[u8],
    args: &mut impl Iterator<Item = OsString>,
) -> Result<ParsedArgument<T>, UsageError> {
    let at = text.iter().position(|b| *b == b'=');
    let name = &text[..at.unwrap_or(text.len())];
    let value = at.map(|at| OsStr::from_bytes(&text[at + 1..]).to_owned());
    let opt = find_long(table, name, text)?;
    let full = opt.long.unwrap_or_default().as_bytes();
    match (opt.arg, value) {
        (OptionArgument::None, Some(_)) => {
            let text = text!("option '--", full, "' doesn't allow an argument");
            Err(UsageError(text))
        }
        (OptionArgument::Required(_), None) => match args.next() {
            Some(value) => Ok(ParsedArgument::Option(opt.id, Some(value))),
            None => Err(UsageError(text!(
                "option '--",
                full,
                "' requires an argument"
            ))),
        },
        (_, value) => Ok(ParsedArgument::Option(opt.id, value)),
    }
}

/// Finds the option called `name`, or the only option that `name` abbreviates.
fn find_long<'t, T: Copy + PartialEq>(
    table: &'t [ToolOption<T>],
    name: &[u8],
    text: &[u8],
) -> Result<&'t ToolOption<T>, UsageError> {
    let long = |opt: &ToolOption<T>| opt.long.unwrap_or_default().as_bytes();
    if let Some(exact) = table.iter().find(|o| o.long.is_some() && long(o) == name) {
        return Ok(exact);
    }
    let begins = |o: &&ToolOption<T>| o.long.is_some() && !o.ours && long(o).starts_with(name);
    let possible: Vec<&ToolOption<T>> = table.iter().filter(begins).collect();
    let Some(first) = possible.first() else {
        return Err(UsageError(text!("unrecognized option '--", text, "'")));
    };
    let same = |o: &&ToolOption<T>| o.id == first.id && o.arg == first.arg;
    if possible.iter().all(same) {
        return Ok(first);
    }
    let mut words = text!("option '--", text, "' is ambiguous; possibilities:");
    for opt in &possible {
        words.extend_from_slice(&text!(" '--", long(opt), "'"));
    }
    Err(UsageError(words))
}

/// Parses the options in `-LETTERS`.
fn short<T: Copy + PartialEq>(
    table: &[ToolOption<T>],
    letters: &[u8],
    args: &mut impl Iterator<Item = OsString>,
    add: &mut impl FnMut(ParsedArgument<T>),
) -> Result<(), UsageError> {
    for (at, letter) in letters.iter().enumerate() {
        let Some(opt) = table.iter().find(|o| o.short == Some(*letter)) else {
            return Err(UsageError(text!("invalid option -- '", [*letter], "'")));
        };
        let rest = &letters[at + 1..];
        let attached = || (!rest.is_empty()).then(|| OsString::from_vec(rest.to_vec()));
        let value = match opt.arg {
            OptionArgument::None => {
                add(ParsedArgument::Option(opt.id, None));
                continue;
            }
            OptionArgument::Optional(_) => attached(),
            OptionArgument::Required(_) => {
                if let Some(value) = attached().or_else(|| args.next()) {
                    Some(value)
                } else {
                    let text = text!("option requires an argument -- '", [*letter], "'");
                    return Err(UsageError(text));
                }
            }
        };
        add(ParsedArgument::Option(opt.id, value));
        break;
    }
    Ok(())
}

/// Returns the value that `word`, an argument of `option`, names or unambiguously abbreviates in `table`.
///
/// # Errors
/// If `word` is ambiguous, or names no value.
pub fn one_of<T: Copy + PartialEq>(
    option: &str,
    word: &OsStr,
    table: &[(&str, T)],
) -> Result<T, UsageError> {
    if let Some((_, exact)) = table.iter().find(|(name, _)| *name == word) {
        return Ok(*exact);
    }
    let begins = |(name, _): &&(&str, T)| name.as_bytes().starts_with(word.as_bytes());
    let possible: Vec<T> = table.iter().filter(begins).map(|(_, t)| *t).collect();
    let what = match possible.first() {
        Some(first) if possible.iter().all(|t| t == first) => return Ok(*first),
        Some(_) => "ambiguous",
        None => "invalid",
    };
    let (open, close) = quotation_marks();
    let names = table
        .iter()
        .map(|(name, _)| format!("\n  - {open}{name}{close}"));
    let names: String = names.collect();
    let rest = format!("{close} for {open}{option}{close}\nValid arguments are:{names}");
    Err(UsageError(text!(
        what,
        " argument ",
        open,
        word.as_bytes(),
        rest
    )))
}

/// Returns `base` with the options of `table`, for help, man pages and completions.
pub fn command<T>(base: clap::Command, table: &[ToolOption<T>]) -> clap::Command {
    let shown = table.iter().enumerate().filter(|(_, o)| !o.help.is_empty());
    base.disable_help_flag(true)
        .disable_version_flag(true)
        .args(shown.map(|(at, opt)| arg(at, opt)))
}

fn arg<T>(at: usize, opt: &ToolOption<T>) -> clap::Arg {
    let mut arg = clap::Arg::new(at.to_string()).help(opt.help);
    if let Some(short) = opt.short {
        arg = arg.short(char::from(short));
    }
    if let Some(long) = opt.long {
        arg = arg.long(long);
    }
    match opt.arg {
        OptionArgument::None => arg.action(clap::ArgAction::SetTrue),
        OptionArgument::Required(name) => arg.value_name(name),
        OptionArgument::Optional(name) => arg.value_name(name).num_args(0..=1).require_equals(true),
    }
}
