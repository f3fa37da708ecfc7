//! Parses the words of an expression and their arguments. Times and actions are in `times.rs` and `actions.rs`.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use rustix::fs::{Access, CWD};

use super::entry::{UnixTime, stat_at};
use super::expr::{ExprNode, FileTest, NumericComparison, NumericTest, PermMatch};
use super::parse::{DAY_S, FindParser, UsageMessage, test};
use super::sys::{self, GnuRegex, LocalTime};
use super::walk::FollowMode;
use super::{numbers, perm, report};
use sleds_common::{glob, text};

/// The syntaxes of regular expressions, with their `RE_…` bits of `<regex.h>`.
const SYNTAXES: [(&str, u64); 13] = [
    ("findutils-default", 1 << 6),
    ("ed", 0x101_02c6),
    ("emacs", 0),
    ("gnu-awk", 0x23_b24d),
    ("grep", 0x1_0a46),
    ("posix-awk", 0x2b_b2fd),
    ("awk", 0xb_e0cd),
    ("posix-basic", 0x101_02c6),
    ("posix-egrep", 0x23_ba5c),
    ("egrep", 0x23_ba5c),
    ("posix-extended", 0x3_b2fc),
    ("posix-minimal-basic", 0x1_06c4),
    ("sed", 0x101_02c6),
];

/// `invalid argument `ARG' to `NAME'`.
pub(super) fn invalid(name: &[u8], arg: &[u8]) -> UsageMessage {
    text!("invalid argument `", arg, "' to `", name, "'")
}

pub(super) fn lossy(arg: &[u8]) -> String {
    String::from_utf8_lossy(arg).into_owned()
}

impl FindParser {
    /// Returns the argument of a word.
    pub(super) fn argument(&mut self, name: &[u8]) -> Result<Vec<u8>, UsageMessage> {
        self.next()
            .ok_or_else(|| text!("missing argument to `", name, "'"))
    }

    fn pattern(&mut self, name: &[u8]) -> Result<CString, UsageMessage> {
        let arg = self.argument(name)?;
        Ok(CString::new(arg).expect("arguments have no zero bytes"))
    }

    fn number(&mut self, name: &[u8]) -> Result<NumericTest, UsageMessage> {
        let arg = self.argument(name)?;
        numbers::number(&lossy(&arg)).ok_or_else(|| invalid(name, &arg))
    }

    /// Parses a word that begins with a dash. An option becomes a test that is always true, since options may stand
    /// where a test may stand. Returns `None` for an unknown word.
    pub(super) fn primary(&mut self, name: &[u8]) -> Result<Option<ExprNode>, UsageMessage> {
        // GNU find accepts these also with two dashes.
        let word = match name {
            b"--help" | b"--version" => &name[1..],
            _ => name,
        };
        if self.option(word)? {
            return Ok(Some(test(FileTest::True)));
        }
        if self.first_test.is_none() {
            self.first_test = Some(name.to_vec());
        }
        if let Some(node) = self.name_test(word)? {
            return Ok(Some(node));
        }
        if let Some(node) = self.status_test(word)? {
            return Ok(Some(node));
        }
        if let Some(node) = self.time_test(word)? {
            return Ok(Some(node));
        }
        if let Some(node) = self.action(word)? {
            return Ok(Some(node));
        }
        Err(text!("unknown predicate `", name, "'"))
    }

    /// Parses an option. Options are always true, and affect the whole walk or the following words.
    fn option(&mut self, name: &[u8]) -> Result<bool, UsageMessage> {
        match name {
            b"-daystart" => self.start_of_day(),
            b"-follow" => self.walk.follow = FollowMode::Always,
            b"-warn" => self.warnings = true,
            b"-nowarn" => self.warnings = false,
            b"-regextype" => self.regex_type()?,
            b"-report" | b"--report" => self.report = true,
            b"-files0-from" => self.paths_from = Some(self.argument(name)?),
            _ => return self.global_option(name),
        }
        Ok(true)
    }

    fn global_option(&mut self, name: &[u8]) -> Result<bool, UsageMessage> {
        match name {
            b"-depth" | b"-d" => {
                self.walk.depth_first = true;
                self.depth_given = true;
                if name == b"-d" {
                    self.warn(
                        "the -d option is deprecated; please use -depth instead, because the \
                        latter is a POSIX-compliant feature.",
                    );
                }
            }
            b"-maxdepth" => self.walk.depth_max = self.levels(name)?,
            b"-mindepth" => self.walk.depth_min = self.levels(name)?,
            b"-mount" | b"-xdev" => self.walk.one_filesystem = true,
            b"-noleaf" => {}
            b"-ignore_readdir_race" => self.walk.ignore_race = true,
            b"-noignore_readdir_race" => self.walk.ignore_race = false,
            _ => return Ok(false),
        }
        if let Some(first) = &self.first_test {
            let (name, first) = (lossy(name), lossy(first));
            self.warn(format!(
                "you have specified the global option {name} after the argument {first}, but global \
                 options are not positional, i.e., {name} affects tests specified before it as well \
                 as those specified after it.  Please specify global options before other arguments."
            ));
        }
        Ok(true)
    }

    fn levels(&mut self, name: &[u8]) -> Result<usize, UsageMessage> {
        let arg = self.argument(name)?;
        let text = lossy(&arg);
        if text.is_empty() || text.bytes().any(|b| !b.is_ascii_digit()) {
            let expected = "Expected a positive decimal integer argument to ";
            return Err(text!(expected, name, ", but got ", report::quote(&arg)));
        }
        match text.parse::<i32>() {
            Ok(levels) => Ok(levels as usize),
            Err(_) => Err(format!("{text}: {}", sys_range()).into_bytes()),
        }
    }

    /// Selects the beginning of today as the reference for ages in days.
    fn start_of_day(&mut self) {
        if self.whole_days {
            return;
        }
        self.whole_days = true;
        let now = self.now.seconds;
        let into = LocalTime::new(now).map_or(now.rem_euclid(DAY_S), |local| {
            let [hour, minute, second] = local.time();
            hour * 3600 + minute * 60 + second
        });
        self.day_start = UnixTime {
            seconds: now - into,
            nanos: 0,
        };
    }

    fn regex_type(&mut self) -> Result<(), UsageMessage> {
        let arg = self.argument(b"-regextype")?;
        let found = SYNTAXES.iter().find(|(name, _)| name.as_bytes() == arg);
        let Some((_, syntax)) = found else {
            let names = SYNTAXES.map(|(name, _)| report::quote(name.as_bytes()));
            let names = names.join(&b", "[..]);
            let wrong = text!("Unknown regular expression type ", report::quote(&arg));
            return Err(text!(wrong, "; valid types are ", names, "."));
        };
        self.regex_syntax = *syntax;
        Ok(())
    }

    /// Parses a test that needs only the name.
    fn name_test(&mut self, name: &[u8]) -> Result<Option<ExprNode>, UsageMessage> {
        let fold = name.starts_with(b"-i");
        Ok(Some(test(match name {
            b"-true" => FileTest::True,
            b"-false" => FileTest::False,
            b"-name" | b"-iname" => {
                let pattern = self.pattern(name)?;
                self.warn_of_slash(name, pattern.to_bytes());
                FileTest::Name { pattern, fold }
            }
            b"-path" | b"-ipath" | b"-wholename" | b"-iwholename" => {
                let pattern = self.pattern(name)?;
                self.warn_of_last_slash(name, &pattern, fold);
                FileTest::Path { pattern, fold }
            }
            b"-lname" | b"-ilname" => FileTest::Link {
                pattern: self.pattern(name)?,
                fold,
            },
            b"-regex" | b"-iregex" => FileTest::Regex(RefCell::new(self.regex(name, fold)?)),
            b"-type" => FileTest::Kind(self.kinds(name)?),
            b"-xtype" => FileTest::OtherKind(self.kinds(name)?),
            _ => return Ok(None),
        })))
    }

    fn regex(&mut self, name: &[u8], fold: bool) -> Result<GnuRegex, UsageMessage> {
        let arg = self.argument(name)?;
        let case = if fold { sys::IGNORE_CASE } else { 0 };
        GnuRegex::new(&arg, self.regex_syntax | case)
            .map_err(|error| text!("failed to compile regular expression '", arg, "': ", error))
    }

    /// Warns of a pattern that matches no path: only a starting point may end with a slash.
    fn warn_of_last_slash(&self, name: &[u8], pattern: &CStr, fold: bool) {
        let is_start = |start: &Vec<u8>| {
            let start = CString::new(start.as_slice());
            start.is_ok_and(|start| glob::matches(pattern, &start, fold))
        };
        let pattern_bytes = pattern.to_bytes();
        if pattern_bytes.ends_with(b"/") && !self.starts.iter().any(is_start) {
            let why = " will not match anything because it ends with /.";
            // GNU find prints this warning in spite of `-nowarn`.
            report::say(text!("warning: ", name, " ", pattern_bytes, why));
        }
    }

    fn warn_of_slash(&self, name: &[u8], pattern: &[u8]) {
        if !pattern.contains(&b'/') || pattern == b"/" {
            return;
        }
        let other: &[u8] = match name {
            b"-name" => b"-wholename",
            _ => b"-iwholename",
        };
        let [name, slash, other] = [name, b"/", other].map(report::quote);
        let what = " matches against basenames only, but the given pattern contains a directory \
                    separator (";
        let so = "), thus the expression will evaluate to false all the time.  Did you mean ";
        self.warn(text!(name, what, slash, so, other, "?"));
    }

    /// Parses letters of file types, separated by commas.
    fn kinds(&mut self, name: &[u8]) -> Result<Vec<u8>, UsageMessage> {
        let arg = self.argument(name)?;
        let wrong = |text: &str| Err(text.replace("NAME", &lossy(name)).into_bytes());
        if arg.is_empty() {
            return wrong("Arguments to NAME should contain at least one letter");
        }
        let mut kinds = Vec::new();
        let mut rest = &arg[..];
        loop {
            let letter = rest[0];
            if !b"bcdpflsD".contains(&letter) {
                let text = format!("Unknown argument to {}: {}", lossy(name), letter as char);
                return Err(text.into_bytes());
            }
            if letter == b'D' {
                return wrong(
                    "NAME D is not supported because Solaris doors are not supported on \
                    the platform find was compiled on.",
                );
            }
            if kinds.contains(&letter) {
                let text = format!(
                    "Duplicate file type '{}' in the argument list to {}.",
                    letter as char,
                    lossy(name)
                );
                return Err(text.into_bytes());
            }
            kinds.push(letter);
            match &rest[1..] {
                [] => return Ok(kinds),
                [b','] => {
                    return wrong(
                        "Last file type in list argument to NAME is missing, i.e., list is ending \
                         on: ','",
                    );
                }
                [b',', ..] => rest = &rest[2..],
                _ => return wrong("Must separate multiple arguments to NAME using: ','"),
            }
        }
    }

    /// Parses a test of the status.
    fn status_test(&mut self, name: &[u8]) -> Result<Option<ExprNode>, UsageMessage> {
        Ok(Some(test(match name {
            b"-size" => {
                let arg = self.argument(name)?;
                let (number, unit) = numbers::size(&lossy(&arg)).map_err(String::into_bytes)?;
                FileTest::Size { number, unit }
            }
            b"-empty" => FileTest::Empty,
            b"-perm" => self.perm_test()?,
            b"-links" => FileTest::Links(self.number(name)?),
            b"-inum" => FileTest::Inode(self.number(name)?),
            b"-uid" => FileTest::User(self.number(name)?),
            b"-gid" => FileTest::Group(self.number(name)?),
            b"-user" => FileTest::User(self.owner(name, sys::user_id, "a known user")?),
            b"-group" => FileTest::Group(self.owner(name, sys::group_id, "an existing group")?),
            b"-nouser" => FileTest::NoUser,
            b"-nogroup" => FileTest::NoGroup,
            b"-samefile" => self.same_file(name)?,
            b"-fstype" => FileTest::FileSystem(self.argument(name)?),
            b"-readable" => FileTest::May(Access::READ_OK),
            b"-writable" => FileTest::May(Access::WRITE_OK),
            b"-executable" => FileTest::May(Access::EXEC_OK),
            b"-context" => {
                self.argument(name)?;
                return Err(b"invalid predicate -context: SELinux is not enabled.".to_vec());
            }
            b"-latency" => self.latency(name)?,
            b"-level" => FileTest::Level(lossy(&self.argument(name)?)),
            _ => return Ok(None),
        })))
    }

    fn same_file(&mut self, name: &[u8]) -> Result<FileTest, UsageMessage> {
        let (stat, _) = self.reference(name)?;
        Ok(FileTest::SameFile {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    fn latency(&mut self, name: &[u8]) -> Result<FileTest, UsageMessage> {
        let arg = self.argument(name)?;
        let parsed = numbers::latency(&lossy(&arg));
        let (compare, value, unit_s) = parsed.ok_or_else(|| invalid(name, &arg))?;
        Ok(FileTest::Latency {
            compare,
            value,
            unit_s,
        })
    }

    fn owner(
        &mut self,
        name: &[u8],
        find: fn(&std::ffi::CStr) -> Option<u32>,
        what: &str,
    ) -> Result<NumericTest, UsageMessage> {
        let arg = self.pattern(name)?;
        let text = lossy(arg.to_bytes());
        if text.is_empty() {
            return Err(match name {
                b"-user" => b"The argument to -user should not be empty".to_vec(),
                _ => b"argument to -group is empty, but should be a group name".to_vec(),
            });
        }
        let value = find(&arg).map(u64::from).or_else(|| numbers::whole(&text));
        let Some(value) = value else {
            let name = report::quote(arg.to_bytes());
            return Err(text!(name, " is not the name of ", what));
        };
        Ok(NumericTest {
            compare: NumericComparison::Equal,
            value,
        })
    }

    fn perm_test(&mut self) -> Result<FileTest, UsageMessage> {
        let arg = self.argument(b"-perm")?;
        let text = lossy(&arg);
        let (how, mode) = match arg.first() {
            Some(b'-') => (PermMatch::All, &text[1..]),
            Some(b'/') => (PermMatch::Any, &text[1..]),
            _ => (PermMatch::Exactly, &text[..]),
        };
        let Some((file, dir)) = perm::parse(mode, how == PermMatch::Exactly) else {
            return Err(text!("invalid mode ", report::quote(&arg)));
        };
        if how == PermMatch::Any && file == 0 && dir == 0 {
            report::say(format!(
                "warning: you have specified a mode pattern {text} (which is equivalent to /000). \
                 The meaning of -perm /000 has now been changed to be consistent with -perm -000; \
                 that is, while it used to match no files, it now matches all files."
            ));
            return Ok(FileTest::Perm {
                file,
                dir,
                how: PermMatch::All,
            });
        }
        Ok(FileTest::Perm { file, dir, how })
    }

    /// Returns the status of a file that the expression names.
    pub(super) fn reference(
        &mut self,
        name: &[u8],
    ) -> Result<(rustix::fs::Stat, CString), UsageMessage> {
        let path = self.pattern(name)?;
        let follow = self.walk.follow != FollowMode::Never;
        let stat =
            stat_at(CWD, &path, follow).map_err(|errno| report::about(path.to_bytes(), errno))?;
        Ok((stat, path))
    }
}

fn sys_range() -> String {
    report::error_text(rustix::io::Errno::RANGE)
}
