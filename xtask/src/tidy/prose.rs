//! Counts of habits that make comments hard to read, and limits that may only be lowered.
//!
//! STYLE.md has the rules. These checks see the habits that can be counted. A *block* is a run of comment lines of one kind in
//! a Rust file: it begins where the lines before are code, blank, or another kind of comment. Rates are per 1,000 blocks over
//! the whole tree, rounded up. STYLE.md has a row for each rate with its limit, which must be near the rate: so a commit that
//! improves the text also lowers the limit.

use super::limits::per_thousand;
use super::{ProjectTree, TidyProblem, limits};

/// The longest line of a Markdown page, in characters; lines of tables, code and links may be longer.
const COLUMNS: usize = 120;

const QUESTION_WORDS: [&str; 10] = [
    "what", "who", "whose", "whom", "how", "whether", "where", "which", "why", "when",
];
const NO_ACTORS: [&str; 9] = [
    "who",
    "whoever",
    "whom",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "anyone",
    "everybody",
];
const EXISTENCE: [&str; 4] = ["is", "are", "was", "were"];
const WHAT_CLAUSE: [&str; 4] = ["is", "was", "has", "it"];

/// Habits that are counted, in the order of the rates.
const HABITS: [&str; 4] = [
    "blocks that begin with a question word",
    "words without an actor (who, somebody, nobody …)",
    "\"there is\" and \"there are\"",
    "\"what is\", \"what was\", \"what has\", \"what it\"",
];
const SEMICOLONS: &str = "semicolons in Markdown, per 1,000 sentences";
const LONG_LINES: &str = "lines of Markdown over 120 columns";

/// Counts of one file, or of many.
#[derive(Clone, Copy, Default)]
struct ProseCounts {
    blocks: usize,
    habits: [usize; HABITS.len()],
    sentences: usize,
    semicolons: usize,
    long_lines: usize,
}

impl ProseCounts {
    fn add(&mut self, other: &ProseCounts) {
        self.blocks += other.blocks;
        for (sum, more) in self.habits.iter_mut().zip(other.habits) {
            *sum += more;
        }
        self.sentences += other.sentences;
        self.semicolons += other.semicolons;
        self.long_lines += other.long_lines;
    }

    /// Every rate with its name.
    fn rates(&self) -> Vec<(&'static str, usize)> {
        let habits = HABITS.into_iter().zip(self.habits);
        let mut rates: Vec<(&str, usize)> = habits
            .map(|(name, count)| (name, per_thousand(count, self.blocks)))
            .collect();
        rates.push((SEMICOLONS, per_thousand(self.semicolons, self.sentences)));
        rates.push((LONG_LINES, self.long_lines));
        rates
    }
}

/// Compares the rates of the tree with their limits.
pub(super) fn check(tree: &ProjectTree) -> Vec<TidyProblem> {
    let mut all = ProseCounts::default();
    files(tree).for_each(|(_, counts)| all.add(&counts));
    limits::check(tree, &all.rates(), "cargo xtask prose")
}

/// Prints the rates of each directory that holds a crate or documents, and with `under`, each place below it.
pub(super) fn print(tree: &ProjectTree, under: Option<&str>) {
    let mut rows: Vec<(String, ProseCounts)> = Vec::new();
    for (path, counts) in files(tree) {
        let depth = if under.is_some() { usize::MAX } else { 2 };
        let parts: Vec<&str> = path.split('/').collect();
        let group = parts[..parts.len().min(depth)].join("/");
        if under.is_some_and(|under| !path.starts_with(under)) {
            continue;
        }
        match rows.last_mut() {
            Some((last, sum)) if *last == group => sum.add(&counts),
            _ => rows.push((group, counts)),
        }
    }
    let mut all = ProseCounts::default();
    println!(
        "blocks | question words | no actor | there is | what is | sentences | semicolons | long lines"
    );
    for (group, counts) in &rows {
        all.add(counts);
        let [question, actor, there, what] = counts.habits;
        println!(
            "{:6} {question:5} {actor:5} {there:5} {what:5} {:6} {:5} {:5}  {group}",
            counts.blocks, counts.sentences, counts.semicolons, counts.long_lines
        );
    }
    for (name, rate) in all.rates() {
        println!("{rate:6}  {name}");
    }
    if let Some(under) = under {
        places(tree, under);
    }
}

/// Prints every place with a habit.
fn places(tree: &ProjectTree, under: &str) {
    for (path, text) in tree
        .ending(".rs")
        .filter(|(path, _)| path.starts_with(under))
    {
        for block in blocks(text) {
            let habits = habits_of(&block.text);
            if habits.iter().any(|count| *count > 0) {
                println!("{path}:{}: {}", block.line, block.text);
            }
        }
    }
}

fn files(tree: &ProjectTree) -> impl Iterator<Item = (&str, ProseCounts)> {
    let of = |(path, text): (&'_ str, &'_ str)| match path.rsplit_once('.') {
        Some((_, "rs")) => Some(of_source(text)),
        Some((_, "md")) => Some(of_page(text)),
        _ => None,
    };
    tree.iter()
        .filter_map(move |(path, text)| Some((path, of((path, text))?)))
}

fn of_source(text: &str) -> ProseCounts {
    let mut counts = ProseCounts::default();
    for block in blocks(text) {
        counts.blocks += 1;
        for (sum, more) in counts.habits.iter_mut().zip(habits_of(&block.text)) {
            *sum += more;
        }
    }
    counts
}

/// A run of comment lines.
struct CommentBlock {
    /// The first line, counted from 1.
    line: usize,
    text: String,
}

fn blocks(text: &str) -> Vec<CommentBlock> {
    let (mut blocks, mut before): (Vec<CommentBlock>, Option<&str>) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let kinds = ["///", "//!", "//"];
        let kind = kinds.into_iter().find(|kind| line.starts_with(kind));
        let content = kind.map(|kind| line[kind.len()..].trim());
        match (kind, content, blocks.last_mut()) {
            (Some(kind), Some(content), Some(block)) if before == Some(kind) => {
                block.text.push(' ');
                block.text.push_str(content);
            }
            (Some(_), Some(content), _) => blocks.push(CommentBlock {
                line: index + 1,
                text: content.to_owned(),
            }),
            _ => {}
        }
        before = kind;
    }
    blocks
}

fn habits_of(block: &str) -> [usize; HABITS.len()] {
    let words: Vec<String> = block
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_in = |list: &[&str], word: &String| list.contains(&word.as_str());
    let pairs = |first: &str, second: &[&str]| {
        let pairs = words.windows(2);
        pairs
            .filter(|pair| pair[0] == first && is_in(second, &pair[1]))
            .count()
    };
    [
        usize::from(
            words
                .first()
                .is_some_and(|word| is_in(&QUESTION_WORDS, word)),
        ),
        words.iter().filter(|word| is_in(&NO_ACTORS, word)).count(),
        pairs("there", &EXISTENCE),
        pairs("what", &WHAT_CLAUSE),
    ]
}

fn of_page(text: &str) -> ProseCounts {
    let mut counts = ProseCounts::default();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        let is_table = line.starts_with('|');
        if !is_table && !line.contains("](") && line.chars().count() > COLUMNS {
            counts.long_lines += 1;
        }
        let ends = line.match_indices(". ").count() + usize::from(line.ends_with('.'));
        counts.sentences += ends + usize::from(is_table);
        counts.semicolons += line.matches(';').count();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> ProseCounts {
        of_source(text)
    }

    #[test]
    fn a_block_is_a_run_of_comment_lines_of_one_kind() {
        let text = "//! One.\n\n/// Two,\n/// still two.\nfn f() {\n    // Three.\n}\n/// Four.\n//! Five.";
        assert_eq!(counted(text).blocks, 5);
    }

    #[test]
    fn habits_are_counted_in_comments_and_not_in_code() {
        let text = "/// What is mapped.\nfn f() {}\n/// Mapped sectors; there are none where nobody writes.\nlet what = \"who\";";
        assert_eq!(counted(text).habits, [1, 1, 1, 1]);
    }

    #[test]
    fn sentences_semicolons_and_long_lines_are_counted_outside_of_code_blocks() {
        let long = "x".repeat(COLUMNS + 1);
        let text = format!("One; two. Three.\n```\na;b;c\n{long}\n```\n{long}\n");
        let counts = of_page(&text);
        assert_eq!(
            (counts.sentences, counts.semicolons, counts.long_lines),
            (2, 1, 1)
        );
    }

    #[test]
    fn a_rate_above_or_far_below_its_limit_is_a_problem() {
        let rows = |limit: usize| {
            let names = HABITS.into_iter().chain([SEMICOLONS, LONG_LINES]);
            names
                .map(|name| format!("| {name} | {limit} |\n"))
                .collect::<String>()
        };
        let problems = |limit| {
            let page = rows(limit);
            check(&ProjectTree::of(&[
                (limits::PAGE, &page),
                ("a.rs", "/// Free.\n"),
            ]))
            .len()
        };
        assert_eq!(problems(0), 0);
        assert_eq!(problems(4), 0);
        assert_eq!(problems(5), HABITS.len() + 2);
        let who = check(&ProjectTree::of(&[
            (limits::PAGE, &rows(0)),
            ("a.rs", "/// Who waits.\n"),
        ]));
        assert_eq!(who.len(), 2);
        assert_eq!(check(&ProjectTree::of(&[("a.rs", "")])).len(), 1);
    }
}
