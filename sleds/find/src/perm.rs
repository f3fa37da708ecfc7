//! Modes in the notation of `chmod` and `-perm`.

use rustix::fs::FileType;

use super::entry::kind_letter;

/// The permission bits, with set-user-ID, set-group-ID and sticky.
const ALL: u32 = 0o7777;

/// Applies `text` to a file without permissions. Returns the mode for a file, and for a directory. With `old`, a plus
/// before digits is an error.
pub(super) fn parse(text: &str, old: bool) -> Option<(u32, u32)> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        if text.bytes().any(|b| !(b'0'..=b'7').contains(&b)) {
            return None;
        }
        let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= ALL)?;
        return Some((mode, mode));
    }
    // This notation formerly meant `/MODE`.
    if text.starts_with('+') && text[1..].starts_with(|c: char| c.is_ascii_digit()) && old {
        return None;
    }
    Some((symbolic(text, false)?, symbolic(text, true)?))
}

/// Applies all changes to mode 0.
fn symbolic(text: &str, is_dir: bool) -> Option<u32> {
    let mut mode = 0;
    for clause in text.split(',') {
        let at = clause.find(['+', '-', '='])?;
        let (who, mut rest) = clause.split_at(at);
        let mut affected = 0;
        for c in who.chars() {
            affected |= match c {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => ALL,
                _ => return None,
            };
        }
        // Without named classes, all bits are affected. The umask is ignored here.
        let affected = if affected == 0 { ALL } else { affected };
        while let Some(op) = rest.chars().next() {
            rest = &rest[1..];
            let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
            let (what, next) = rest.split_at(end);
            rest = next;
            if !who.is_empty() && what.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let bits = what_bits(what, mode, is_dir)? & affected;
            mode = match op {
                '+' => mode | bits,
                '-' => mode & !bits,
                // A directory keeps its set-ID bits unless they are named.
                _ => (mode & !(affected & !kept(what, is_dir))) | bits,
            };
        }
    }
    Some(mode)
}

fn kept(what: &str, is_dir: bool) -> u32 {
    if is_dir && !what.contains('s') {
        0o6000
    } else {
        0
    }
}

/// Returns the bits that the letters or digits after an operator name, for all classes.
fn what_bits(what: &str, mode: u32, is_dir: bool) -> Option<u32> {
    if what.starts_with(|c: char| ('0'..='7').contains(&c)) {
        return u32::from_str_radix(what, 8).ok().filter(|m| *m <= ALL);
    }
    let copy = |from: u32| {
        let three = mode >> from & 7;
        three << 6 | three << 3 | three
    };
    match what {
        "u" => return Some(copy(6)),
        "g" => return Some(copy(3)),
        "o" => return Some(copy(0)),
        _ => {}
    }
    let mut bits = 0;
    for c in what.chars() {
        bits |= match c {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            'X' if is_dir || mode & 0o111 != 0 => 0o111,
            'X' => 0,
            's' => 0o6000,
            't' => 0o1000,
            _ => return None,
        };
    }
    Some(bits)
}

/// Returns a mode in the notation of `ls -l`: `-rwxr-xr-x`.
pub(super) fn letters(mode: u32) -> [u8; 10] {
    let kind = match kind_letter(FileType::from_raw_mode(mode)) {
        b'f' => b'-',
        b'U' => b'?',
        letter => letter,
    };
    let mut text = *b"?rwxrwxrwx";
    text[0] = kind;
    for (at, letter) in text[1..].iter_mut().enumerate() {
        if mode & (0o400 >> at) == 0 {
            *letter = b'-';
        }
    }
    for (bit, at, set, unset) in [
        (0o4000, 3, b's', b'S'),
        (0o2000, 6, b's', b'S'),
        (0o1000, 9, b't', b'T'),
    ] {
        if mode & bit != 0 {
            text[at] = if text[at] == b'x' { set } else { unset };
        }
    }
    text
}
