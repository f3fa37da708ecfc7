//! Parses the tests of a file's times, and their arguments.

use std::ffi::CStr;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, CWD};

use super::entry::{TimestampKind, UnixTime, birth_at, time_of};
use super::expr::{ExprNode, FileTest, NumericComparison};
use super::parse::{DAY_S, FindParser, UsageMessage, test};
use super::predicates::{invalid, lossy};
use super::walk::FollowMode;
use super::{dates, numbers, report};
use sleds_common::text;

impl FindParser {
    /// Parses a test of the file's times.
    pub(super) fn time_test(&mut self, name: &[u8]) -> Result<Option<ExprNode>, UsageMessage> {
        Ok(Some(match name {
            b"-newer" => self.newer(
                name,
                TimestampKind::Modification,
                TimestampKind::Modification,
            )?,
            b"-anewer" => self.newer(name, TimestampKind::Access, TimestampKind::Modification)?,
            b"-cnewer" => self.newer(name, TimestampKind::Change, TimestampKind::Modification)?,
            b"-atime" => self.age(name, TimestampKind::Access, DAY_S)?,
            b"-ctime" => self.age(name, TimestampKind::Change, DAY_S)?,
            b"-mtime" => self.age(name, TimestampKind::Modification, DAY_S)?,
            b"-amin" => self.age(name, TimestampKind::Access, 60)?,
            b"-cmin" => self.age(name, TimestampKind::Change, 60)?,
            b"-mmin" => self.age(name, TimestampKind::Modification, 60)?,
            b"-used" => {
                let arg = self.argument(name)?;
                let parsed = numbers::fraction(&lossy(&arg));
                let Some((compare, days)) = parsed else {
                    return Err(text!("Invalid argument ", arg, " to -used"));
                };
                let nanos = (days * DAY_S as f64 * 1e9) as i128;
                test(FileTest::Used { compare, nanos })
            }
            [b'-', b'n', b'e', b'w', b'e', b'r', x, y] => self.newer_xy(name, *x, *y)?,
            _ => return Ok(None),
        }))
    }

    /// Parses `-newerXY`.
    fn newer_xy(&mut self, name: &[u8], x: u8, y: u8) -> Result<ExprNode, UsageMessage> {
        let wrong = || text!("invalid predicate `", name, "'");
        let clock_of = |letter| match letter {
            b'a' => Some(TimestampKind::Access),
            b'B' => Some(TimestampKind::Birth),
            b'c' => Some(TimestampKind::Change),
            b'm' => Some(TimestampKind::Modification),
            _ => None,
        };
        let clock = clock_of(x).ok_or_else(wrong)?;
        if y != b't' {
            return self.newer(name, clock, clock_of(y).ok_or_else(wrong)?);
        }
        let arg = self.argument(name)?;
        let than = dates::parse(&lossy(&arg), self.now).ok_or_else(|| {
            let arg = report::quote(&arg);
            text!(
                "I cannot figure out how to interpret ",
                arg,
                " as a date or time"
            )
        })?;
        Ok(test(FileTest::Newer { clock, than }))
    }

    /// Makes a test: the file's time `clock` is later than the time `of` of a file that the expression names.
    fn newer(
        &mut self,
        name: &[u8],
        clock: TimestampKind,
        of: TimestampKind,
    ) -> Result<ExprNode, UsageMessage> {
        let (stat, path) = self.reference(name)?;
        let than = match of {
            TimestampKind::Birth => self.birth(&path)?,
            of => time_of(&stat, of),
        };
        Ok(test(FileTest::Newer { clock, than }))
    }

    fn birth(&self, path: &CStr) -> Result<UnixTime, UsageMessage> {
        let flags = match self.walk.follow {
            FollowMode::Never => AtFlags::SYMLINK_NOFOLLOW,
            _ => AtFlags::empty(),
        };
        let born = birth_at(CWD.as_fd(), path, flags).ok().flatten();
        born.ok_or_else(|| {
            let path = report::quote(path.to_bytes());
            text!("Cannot obtain birth time of file ", path)
        })
    }

    /// Parses an age in days or minutes.
    fn age(
        &mut self,
        name: &[u8],
        clock: TimestampKind,
        unit: i64,
    ) -> Result<ExprNode, UsageMessage> {
        let arg = self.argument(name)?;
        let parsed = numbers::fraction(&lossy(&arg));
        let (compare, value) = parsed.ok_or_else(|| invalid(name, &arg))?;
        let mut origin = self.day_start;
        if unit != DAY_S {
            origin.seconds += DAY_S;
        } else if compare == NumericComparison::Less {
            // Begun days count as whole days, except for the first second of today.
            origin.seconds += DAY_S - 1;
        }
        // A greater age is an earlier time.
        let compare = match compare {
            NumericComparison::Less => NumericComparison::More,
            NumericComparison::Equal => NumericComparison::Equal,
            NumericComparison::More => NumericComparison::Less,
        };
        Ok(test(FileTest::Age {
            clock,
            compare,
            reference: numbers::before(origin, value, unit as f64),
            window: unit,
        }))
    }
}
