//! Dates as people write them, for `-newerXt`.
//!
//! What is understood: `@SECONDS`; a date (`2026-11-21`, `11/21/2026`, `20261121`, `21 Nov 2026`,
//! `Nov 21, 2026`), a time of day (`13:05`, `13:05:09.5`, `1:05 pm`), a zone (`Z`, `UTC`, `+0130`),
//! a weekday, `now`, `today`, `yesterday`, `tomorrow`, and offsets (`3 days ago`, `last week`, `-2
//! hours`), in any order.

use super::entry::Moment;
use super::sys::LocalTime;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// A word of a date.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Number { value: i64, digits: usize },
    Word(&'a str),
    Mark(u8),
}

/// What was read so far.
#[derive(Default)]
struct Parts {
    /// There was no word at all, which means the beginning of today.
    nothing: bool,
    date: Option<[i64; 3]>,
    time: Option<[i64; 3]>,
    nanos: i64,
    /// Seconds east of Greenwich.
    zone: Option<i64>,
    weekday: Option<(i64, i64)>,
    /// Years, months, days.
    later: [i64; 3],
    later_seconds: i64,
}

/// The moment that `text` names.
pub(super) fn parse(text: &str, now: Moment) -> Option<Moment> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return epoch(seconds);
    }
    let lower = text.to_ascii_lowercase();
    let tokens = tokens(&lower)?;
    let mut parts = Parts {
        nothing: tokens.is_empty(),
        ..Parts::default()
    };
    let mut rest = &tokens[..];
    while !rest.is_empty() {
        let used = date(rest, &mut parts)
            .or_else(|| clock(rest, &mut parts))
            .or_else(|| word(rest, &mut parts))
            .or_else(|| offset(rest, &mut parts))?;
        rest = &rest[used..];
    }
    moment(&parts, now)
}

fn epoch(text: &str) -> Option<Moment> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let nanos = nanos(fraction)?;
    if whole.starts_with('-') && nanos > 0 {
        return Some(Moment {
            seconds: seconds - 1,
            nanos: 1_000_000_000 - nanos,
        });
    }
    Some(Moment { seconds, nanos })
}

fn nanos(fraction: &str) -> Option<i64> {
    if fraction.bytes().any(|b| !b.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    digits.parse().ok()
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let class = |b: &u8| (b.is_ascii_digit(), b.is_ascii_alphabetic());
        match bytes[at] {
            b if b.is_ascii_alphanumeric() => {
                let same = |b: &&u8| class(b) == class(&bytes[start]);
                at += bytes[start..].iter().take_while(same).count();
                let word = &text[start..at];
                tokens.push(match word.parse() {
                    Ok(value) => Token::Number {
                        value,
                        digits: word.len(),
                    },
                    Err(_) if word.starts_with(|c: char| c.is_ascii_digit()) => return None,
                    Err(_) => Token::Word(word),
                });
            }
            b if b.is_ascii_whitespace()
                || b == b',' && tokens.last() != Some(&Token::Mark(b':')) =>
            {
                at += 1;
            }
            mark @ (b'-' | b'+' | b'/' | b':' | b'.') => {
                tokens.push(Token::Mark(mark));
                at += 1;
            }
            _ => return None,
        }
    }
    Some(tokens)
}

fn number(token: Option<&Token<'_>>) -> Option<(i64, usize)> {
    match token {
        Some(Token::Number { value, digits }) => Some((*value, *digits)),
        _ => None,
    }
}

fn mark(token: Option<&Token<'_>>, which: u8) -> Option<()> {
    (token == Some(&Token::Mark(which))).then_some(())
}

fn month(token: Option<&Token<'_>>) -> Option<i64> {
    let Some(Token::Word(word)) = token else {
        return None;
    };
    let short = |name: &&str| word.len() >= 3 && (*name == *word || name[..3] == **word);
    let found = MONTHS
        .iter()
        .position(|name| short(name) || *word == "sept" && *name == "september");
    found.map(|n| n as i64 + 1)
}

/// A date at the beginning of the tokens; returns how many it took.
fn date(t: &[Token<'_>], parts: &mut Parts) -> Option<usize> {
    let (found, used) = iso(t)
        .or_else(|| slashes(t))
        .or_else(|| named(t))
        .or_else(|| compact(t, parts))?;
    if !(1..=12).contains(&found[1]) || !(1..=31).contains(&found[2]) || parts.date.is_some() {
        return None;
    }
    parts.date = Some(found);
    // ISO 8601's letter between date and time.
    let joined = matches!(t.get(used), Some(Token::Word("t")));
    Some(used + usize::from(joined))
}

fn iso(t: &[Token<'_>]) -> Option<([i64; 3], usize)> {
    let (year, digits) = number(t.first())?;
    mark(t.get(1), b'-')?;
    let (month, _) = number(t.get(2))?;
    mark(t.get(3), b'-')?;
    let (day, _) = number(t.get(4))?;
    Some(([century(year, digits), month, day], 5))
}

fn slashes(t: &[Token<'_>]) -> Option<([i64; 3], usize)> {
    let (first, digits) = number(t.first())?;
    mark(t.get(1), b'/')?;
    let (second, _) = number(t.get(2))?;
    mark(t.get(3), b'/')?;
    let (third, third_digits) = number(t.get(4))?;
    // A year of four digits may stand first.
    match digits {
        4.. => Some(([first, second, third], 5)),
        _ => Some(([century(third, third_digits), first, second], 5)),
    }
}

fn named(t: &[Token<'_>]) -> Option<([i64; 3], usize)> {
    let dash = usize::from(mark(t.get(1), b'-').is_some());
    if let (Some((day, _)), Some(month)) = (number(t.first()), month(t.get(1 + dash))) {
        let dash_2 = usize::from(mark(t.get(2 + dash), b'-').is_some());
        let (year, digits) = number(t.get(2 + dash + dash_2))?;
        return Some(([century(year, digits), month, day], 3 + dash + dash_2));
    }
    let month = month(t.first())?;
    let (day, _) = number(t.get(1))?;
    let (year, digits) = number(t.get(2))?;
    Some(([century(year, digits), month, day], 3))
}

fn compact(t: &[Token<'_>], parts: &Parts) -> Option<([i64; 3], usize)> {
    let (value, digits) = number(t.first())?;
    let alone = !matches!(t.get(1), Some(Token::Mark(_)));
    (digits == 8 && alone && parts.date.is_none())
        .then_some(([value / 10_000, value / 100 % 100, value % 100], 1))
}

/// Two digits mean 1969 to 2068.
fn century(year: i64, digits: usize) -> i64 {
    match (digits, year) {
        (1..=2, 69..) => year + 1900,
        (1..=2, _) => year + 2000,
        _ => year,
    }
}

/// A time of day, with a zone, at the beginning of the tokens.
fn clock(t: &[Token<'_>], parts: &mut Parts) -> Option<usize> {
    let (mut hour, _) = number(t.first())?;
    let mut used = 1;
    let (mut minute, mut second) = (0, 0);
    if mark(t.get(1), b':').is_some() {
        (minute, _) = number(t.get(2))?;
        used = 3;
        if mark(t.get(3), b':').is_some() {
            (second, _) = number(t.get(4))?;
            used = 5;
            if let (Some(()), Some((value, digits))) = (mark(t.get(5), b'.'), number(t.get(6))) {
                parts.nanos = nanos(&format!("{value:0digits$}"))?;
                used = 7;
            }
        }
    }
    match t.get(used) {
        Some(Token::Word(half @ ("am" | "pm"))) if (1..=12).contains(&hour) => {
            hour = hour % 12 + if *half == "pm" { 12 } else { 0 };
            used += 1;
        }
        _ if used == 1 => return None,
        _ => {}
    }
    if parts.time.is_some() || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    parts.time = Some([hour, minute, second]);
    Some(used + zone(&t[used..], parts))
}

/// A zone in digits, right after a time of day.
fn zone(t: &[Token<'_>], parts: &mut Parts) -> usize {
    let sign = match t.first() {
        Some(Token::Mark(b'+')) => 1,
        Some(Token::Mark(b'-')) => -1,
        _ => return 0,
    };
    // `10:00 +2 hours` is an offset in time.
    if matches!(t.get(2), Some(Token::Word(word)) if unit(word).is_some()) {
        return 0;
    }
    match (number(t.get(1)), mark(t.get(2), b':'), number(t.get(3))) {
        (Some((hours, _)), Some(()), Some((minutes, _))) => {
            parts.zone = Some(sign * (hours * 60 + minutes) * 60);
            4
        }
        (Some((value, 1..=2)), ..) => {
            parts.zone = Some(sign * value * 3600);
            2
        }
        (Some((value, 3..=4)), ..) => {
            parts.zone = Some(sign * (value / 100 * 60 + value % 100) * 60);
            2
        }
        _ => 0,
    }
}

/// A word that stands for a day or a zone.
fn word(t: &[Token<'_>], parts: &mut Parts) -> Option<usize> {
    let Some(Token::Word(word)) = t.first() else {
        return None;
    };
    match *word {
        "now" | "today" => {}
        "yesterday" => parts.later[2] -= 1,
        "tomorrow" => parts.later[2] += 1,
        "z" | "utc" | "gmt" | "ut" => parts.zone = Some(0),
        name => {
            let day = DAYS
                .iter()
                .position(|day| *day == name || name.len() == 3 && day.starts_with(name))?;
            parts.weekday = Some((day as i64, 0));
        }
    }
    Some(1)
}

/// Years, months and days, or seconds, of a unit of time.
fn unit(word: &str) -> Option<([i64; 3], i64)> {
    let word = word.strip_suffix('s').unwrap_or(word);
    Some(match word {
        "year" => ([1, 0, 0], 0),
        "month" => ([0, 1, 0], 0),
        "fortnight" => ([0, 0, 14], 0),
        "week" => ([0, 0, 7], 0),
        "day" => ([0, 0, 1], 0),
        "hour" => ([0; 3], 3600),
        "minute" | "min" => ([0; 3], 60),
        "second" | "sec" => ([0; 3], 1),
        _ => return None,
    })
}

/// `3 days ago`, `-2 hours`, `last week`, `next monday`.
fn offset(t: &[Token<'_>], parts: &mut Parts) -> Option<usize> {
    let (mut sign, mut used) = match t.first() {
        Some(Token::Mark(b'-')) => (-1, 1),
        Some(Token::Mark(b'+')) => (1, 1),
        _ => (1, 0),
    };
    let mut count = 1;
    match t.get(used) {
        Some(Token::Number { value, .. }) => {
            count = *value;
            used += 1;
        }
        Some(Token::Word("last")) => {
            count = -1;
            used += 1;
        }
        Some(Token::Word("next")) => used += 1,
        Some(Token::Word("this")) => {
            count = 0;
            used += 1;
        }
        _ => {}
    }
    let Some(Token::Word(name)) = t.get(used) else {
        return None;
    };
    used += 1;
    let Some((days, seconds)) = unit(name) else {
        let mut inner = Parts::default();
        word(&t[used - 1..], &mut inner)?;
        parts.weekday = Some((inner.weekday?.0, count));
        return Some(used);
    };
    if matches!(t.get(used), Some(Token::Word("ago"))) {
        sign = -sign;
        used += 1;
    }
    let count = count.checked_mul(sign)?;
    for (sum, step) in parts.later.iter_mut().zip(days) {
        *sum = sum.checked_add(step.checked_mul(count)?)?;
    }
    let later = seconds.checked_mul(count)?;
    parts.later_seconds = parts.later_seconds.checked_add(later)?;
    Some(used)
}

fn moment(parts: &Parts, now: Moment) -> Option<Moment> {
    let today = LocalTime::new(now.seconds)?;
    let mut date = parts.date.unwrap_or(today.date());
    let fixed =
        parts.nothing || parts.date.is_some() || parts.time.is_some() || parts.weekday.is_some();
    let time = match parts.time {
        Some(time) => time,
        None if fixed => [0; 3],
        None => today.time(),
    };
    if let Some((day, count)) = parts.weekday {
        let ahead = (day - today.weekday()).rem_euclid(7);
        let weeks = if count > 0 && ahead > 0 {
            count - 1
        } else {
            count
        };
        date[2] += ahead + 7 * weeks;
    }
    for (sum, step) in date.iter_mut().zip(parts.later) {
        *sum = sum.checked_add(step)?;
    }
    let seconds = match parts.zone {
        None => LocalTime::seconds(date, time)?,
        Some(east) => {
            days_since_1970(date)? * 86_400 + time[0] * 3600 + time[1] * 60 + time[2] - east
        }
    };
    let nanos = if fixed { parts.nanos } else { now.nanos };
    Some(Moment {
        seconds: seconds.checked_add(parts.later_seconds)?,
        nanos,
    })
}

/// Days from the first of January 1970 to a date of the Gregorian calendar, whose month and day
/// may be out of range.
fn days_since_1970([year, month, day]: [i64; 3]) -> Option<i64> {
    if year.abs() > 1_000_000 || month.abs() > 1_000_000 {
        return None;
    }
    // Years begin in March here, so that the leap day is a year's last.
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before = (153 * month + 2) / 5;
    Some(year * 365 + leap + before + day - 1 - 719_468)
}
