//! A page of the manual as a list of steps.

/// The commands and instructions of a page, in order.
pub(crate) struct GuidePage {
    /// Steps with their lines, counted from 1.
    pub(crate) steps: Vec<(usize, PageStep)>,
}

/// An action of the test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageStep {
    /// A command that the page shows, and lines of its output.
    Show {
        command: String,
        output: Vec<String>,
        fails: bool,
    },
    /// Commands that the page shows and the test does not execute.
    NotRun { reason: String, commands: usize },
    /// An instruction in a comment: its name and its arguments.
    Hidden { name: String, arguments: String },
}

/// Languages of fenced blocks without commands.
const OTHER_LANGUAGES: [&str; 6] = ["text", "toml", "ini", "yaml", "c", "python"];
const INSTRUCTIONS: [&str; 10] = [
    "fresh", "needs", "run", "disk", "file", "grow", "lose", "break", "mend", "kill",
];

impl GuidePage {
    /// Reads a page. An error contains the line of the problem.
    pub(crate) fn parse(text: &str) -> Result<GuidePage, String> {
        let mut steps = Vec::new();
        let mut reason = None;
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let number = index + 1;
            if let Some(instruction) = comment(line) {
                match instruction.split_once(' ').unwrap_or((instruction, "")) {
                    ("norun", why) if !why.is_empty() => reason = Some(why.to_owned()),
                    (name, arguments) if INSTRUCTIONS.contains(&name) => {
                        let (name, arguments) = (name.to_owned(), arguments.to_owned());
                        steps.push((number, PageStep::Hidden { name, arguments }));
                    }
                    _ => return Err(format!("{number}: unknown instruction `{instruction}`")),
                }
                continue;
            }
            let Some(language) = line.trim_start().strip_prefix("```") else {
                if !line.is_empty() {
                    reason = None;
                }
                continue;
            };
            let mut block = Vec::new();
            for (index, line) in lines.by_ref() {
                if line.trim_start().starts_with("```") {
                    break;
                }
                block.push((index + 1, line));
            }
            match language {
                "console" => steps.extend(shown(&block, false)?),
                "console,fails" => steps.extend(shown(&block, true)?),
                "console,norun" => {
                    let reason = reason.take().ok_or(format!("{number}: no reason"))?;
                    let commands = shown(&block, false)?.len();
                    steps.push((number, PageStep::NotRun { reason, commands }));
                }
                _ if OTHER_LANGUAGES.contains(&language) => {}
                _ => return Err(format!("{number}: a block of the language `{language}`")),
            }
        }
        Ok(GuidePage { steps })
    }
}

/// Returns the instruction of a comment line.
fn comment(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix("<!-- test: ")?;
    inner.strip_suffix(" -->")
}

/// Reads a console block.
fn shown(block: &[(usize, &str)], fails: bool) -> Result<Vec<(usize, PageStep)>, String> {
    let mut steps: Vec<(usize, PageStep)> = Vec::new();
    let mut is_continued = false;
    for &(number, line) in block {
        let prompted = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        match (prompted, steps.last_mut()) {
            (None, Some((_, PageStep::Show { command, .. }))) if is_continued => {
                command.push('\n');
                command.push_str(line);
                is_continued = line.ends_with('\\');
            }
            (Some(command), _) => {
                is_continued = command.ends_with('\\');
                let (command, output) = (command.to_owned(), Vec::new());
                let step = PageStep::Show {
                    command,
                    output,
                    fails,
                };
                steps.push((number, step));
            }
            (None, Some((_, PageStep::Show { output, .. }))) => output.push(line.to_owned()),
            (None, _) => return Err(format!("{number}: a block begins without a command")),
        }
    }
    Ok(steps)
}

#[test]
fn a_page_becomes_commands_with_their_output() {
    let page = "Text.\n\n<!-- test: disk /dev/sdb 1G -->\n```console\n# a b \\\n    c\n1\n2\n$ d\n```\n\
                <!-- test: norun needs systemd -->\n```console,norun\n# e\n# f\n```\n```console,fails\n# g\n```\n";
    let show = |command: &str, output: &[&str], fails| PageStep::Show {
        command: command.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
        fails,
    };
    let hidden = PageStep::Hidden {
        name: "disk".to_owned(),
        arguments: "/dev/sdb 1G".to_owned(),
    };
    let not_run = PageStep::NotRun {
        reason: "needs systemd".to_owned(),
        commands: 2,
    };
    let expected = [
        (3, hidden),
        (5, show("a b \\\n    c", &["1", "2"], false)),
        (9, show("d", &[], false)),
        (12, not_run),
        (17, show("g", &[], true)),
    ];
    assert_eq!(GuidePage::parse(page).unwrap().steps, expected);
}

#[test]
fn blocks_without_a_reason_or_of_another_language_are_errors() {
    let problem = |page: &str| GuidePage::parse(page).err().unwrap_or_default();
    assert_eq!(problem("```console,norun\n# a\n```\n"), "1: no reason");
    let far = "<!-- test: norun x -->\nText.\n```console,norun\n# a\n```\n";
    assert_eq!(problem(far), "3: no reason");
    assert!(problem("```\n# a\n```\n").contains("language"));
    assert!(problem("<!-- test: fly -->").contains("unknown"));
    assert!(problem("```console\nnothing\n```\n").contains("begins"));
}
