//! The compiled patterns, in either language.

use std::ops::Range;
use std::sync::OnceLock;

use regex_posix::{ByteTable, RegexSyntax};

use super::config::{GrepConfig, PatternSyntax};
use super::perl;
use sleds_common::locale::{Charset, Locale};

/// Patterns, ready to search.
pub(super) enum CompiledPatterns {
    Posix(Box<regex_posix::PosixRegex>),
    Perl(Box<perl::PerlRegex>),
}

/// The search was abandoned: the pattern has too many ways to match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MatchLimitError {
    /// Repetitions nest too deeply in a line.
    Nested,
    Perl(perl::PcreError),
}

impl From<regex_posix::NestingTooDeep> for MatchLimitError {
    fn from(_: regex_posix::NestingTooDeep) -> MatchLimitError {
        MatchLimitError::Nested
    }
}

impl From<perl::PcreError> for MatchLimitError {
    fn from(failure: perl::PcreError) -> MatchLimitError {
        MatchLimitError::Perl(failure)
    }
}

/// Messages about patterns.
#[derive(Debug, Default)]
pub(super) struct PatternMessages {
    pub(super) warnings: Vec<&'static str>,
    pub(super) errors: Vec<String>,
}

impl CompiledPatterns {
    /// Compiles the patterns of `config`; `None` if they are invalid.
    pub(super) fn new(
        config: &GrepConfig,
        locale: Locale,
        said: &mut PatternMessages,
    ) -> Option<CompiledPatterns> {
        let syntax = match config.matcher.unwrap_or(PatternSyntax::Basic) {
            PatternSyntax::Basic => RegexSyntax::Basic,
            PatternSyntax::Extended => RegexSyntax::Extended,
            PatternSyntax::Fixed => RegexSyntax::Fixed,
            PatternSyntax::Perl => {
                return perl(config, locale)
                    .map_err(|error| said.errors.push(error))
                    .ok();
            }
        };
        let options = regex_posix::RegexOptions {
            syntax,
            icase: config.icase,
            utf8: config.utf8,
            bytes: locale.has_wide_bytes().then(|| byte_table(locale)),
            dotted: locale.has_dotted_capital(),
            collates: !locale.orders_by_code(),
            eol: config.eol,
            whole_lines: config.whole_lines,
            whole_words: config.whole_words,
        };
        match regex_posix::PosixRegex::new(&config.patterns, options) {
            Ok(regex) => {
                said.warnings = regex.warnings().to_vec();
                Some(CompiledPatterns::Posix(Box::new(regex)))
            }
            Err(errors) => {
                said.errors = errors.iter().map(ToString::to_string).collect();
                None
            }
        }
    }

    /// Returns the first matching line in `lines`, which holds whole lines, at or after `from`, where a line begins.
    /// The range excludes the line's terminator.
    pub(super) fn find_line(
        &mut self,
        lines: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, MatchLimitError> {
        match self {
            CompiledPatterns::Posix(regex) => Ok(regex.find_line(lines, from)?),
            CompiledPatterns::Perl(regex) => Ok(regex.find_line(lines, from)?),
        }
    }

    /// Returns the number of matching lines.
    pub(super) fn count_lines(&mut self, lines: &[u8]) -> Result<u64, MatchLimitError> {
        let regex = match self {
            CompiledPatterns::Posix(regex) => return Ok(regex.count_lines(lines)?),
            CompiledPatterns::Perl(regex) => regex,
        };
        let (mut from, mut count) = (0, 0);
        while let Some(line) = regex.find_line(lines, from)? {
            count += 1;
            from = line.end + 1;
        }
        Ok(count)
    }

    /// Returns the first match at or after `from` in `line`, which has no terminator and matches.
    pub(super) fn find_in_line(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, MatchLimitError> {
        match self {
            CompiledPatterns::Posix(regex) => Ok(regex.find_in_line(line, from)?),
            CompiledPatterns::Perl(regex) => Ok(regex.find(line, from)?),
        }
    }
}

/// Returns the classes and cases of the locale's characters, each of which is a byte.
fn byte_table(locale: Locale) -> &'static ByteTable {
    static TABLE: OnceLock<ByteTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        ByteTable::new(
            |class, byte| locale.byte_is(class, byte),
            |byte| locale.byte_upper(byte),
        )
    })
}

fn perl(config: &GrepConfig, locale: Locale) -> Result<CompiledPatterns, String> {
    if locale.charset() == Charset::Multibyte {
        return Err("-P supports only unibyte and UTF-8 locales".to_owned());
    }
    let options = perl::PerlOptions {
        icase: config.icase,
        utf8: config.utf8,
        eol: config.eol,
        whole_lines: config.whole_lines,
        whole_words: config.whole_words,
    };
    let pattern = match &config.patterns[..] {
        // An empty list of patterns matches nothing.
        [] => &b"(*FAIL)"[..],
        [pattern] => pattern,
        _ => return Err("the -P option only supports a single pattern".to_owned()),
    };
    let mut regex = perl::PerlRegex::new(pattern, options)?;
    // GNU grep tries an empty line before it opens a file.
    regex
        .find(b"", 0)
        .map_err(|failure| format!("(standard input): {}", failure.reason()))?;
    Ok(CompiledPatterns::Perl(Box::new(regex)))
}
