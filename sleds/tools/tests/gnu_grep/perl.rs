//! Generates Perl patterns for `grep -P`.

use forebay_rng::Rng;

/// Building blocks. Constructs that differ between versions of PCRE2 are omitted, and so are `\W`, `\S`, `\D`, `\z` and
/// `\Z`, which match too little in UTF-8 in the version that GNU grep uses.
const ATOMS: &[&str] = &[
    "a",
    "b",
    "ab",
    "the",
    "x",
    ".",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[[:alpha:]]",
    "[[:^space:]]",
    "\\w",
    "[^\\w]",
    "\\s",
    "[^\\s]",
    "\\d",
    "[^\\d]",
    "\\h",
    "\\N",
    "é",
    "ж",
    "[éx]",
    "[à-ü]",
    "0",
    "-",
    " ",
    "\\.",
    "\\x{e9}",
    "\\pL",
    "\\x41",
    "\\t",
    "ss",
    "K",
    "w😀",
    "\\Q.*\\E",
    "\\R",
    "(?i)k",
    "\\xff",
    "\\n",
];

/// Assertions.
const ASSERTS: &[&str] = &[
    "^", "$", "\\b", "\\B", "\\A", "\\G", "\\K", "(?=a)", "(?!b)", "(?<=a)", "(?<!\\w)", "(?m)^",
    "(?m)$", "(?=.*b)",
];

/// Difficult patterns. `\C`, a byte of a character, is an error in `sleds grep` in UTF-8.
const NASTY: &[&str] = &[
    "",
    "*",
    "(",
    ")",
    "a)b",
    "[a",
    "[z-a]",
    "a{2,1}",
    "a{",
    "a{1",
    "\\",
    "a\\",
    "\\1",
    "(a)\\2",
    "(.)\\1",
    "(a|ab)(c|bcd)",
    "(?:a|ab)+",
    "a*?b",
    "a++b",
    "(?>a+)b",
    "(?<n>a)\\k<n>",
    "(a)?(?(1)b|c)",
    "^$",
    "^.*$",
    "(?R)?a",
    "(?#x)a",
    "(?x) a b ",
    "a|b|",
    "|a",
    "(?s).",
    "(?|(a)|(b))\\1",
    "\\p{Foo}",
    "[[:foo:]]",
    "[:space:]",
    "(?z)",
    "a\\Kb",
    "(?<=a\\Kb)",
    "(*FAIL)",
    "(*ACCEPT)a",
    "(*LIMIT_MATCH=3)a*b",
    "(?(DEFINE)(?<q>a))(?&q)b",
    "a\\R",
    "e",
    "t",
    "o",
    "\\d+",
    "\\w+",
    "\\bthe\\b",
    "(a*)*",
    "(a|b)*c",
];

/// Returns a Perl pattern.
pub(crate) fn pattern(rng: &Rng) -> String {
    if rng.one_in(4) {
        rng.pick(NASTY).into()
    } else {
        alternatives(rng, 2)
    }
}

fn alternatives(rng: &Rng, depth: u64) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(4) {
        match rng.below(12) {
            0 | 1 => {
                text.push_str(rng.pick::<&str>(ASSERTS));
                continue;
            }
            2 | 3 if depth > 0 => {
                let open = rng.pick(&["(", "(?:", "(?i:", "(?>", "(?=", "(?!"]);
                text.push_str(&format!("{open}{})", alternatives(rng, depth - 1)));
            }
            _ => text.push_str(rng.pick::<&str>(ATOMS)),
        }
        if rng.one_in(4) {
            text.push_str(
                rng.pick::<&str>(&["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "?+"]),
            );
        }
    }
    if rng.one_in(5) {
        text.push('|');
        text.push_str(&alternatives(rng, depth.saturating_sub(1)));
    }
    text
}
