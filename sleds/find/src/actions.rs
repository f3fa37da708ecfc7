//! Parses the actions of an expression.

use super::command::{CommandRunner, unsafe_path};
use super::expr::{ExprNode, FindAction};
use super::parse::{FindParser, UsageMessage};
use super::predicates::{invalid, lossy};
use super::{printf, report};
use sleds_common::text;

impl FindParser {
    /// Parses an action.
    pub(super) fn action(&mut self, name: &[u8]) -> Result<Option<ExprNode>, UsageMessage> {
        Ok(Some(ExprNode::Do(match name {
            b"-print" => FindAction::Print { to: 0, end: b'\n' },
            b"-print0" => FindAction::Print { to: 0, end: 0 },
            b"-fprint" => FindAction::Print {
                to: self.file(name)?,
                end: b'\n',
            },
            b"-fprint0" => FindAction::Print {
                to: self.file(name)?,
                end: 0,
            },
            b"-printf" => {
                let format = self.argument(name)?;
                let format = printf::parse(&format)?;
                FindAction::Format { to: 0, format }
            }
            b"-fprintf" => {
                let file = self.argument(name)?;
                let Some(format) = self.next() else {
                    return Err(invalid(name, &file));
                };
                let to = self.open(&file)?;
                let format = printf::parse(&format)?;
                FindAction::Format { to, format }
            }
            b"-ls" => FindAction::List { to: 0 },
            b"-fls" => FindAction::List {
                to: self.file(name)?,
            },
            b"-prune" => {
                self.prunes = true;
                FindAction::Prune
            }
            b"-quit" => FindAction::Quit,
            b"-delete" => {
                self.deletes = true;
                FindAction::Delete
            }
            b"-exec" => self.command(name, false, false)?,
            b"-execdir" => self.command(name, true, false)?,
            b"-ok" => self.command(name, false, true)?,
            b"-okdir" => self.command(name, true, true)?,
            _ => return Ok(None),
        })))
    }

    fn file(&mut self, name: &[u8]) -> Result<usize, UsageMessage> {
        let path = self.argument(name)?;
        self.open(&path)
    }

    fn open(&mut self, path: &[u8]) -> Result<usize, UsageMessage> {
        let opened = self.outputs.open(path);
        opened.map_err(|errno| report::about(path, errno))
    }

    /// Parses the words of a command up to `;`, or up to `{} +`.
    fn command(
        &mut self,
        name: &[u8],
        in_dir: bool,
        ask: bool,
    ) -> Result<FindAction, UsageMessage> {
        if in_dir && let Some(why) = unsafe_path(&lossy(name)) {
            return Err(why);
        }
        self.asks |= ask;
        let mut words: Vec<Vec<u8>> = Vec::new();
        let many = loop {
            let word = self.argument(name)?;
            match word.as_slice() {
                b";" => break false,
                b"+" if !ask && words.last().is_some_and(|last| last == b"{}") => break true,
                b"+" if !ask && words.last().is_some_and(|last| contains(last)) => {
                    return Err(self.not_alone(name, &words));
                }
                _ => words.push(word),
            }
        };
        if words.is_empty() {
            return Err(invalid(name, b";"));
        }
        if many {
            words.pop();
            if words.iter().any(|word| contains(word)) {
                let text = "Only one instance of {} is supported with ";
                return Err(text!(text, name, " ... +"));
            }
        }
        self.runners
            .push(CommandRunner::new(words, in_dir, ask, many));
        Ok(FindAction::Run(self.runners.len() - 1))
    }

    fn not_alone(&self, name: &[u8], words: &[Vec<u8>]) -> UsageMessage {
        let whole = report::quote(&text!(name, " ... {} +"));
        let last = report::quote(words.last().map_or(&[][..], |word| word));
        let but = " must appear by itself, but you specified ";
        text!("In ", whole, " the ", report::quote(b"{}"), but, last)
    }
}

fn contains(word: &[u8]) -> bool {
    word.windows(2).any(|two| two == b"{}")
}
