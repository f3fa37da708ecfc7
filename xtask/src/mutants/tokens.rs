//! Search of Rust source by tokens, so that layout, comments and trailing commas do not matter.

use std::ops::Range;

/// The tokens of a source text, each with its byte range in it.
pub(super) struct Tokens<'a> {
    texts: Vec<&'a str>,
    ranges: Vec<Range<usize>>,
}

impl<'a> Tokens<'a> {
    /// Splits `text` into words, string literals and single punctuation characters. Line comments are left out, and
    /// so are commas before a closing bracket, which the formatter adds where it breaks a line. Raw string literals and
    /// block comments are split like code, in the source and in the searched text alike.
    pub(super) fn of(text: &'a str) -> Tokens<'a> {
        let mut all: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            let len = if first.is_whitespace() {
                at += first.len_utf8();
                continue;
            } else if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            } else if first == '"' {
                string(rest)
            } else if first == '\'' {
                character(rest)
            } else if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let is_closing = matches!(first, ')' | ']' | '}');
            if is_closing && all.last().is_some_and(|last| &text[last.clone()] == ",") {
                all.pop();
            }
            all.push(at..at + len);
            at += len;
        }
        Tokens {
            texts: all.iter().map(|range| &text[range.clone()]).collect(),
            ranges: all,
        }
    }

    /// Returns the byte ranges in which `wanted` occurs.
    pub(super) fn find(&self, wanted: &Tokens<'_>) -> Vec<Range<usize>> {
        let len = wanted.texts.len();
        if len == 0 {
            return Vec::new();
        }
        let windows = self.texts.windows(len).enumerate();
        let found = windows.filter(|(_, window)| *window == wanted.texts);
        found
            .map(|(at, _)| self.ranges[at].start..self.ranges[at + len - 1].end)
            .collect()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of the string literal at the beginning of `rest`.
fn string(rest: &str) -> usize {
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

/// Returns the length of the character literal at the beginning of `rest`, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let mut inner = rest[1..].char_indices();
    match inner.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |at| at + 4),
        Some(_) => match inner.next() {
            Some((at, '\'')) => at + 2,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, wanted: &str) -> Vec<String> {
        let ranges = Tokens::of(text).find(&Tokens::of(wanted));
        ranges
            .into_iter()
            .map(|range| text[range].to_owned())
            .collect()
    }

    #[test]
    fn layout_comments_and_trailing_commas_do_not_matter() {
        let text = "call(\n    one, // the first\n    two,\n);\n";
        assert_eq!(found(text, "call(one, two);"), [text.trim_end()]);
        assert_eq!(found("call(one,two);", text), ["call(one,two);"]);
    }

    #[test]
    fn words_are_compared_as_a_whole() {
        assert_eq!(found("tail_now(tail)", "tail"), ["tail"]);
        assert_eq!(found("a.b(c)", "b"), ["b"]);
        assert_eq!(found("a.b(c)", ""), [""; 0]);
    }

    #[test]
    fn strings_and_characters_are_single_tokens() {
        let text =
            r#"say("no // comment, \" here"); let c = '"'; let d = '\''; fn f<'a>(x: &'a str) {}"#;
        assert_eq!(found(text, r#"("no // comment, \" here")"#).len(), 1);
        assert_eq!(found(text, "fn f<'a>(x: &'a str)").len(), 1);
        assert_eq!(found(text, r"let d = '\'';").len(), 1);
    }
}
