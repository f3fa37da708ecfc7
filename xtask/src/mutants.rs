//! `cargo xtask mutants`: proof that the simulator detects faults.
//!
//! A mutant is the shipping code with one deliberate mistake. A file in `testing/mutants` names the mistake, the
//! guarantee or invariant of the design page that it breaks, the simulator's system under test that must show it, and
//! source texts with their replacements. The texts are compared by tokens within a crate: a mutant survives changes of
//! layout, comments and files, and ends only when the code that it breaks changes. The shipping code has no switches.
//!
//! Each mutant is applied to a copy of the tree under `target/`, built there, and explored by the simulator, which must
//! find a violation within a minute of one processor. Nothing is written outside `target/`.
//!
//! A violation is valid only if the unchanged code has none in the same scenario: a simulator that always reports a
//! violation would catch everything.
//!
//! The list of mutants, with the time until each was caught, is a table in docs/testing.md, which a test compares with
//! the files. Another test finds the texts of all mutants without building, so CI notices a mutant that the code has
//! moved away from.

mod mutant;
mod scratch;
mod tokens;

#[cfg(test)]
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use mutant::Mutant;
use scratch::{HuntResult, TreeCopy};

/// Options of a run of the mutants.
struct MutantOptions {
    /// Names of the mutants to run; an empty list selects all.
    names: Vec<String>,
    /// Time for which the simulator looks for a violation, in seconds of one processor.
    seconds: u64,
    seed: u64,
    /// True to build only.
    build: bool,
}

impl MutantOptions {
    fn parse(arguments: &[String]) -> Result<MutantOptions> {
        let mut options = MutantOptions {
            names: Vec::new(),
            seconds: 60,
            seed: 1,
            build: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || -> Result<u64> {
                let value = rest.next().context("a number is missing")?;
                value
                    .parse()
                    .with_context(|| format!("{value} is no number"))
            };
            match argument.as_str() {
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = number()?,
                "--build" => options.build = true,
                name if name.starts_with('-') => bail!("{name}: {}", crate::USAGE),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Runs the mutants in `arguments`, or all. Returns true if the simulator catches each of them and finds no violation
/// in the unchanged code.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = MutantOptions::parse(arguments)?;
    let root = crate::root()?;
    let all = mutant::load(&root)?;
    let find = |name: &String| all.iter().find(|mutant| mutant.name == *name);
    let mut mutants: Vec<&Mutant> = Vec::new();
    for name in &options.names {
        let known = find(name);
        mutants.push(known.with_context(|| format!("no {name} in {}", mutant::DIRECTORY))?);
    }
    if options.names.is_empty() {
        mutants.extend(&all);
    }
    let scratch = TreeCopy::new(&root)?;
    scratch.restore(&root)?;
    scratch.build()?;
    scratch.keep_as_it_is()?;
    println!("| mutant | caught by | seconds | scenarios |\n|---|---|---:|---:|");
    let mut missed = Vec::new();
    for mutant in mutants {
        let name = &mutant.name;
        let seen =
            one(&scratch, &root, mutant, &options).with_context(|| format!("mutant {name}"))?;
        match seen {
            None => println!("| `{name}` | built | | |"),
            Some(HuntResult {
                caught_by: Some(checker),
                scenarios,
                took,
            }) => {
                println!("| `{name}` | {checker} | {} | {scenarios} |", seconds(took));
            }
            Some(HuntResult {
                scenarios, took, ..
            }) => {
                println!(
                    "| `{name}` | **nothing** | {} | {scenarios} |",
                    seconds(took)
                );
                missed.push(name.as_str());
            }
        }
    }
    scratch.restore(&root)?;
    if !missed.is_empty() {
        eprintln!("not caught: {}", missed.join(", "));
    }
    Ok(missed.is_empty())
}

/// Builds a mutant and, unless only a build is wanted, explores it.
fn one(
    scratch: &TreeCopy,
    root: &Path,
    mutant: &Mutant,
    options: &MutantOptions,
) -> Result<Option<HuntResult>> {
    scratch.restore(root)?;
    mutant.apply(scratch.tree())?;
    scratch.build()?;
    let time = Duration::from_secs(options.seconds);
    (!options.build)
        .then(|| scratch.hunt(&mutant.recipe.system, options.seed, time))
        .transpose()
}

/// Formats seconds with one decimal, for a table.
fn seconds(span: Duration) -> String {
    format!("{:.1}", span.as_secs_f64())
}

/// Returns the rows of the table of mutants in docs/testing.md: name, and broken guarantee.
#[cfg(test)]
fn documented(page: &str) -> BTreeMap<String, (String, String)> {
    use forebay_doc_tables::{plain, tables};
    let is_ours = |table: &&forebay_doc_tables::MarkdownTable| {
        table.header.first().is_some_and(|h| h == "mutant")
    };
    let all = tables(page);
    let rows = all.iter().filter(is_ours).flat_map(|table| &table.rows);
    rows.filter_map(|(_, row)| {
        Some((
            plain(row.first()?),
            (row.get(1)?.clone(), row.get(2)?.clone()),
        ))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_applies_to_the_current_code() {
        let root = crate::root().unwrap();
        let mutants = mutant::load(&root).unwrap();
        assert!(mutants.len() >= 20, "only {} mutants", mutants.len());
        let stale: Vec<String> = mutants
            .iter()
            .filter_map(|mutant| {
                mutant
                    .check(&root)
                    .err()
                    .map(|why| format!("{}: {why:#}", mutant.name))
            })
            .collect();
        assert_eq!(stale, [""; 0], "the code has moved away from these mutants");
    }

    #[test]
    fn mutants_change_only_shipping_code() {
        for mutant in mutant::load(&crate::root().unwrap()).unwrap() {
            for changed in mutant.crates() {
                let engines = [
                    "device",
                    "segment-log",
                    "ring-log",
                    "dcd",
                    "extent-map",
                    "vsl",
                    "dfs",
                    "mount",
                ];
                assert!(
                    engines.contains(&changed),
                    "{} changes {changed}",
                    mutant.name
                );
            }
        }
    }

    #[test]
    fn the_table_in_the_testing_page_lists_exactly_the_existing_mutants() {
        let root = crate::root().unwrap();
        let page = std::fs::read_to_string(root.join("docs/testing.md")).unwrap();
        let listed = documented(&page);
        let there: BTreeMap<String, (String, String)> = mutant::load(&root)
            .unwrap()
            .into_iter()
            .map(|mutant| (mutant.name, (mutant.recipe.broken, mutant.recipe.breaks)))
            .collect();
        assert_eq!(listed, there);
    }

    #[test]
    fn arguments_are_names_and_a_few_options() {
        let parse = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            MutantOptions::parse(&words)
        };
        let options = parse("fua-as-plain --seconds 5 --seed 9").unwrap();
        assert_eq!(options.names, ["fua-as-plain"]);
        assert_eq!(
            (options.seconds, options.seed, options.build),
            (5, 9, false)
        );
        assert!(parse("--seconds").is_err());
        assert!(parse("--seconds soon").is_err());
        assert!(parse("--quick").is_err());
    }
}
