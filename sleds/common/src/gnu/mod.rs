//! Parts that the tools share with their GNU counterparts: parsing of command lines, wording of messages, quoting of
//! file names in messages.

mod messages;
mod options;
#[cfg(test)]
mod options_tests;
mod quote;

pub use messages::{ErrorReporter, answer, note, print_help, print_version, reason};
pub use options::{
    OptionArgument, ParsedArgument, ToolOption, UsageError, command, one_of, parse, parse_words,
    permutes,
};
pub use quote::{escape_letter, quotation_marks, quoted, quoted_if_needed, quoted_in_locale};
