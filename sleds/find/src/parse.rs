//! Parses the command line: options, starting points, and the structure of the expression.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::command::CommandRunner;
use super::entry::UnixTime;
use super::expr::{ExprNode, FileTest, FindAction};
use super::output::ActionOutputs;
use super::report;
use super::walk::{FollowMode, WalkOptions};
use sleds_common::text;

/// Error in the command line, as text for the user.
pub(super) type UsageMessage = Vec<u8>;

/// The parsed command line.
pub(super) struct FindCommandLine {
    pub(super) walk: WalkOptions,
    pub(super) paths: Vec<Vec<u8>>,
    /// A file that lists starting points.
    pub(super) paths_from: Option<Vec<u8>>,
    pub(super) expr: ExprNode,
    pub(super) outputs: ActionOutputs,
    pub(super) runners: Vec<CommandRunner>,
    /// Report the skipped files at the end.
    pub(super) report: bool,
    pub(super) now: UnixTime,
}

/// A word of the expression.
pub(super) enum ExprToken {
    Open,
    Close,
    Not(Vec<u8>),
    And(Vec<u8>),
    Or(Vec<u8>),
    Comma,
    Primary(ExprNode),
}

/// State of the parser.
pub(super) struct FindParser {
    args: Vec<Vec<u8>>,
    at: usize,
    pub(super) walk: WalkOptions,
    pub(super) outputs: ActionOutputs,
    pub(super) runners: Vec<CommandRunner>,
    pub(super) paths_from: Option<Vec<u8>>,
    pub(super) report: bool,
    pub(super) now: UnixTime,
    /// Reference moment for ages in days, a day too early.
    pub(super) day_start: UnixTime,
    pub(super) whole_days: bool,
    pub(super) regex_syntax: u64,
    pub(super) warnings: bool,
    /// `-delete`, `-prune` and `-depth` were given.
    pub(super) deletes: bool,
    pub(super) prunes: bool,
    pub(super) depth_given: bool,
    /// `-ok` or `-okdir` was given.
    pub(super) asks: bool,
    /// The first test or action, for warnings.
    pub(super) first_test: Option<Vec<u8>>,
    /// Starting points on the command line.
    pub(super) starts: Vec<Vec<u8>>,
}

/// Seconds of a day.
pub(super) const DAY_S: i64 = 86_400;

/// Parses the command line.
pub(super) fn parse(args: Vec<OsString>, now: UnixTime) -> Result<FindCommandLine, UsageMessage> {
    use std::io::IsTerminal as _;
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    let mut parser = FindParser {
        args: args.into_iter().map(OsString::into_vec).collect(),
        at: 0,
        walk: WalkOptions {
            follow: FollowMode::Never,
            depth_min: 0,
            depth_max: usize::MAX,
            depth_first: false,
            one_filesystem: false,
            ignore_race: false,
        },
        outputs: ActionOutputs::new(),
        runners: Vec::new(),
        paths_from: None,
        report: false,
        now,
        day_start: UnixTime {
            seconds: now.seconds - DAY_S,
            ..now
        },
        whole_days: false,
        regex_syntax: super::sys::SYNTAX_DEFAULT,
        warnings: !posix && std::io::stdin().is_terminal(),
        deletes: false,
        prunes: false,
        depth_given: false,
        asks: false,
        first_test: None,
        starts: Vec::new(),
    };
    parser.leading_options()?;
    let paths = parser.paths();
    parser.starts.clone_from(&paths);
    let expr = parser.expression()?;
    parser.finish(paths, expr)
}

/// Returns true if a word begins the expression.
fn begins_expression(word: &[u8]) -> bool {
    matches!(word, [b'-', _, ..] | b"(" | b"!")
}

impl FindParser {
    /// Returns the next word of the command line.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let word = self.args.get(self.at)?.clone();
        self.at += 1;
        Some(word)
    }

    pub(super) fn warn(&self, text: impl AsRef<[u8]>) {
        if self.warnings {
            report::say(text!("warning: ", text));
        }
    }

    /// Parses options before the starting points.
    fn leading_options(&mut self) -> Result<(), UsageMessage> {
        while let Some(word) = self.args.get(self.at) {
            match word.as_slice() {
                b"-H" => self.walk.follow = FollowMode::Named,
                b"-L" => self.walk.follow = FollowMode::Always,
                b"-P" => self.walk.follow = FollowMode::Never,
                b"--" => {
                    self.at += 1;
                    return Ok(());
                }
                b"-D" => {
                    if self.args.get(self.at + 1).is_none() {
                        return Err(b"Missing argument after the -D option.\n\
                            Try 'sleds find --help' for more information."
                            .to_vec());
                    }
                    self.at += 1;
                }
                [b'-', b'O', level @ ..] => check_level(level)?,
                _ => return Ok(()),
            }
            self.at += 1;
        }
        Ok(())
    }

    fn paths(&mut self) -> Vec<Vec<u8>> {
        let rest = &self.args[self.at..];
        let count = rest
            .iter()
            .take_while(|word| !begins_expression(word))
            .count();
        let paths = rest[..count].to_vec();
        self.at += count;
        paths
    }

    fn expression(&mut self) -> Result<Option<ExprNode>, UsageMessage> {
        let mut tokens = Vec::new();
        while let Some(word) = self.next() {
            if matches!(word.as_slice(), b"(" | b")" | b"!") && self.first_test.is_none() {
                self.first_test = Some(word.clone());
            }
            let token = match word.as_slice() {
                b"(" => Some(ExprToken::Open),
                b")" => Some(ExprToken::Close),
                b"," => Some(ExprToken::Comma),
                b"!" | b"-not" => Some(ExprToken::Not(word)),
                b"-a" | b"-and" => Some(ExprToken::And(word)),
                b"-o" | b"-or" => Some(ExprToken::Or(word)),
                [b'-', _, ..] => self.primary(&word)?.map(ExprToken::Primary),
                _ => return Err(self.misplaced(&word)),
            };
            tokens.extend(token);
        }
        if tokens.is_empty() {
            return Ok(None);
        }
        let mut tree = ExprTreeBuilder {
            tokens: tokens.into_iter().peekable(),
        };
        let node = tree.list("")?;
        match tree.tokens.next() {
            None => Ok(Some(node)),
            Some(_) => Err(b"you have too many ')'".to_vec()),
        }
    }

    fn misplaced(&self, word: &[u8]) -> UsageMessage {
        let text = text!("paths must precede expression: `", word, "'");
        let before = self.at.checked_sub(2).and_then(|at| self.args.get(at));
        let before_that = self.at.checked_sub(3).and_then(|at| self.args.get(at));
        let option = [before, before_that]
            .into_iter()
            .flatten()
            .find(|word| begins_expression(word));
        if let (Some(option), true) = (option, std::fs::symlink_metadata(os(word)).is_ok()) {
            let hint = "possible unquoted pattern after predicate `";
            return text!(text, "\n", report::PROGRAM, hint, option, "'?");
        }
        text
    }

    fn finish(
        mut self,
        mut paths: Vec<Vec<u8>>,
        expr: Option<ExprNode>,
    ) -> Result<FindCommandLine, UsageMessage> {
        if let Some(wrong) = self.contradiction(&paths) {
            return Err(wrong);
        }
        if self.deletes {
            self.walk.depth_first = true;
        }
        let mut expr = with_action(expr);
        expr.put_cheap_first();
        if paths.is_empty() && self.paths_from.is_none() {
            paths.push(b".".to_vec());
        }
        Ok(FindCommandLine {
            walk: self.walk,
            paths,
            paths_from: self.paths_from,
            expr,
            outputs: self.outputs,
            runners: self.runners,
            report: self.report,
            now: self.now,
        })
    }

    /// Returns an error for words that are valid individually but contradict each other.
    fn contradiction(&self, paths: &[Vec<u8>]) -> Option<UsageMessage> {
        if self.deletes && self.prunes && !self.depth_given {
            let text = b"The -delete action automatically turns on -depth, but -prune does \
                nothing when -depth is in effect.  If you want to carry on anyway, just explicitly \
                use the -depth option.";
            return Some(text.to_vec());
        }
        let from = self.paths_from.as_ref()?;
        if let Some(path) = paths.first() {
            let why = "file operands cannot be combined with -files0-from";
            let path = report::quote(path);
            return Some(text!("extra operand ", path, "\n", report::PROGRAM, why));
        }
        (self.asks && from == b"-").then(|| {
            b"option -files0-from reading from standard input cannot be combined \
                with -ok, -okdir\n"
                .to_vec()
        })
    }
}

/// Adds the default action, printing, to an expression without an action.
fn with_action(expr: Option<ExprNode>) -> ExprNode {
    // `-quit` is not an action for this purpose: it ends the walk before the print.
    let speaks = |action: &FindAction| !matches!(action, FindAction::Prune | FindAction::Quit);
    let print = ExprNode::Do(FindAction::Print { to: 0, end: b'\n' });
    match expr {
        None => print,
        Some(expr) if expr.any_action(&speaks) => expr,
        Some(expr) => ExprNode::And(vec![expr, print]),
    }
}

fn check_level(level: &[u8]) -> Result<(), UsageMessage> {
    if level.is_empty() {
        return Err(b"The -O option must be immediately followed by a decimal integer".to_vec());
    }
    if !level[0].is_ascii_digit() {
        return Err(b"Please specify a decimal number immediately after -O".to_vec());
    }
    let text = String::from_utf8_lossy(level);
    match text.parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "Optimisation level {text} is too high.  If you want to find files very quickly, \
             consider using GNU locate."
        )
        .into_bytes()),
    }
}

/// Converts bytes to a file name.
pub(super) fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

/// Builds a tree from the words. Precedence, from the weakest: comma, or, and, not.
struct ExprTreeBuilder {
    tokens: std::iter::Peekable<std::vec::IntoIter<ExprToken>>,
}

fn nothing_before(operator: &[u8]) -> UsageMessage {
    let text = "invalid expression; you have used a binary operator '";
    text!(text, operator, "' with nothing before it.")
}

fn expected_after(operator: &[u8]) -> UsageMessage {
    text!("expected an expression after '", operator, "'")
}

fn expected_between(operator: &[u8]) -> UsageMessage {
    text!("expected an expression between '", operator, "' and ')'")
}

impl ExprTreeBuilder {
    fn list(&mut self, after: &str) -> Result<ExprNode, UsageMessage> {
        let mut nodes = vec![self.or(after.as_bytes())?];
        while self
            .tokens
            .next_if(|t| matches!(t, ExprToken::Comma))
            .is_some()
        {
            nodes.push(self.or(b",")?);
        }
        Ok(single(nodes, ExprNode::List))
    }

    fn or(&mut self, after: &[u8]) -> Result<ExprNode, UsageMessage> {
        let mut nodes = vec![self.and(after)?];
        while let Some(ExprToken::Or(word)) = self.tokens.next_if(|t| matches!(t, ExprToken::Or(_)))
        {
            nodes.push(self.and(&word)?);
        }
        Ok(single(nodes, ExprNode::Or))
    }

    fn and(&mut self, after: &[u8]) -> Result<ExprNode, UsageMessage> {
        let mut nodes = vec![self.not(after)?];
        loop {
            match self.tokens.peek() {
                None | Some(ExprToken::Close | ExprToken::Comma | ExprToken::Or(_)) => break,
                Some(ExprToken::And(_)) => {
                    let Some(ExprToken::And(word)) = self.tokens.next() else {
                        break;
                    };
                    nodes.push(self.not(&word)?);
                }
                Some(_) => nodes.push(self.not(b"")?),
            }
        }
        Ok(single(nodes, ExprNode::And))
    }

    /// Parses one primary with its negations; `after` is the operator before it.
    fn not(&mut self, after: &[u8]) -> Result<ExprNode, UsageMessage> {
        match self.tokens.next() {
            None => Err(expected_after(after)),
            Some(ExprToken::Primary(node)) => Ok(node),
            Some(ExprToken::Not(word)) => Ok(ExprNode::Not(Box::new(self.not(&word)?))),
            Some(ExprToken::And(word) | ExprToken::Or(word)) => Err(nothing_before(&word)),
            Some(ExprToken::Comma) => Err(nothing_before(b",")),
            Some(ExprToken::Close) if after.is_empty() => Err(b"you have too many ')'".to_vec()),
            Some(ExprToken::Close) => Err(expected_between(after)),
            Some(ExprToken::Open) => self.inside(),
        }
    }

    /// Parses the expression after an opening parenthesis.
    fn inside(&mut self) -> Result<ExprNode, UsageMessage> {
        match self.tokens.peek() {
            None => {
                return Err(
                    b"invalid expression; expected to find a ')' but didn't see one. \
                    Perhaps you need an extra predicate after '('"
                        .to_vec(),
                );
            }
            Some(ExprToken::Close) => {
                return Err(b"invalid expression; empty parentheses are not allowed.".to_vec());
            }
            Some(_) => {}
        }
        let node = self.list("(")?;
        match self.tokens.next() {
            Some(ExprToken::Close) => Ok(node),
            _ => Err(
                b"invalid expression; I was expecting to find a ')' somewhere but did not see one."
                    .to_vec(),
            ),
        }
    }
}

fn single(mut nodes: Vec<ExprNode>, many: fn(Vec<ExprNode>) -> ExprNode) -> ExprNode {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => many(nodes),
    }
}

/// Makes a node from a test.
pub(super) fn test(test: FileTest) -> ExprNode {
    ExprNode::Test(test)
}
