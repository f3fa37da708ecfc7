//! Manual pages of a program and its commands, made of the program's command line.
//!
//! A page has the sections that clap gives (name, synopsis, description, options, commands). The text below a command's
//! help (`after_help`) becomes further sections: each line that begins in the first column and ends with a colon is the
//! title of a section, for example `Examples:` or `Exit codes:`. So the help and the page have one source. At the end
//! each page has the sections that all pages of the program share, and a list of related pages.

use std::path::Path;
use std::{fs, io};

use clap::Command;
use clap_mangen::Man;
pub use clap_mangen::roff;
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// Text that all pages of a program share.
#[derive(Clone, Copy, Debug)]
pub struct ProgramPages<'a> {
    /// Name and version of the product, for the foot of a page.
    pub source: &'a str,
    /// Sections at the end of each page: the title in capitals, and the lines.
    pub shared: &'a [(&'a str, &'a str)],
    /// Related pages of other programs, as `NAME(SECTION)`.
    pub related: &'a [&'a str],
}

/// Titles of sections whose usual name on manual pages differs from the title in the help.
const USUAL_TITLES: [(&str, &str); 2] =
    [("EXIT CODES", "EXIT STATUS"), ("DEVICES (PATH)", "DEVICES")];

impl ProgramPages<'_> {
    /// Writes a page for the program, for each command, and for each subcommand of a command, to `dir`, which is made
    /// if it does not exist. `command` is the program's command line.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, mut command: Command, dir: &Path) -> io::Result<()> {
        command.build();
        fs::create_dir_all(dir)?;
        let name = command.get_name().to_owned();
        self.write_command(&command, &name, &[], dir)
    }

    /// Returns the page of the program.
    ///
    /// # Errors
    /// Never, in practice: the page is written to memory.
    pub fn page(&self, mut command: Command) -> io::Result<Vec<u8>> {
        command.build();
        let name = command.get_name().to_owned();
        let related = commands(&command, &name);
        self.command_page(&command, &name, &related)
    }

    fn write_command(
        &self,
        command: &Command,
        name: &str,
        above: &[String],
        dir: &Path,
    ) -> io::Result<()> {
        let below = commands(command, name);
        let related = [above, &below].concat();
        let page = self.command_page(command, name, &related)?;
        fs::write(dir.join(format!("{name}.1")), page)?;
        for inner in visible(command) {
            let inner_name = format!("{name}-{}", inner.get_name());
            let mut others = vec![format!("{name}(1)")];
            others.extend(below.iter().cloned());
            self.write_command(inner, &inner_name, &others, dir)?;
        }
        Ok(())
    }

    fn command_page(
        &self,
        command: &Command,
        name: &str,
        related: &[String],
    ) -> io::Result<Vec<u8>> {
        let below = command.get_after_long_help().or(command.get_after_help());
        let below = below.map(ToString::to_string).unwrap_or_default();
        let man = Man::new(command.clone().name(name.to_owned()))
            .title(name.to_uppercase())
            .manual("Forebay")
            .source(self.source);
        let mut out = Vec::new();
        man.render_title(&mut out)?;
        man.render_name_section(&mut out)?;
        man.render_synopsis_section(&mut out)?;
        man.render_description_section(&mut out)?;
        man.render_options_section(&mut out)?;
        if visible(command).next().is_some() {
            man.render_subcommands_section(&mut out)?;
        }
        let mut roff = Roff::new();
        let own = sections(&below);
        for (title, lines) in &own {
            verbatim(&mut roff, title, lines);
        }
        for (title, text) in self.shared {
            if own.iter().all(|(known, _)| known != title) {
                verbatim(
                    &mut roff,
                    title,
                    &text.lines().map(str::to_owned).collect::<Vec<_>>(),
                );
            }
        }
        let this = format!("{name}(1)");
        let related = related
            .iter()
            .map(String::as_str)
            .filter(|page| *page != this);
        see_also(&mut roff, related.chain(self.related.iter().copied()));
        roff.to_writer(&mut out)?;
        Ok(out)
    }
}

/// Adds the section of related pages, each given as `NAME(SECTION)`.
pub fn see_also<'a>(roff: &mut Roff, pages: impl IntoIterator<Item = &'a str>) {
    let mut line: Vec<Inline> = Vec::new();
    for page in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        match page.split_once('(') {
            Some((name, section)) => line.extend([bold(name), roman(format!("({section}"))]),
            None => line.push(bold(page)),
        }
    }
    if !line.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text(line);
    }
}

/// Adds a section whose lines stay as they are.
pub fn verbatim(roff: &mut Roff, title: &str, lines: &[String]) {
    roff.control("SH", [title]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line.as_str())]);
    }
    roff.control("fi", []);
}

/// Returns the commands that the help shows.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let shown = |inner: &&Command| !inner.is_hide_set() && inner.get_name() != "help";
    command.get_subcommands().filter(shown)
}

/// Returns the pages of a command's subcommands.
fn commands(command: &Command, name: &str) -> Vec<String> {
    visible(command)
        .map(|inner| format!("{name}-{}(1)", inner.get_name()))
        .collect()
}

/// Splits the text below a help into sections: the title in capitals, and the lines.
fn sections(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let title = line.strip_suffix(':').filter(|_| !line.starts_with(' '));
        match (title, all.last_mut()) {
            (Some(title), _) => {
                let title = title.to_uppercase();
                let usual = USUAL_TITLES.iter().find(|(help, _)| *help == title);
                let title = usual.map_or(title, |(_, usual)| (*usual).to_owned());
                all.push((title, Vec::new()));
            }
            (None, Some((_, lines))) => lines.push(line.to_owned()),
            (None, None) => all.push(("NOTES".to_owned(), vec![line.to_owned()])),
        }
    }
    for (_, lines) in &mut all {
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    const PAGES: ProgramPages<'_> = ProgramPages {
        source: "Product 1.0",
        shared: &[
            ("FILES", "/etc/x\n    what it is"),
            ("EXIT STATUS", "0  done"),
        ],
        related: &["mount(8)"],
    };

    fn program() -> Command {
        let make = Command::new("make")
            .about("Makes it")
            .arg(Arg::new("name").help("The name"))
            .after_help("Examples:\n  # x make\n\nExit codes:\n  7  odd\n");
        Command::new("x")
            .about("Does it")
            .subcommand(make)
            .subcommand(Command::new("take").about("Takes it"))
            .subcommand(Command::new("secret").hide(true))
    }

    #[test]
    fn each_shown_command_has_a_page_that_names_the_others() {
        let dir = std::env::temp_dir().join(format!("command-pages-{}", std::process::id()));
        PAGES.write(program(), &dir).unwrap();
        let mut names: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["x-make.1", "x-take.1", "x.1"]);
        let page = fs::read_to_string(dir.join("x-make.1")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let plain = page
            .replace("\\fB", "")
            .replace("\\fR", "")
            .replace("\\-", "-");
        assert!(plain.contains("x(1), x-take(1), mount(8)"), "{plain}");
        assert!(!plain.contains("secret"));
    }

    #[test]
    fn the_text_below_the_help_becomes_sections_and_replaces_shared_ones() {
        let mut command = program();
        command.build();
        let make = command.find_subcommand("make").unwrap();
        let page = PAGES.command_page(make, "x-make", &[]).unwrap();
        let page = String::from_utf8(page).unwrap();
        let titles: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .collect();
        assert_eq!(
            titles,
            [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "EXAMPLES",
                "\"EXIT STATUS\"",
                "FILES",
                "\"SEE ALSO\""
            ]
        );
        assert!(
            page.contains("7  odd") && !page.contains("0  done"),
            "{page}"
        );
    }
}
