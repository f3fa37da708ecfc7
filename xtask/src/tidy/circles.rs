//! Check that files of a crate do not use each other in circles.
//!
//! A reader of one file of a circle has to read them all. Most circles come from one item in the wrong file: a
//! constant, or a type that both sides use. A module and the modules below it may use each other: they are one unit in
//! several files, and privacy supports this structure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{ModuleUse, uses};
use super::ratchet::{LimitedCount, Ratchet};
use super::rust::RustSource;
use super::{ProjectTree, TidyProblem};

/// Returns the circles of every crate, unless the ratchet permits their number.
pub(super) fn check(
    tree: &ProjectTree,
    sources: &[RustSource],
    ratchet: &mut Ratchet,
) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for directory in tree.crates() {
        let found = of_crate(sources, directory);
        let verdict = ratchet.exactly(LimitedCount {
            what: directory,
            line: 0,
            number: found.len(),
            unit: "circles",
            max: 0,
        });
        problems.extend(verdict.into_iter().flat_map(|verdict| {
            let circles = found.iter().map(|circle| problem(sources, circle));
            std::iter::once(verdict).chain(circles)
        }));
    }
    problems
}

/// Returns all circles, for human readers.
pub(super) fn all(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    let crates = tree.crates();
    let circles = crates.flat_map(|directory| of_crate(sources, directory));
    circles.map(|circle| problem(sources, &circle)).collect()
}

/// Returns the circles of the crate in `directory`.
fn of_crate(sources: &[RustSource], directory: &str) -> Vec<Vec<ModuleUse>> {
    let roots = ["lib", "main"].map(|root| format!("{directory}/src/{root}.rs"));
    let programs = format!("{directory}/src/bin/");
    let is_root = |path: &str| {
        let program = path.strip_prefix(&programs);
        roots.iter().any(|root| root == path) || program.is_some_and(|rest| !rest.contains('/'))
    };
    let all = sources.iter().enumerate();
    all.filter(|(_, source)| is_root(&source.path))
        .flat_map(|(root, _)| circles(sources, root))
        .collect()
}

fn problem(sources: &[RustSource], circle: &[ModuleUse]) -> TidyProblem {
    let steps = circle.iter().map(|step| {
        let (from, to) = (&sources[step.from].path, &sources[step.to].path);
        format!("\n    {from}:{} uses `{}` of {to}", step.line, step.path)
    });
    let first = &sources[circle[0].from].path;
    TidyProblem::new(
        first,
        0,
        format!("a circle{}", steps.collect::<Vec<_>>().concat()),
    )
}

/// Returns the circles among the files below `root`, each as a list of uses; one circle for every group of files that
/// use each other.
///
/// A module and the modules below it may use each other. So a circle may contain uses of one direction between such
/// modules, down or up, and not of both.
fn circles(sources: &[RustSource], root: usize) -> Vec<Vec<ModuleUse>> {
    let all = uses(sources, root);
    let path = |file: usize| &sources[file].path;
    let down = all
        .iter()
        .filter(|one| !is_below(path(one.to), path(one.from)));
    let up = all
        .iter()
        .filter(|one| !is_below(path(one.from), path(one.to)));
    let mut found = circles_of(down);
    for circle in circles_of(up) {
        let files = files_of(&circle);
        if !found
            .iter()
            .any(|known| !files_of(known).is_disjoint(&files))
        {
            found.push(circle);
        }
    }
    found
}

/// Returns the files of a circle.
fn files_of(circle: &[ModuleUse]) -> BTreeSet<usize> {
    circle.iter().map(|one| one.from).collect()
}

/// Returns the circles of some uses.
fn circles_of<'a>(uses: impl Iterator<Item = &'a ModuleUse>) -> Vec<Vec<ModuleUse>> {
    let mut next: FileUses<'_> = BTreeMap::new();
    for one in uses {
        next.entry(one.from).or_default().push(one);
    }
    let (mut done, mut found) = (BTreeSet::new(), Vec::new());
    for &start in next.keys() {
        if let Some(circle) = shortest(&next, start).filter(|_| !done.contains(&start)) {
            let forth = reached(&next, start);
            let group = forth
                .into_iter()
                .filter(|&one| reached(&next, one).contains(&start));
            done.extend(group);
            found.push(circle);
        }
    }
    found
}

/// Uses of other files, by file.
type FileUses<'a> = BTreeMap<usize, Vec<&'a ModuleUse>>;

/// Returns true if the module in the file `child` lies below that in `parent`.
fn is_below(parent: &str, child: &str) -> bool {
    let directory = |path: &str| {
        let path = path.trim_end_matches(".rs");
        let named = ["/mod", "/lib", "/main"]
            .iter()
            .find_map(|end| path.strip_suffix(end));
        named.unwrap_or(path).to_owned()
    };
    directory(child).starts_with(&format!("{}/", directory(parent)))
}

/// Returns the files that `start` uses, directly or indirectly.
fn reached(next: &FileUses<'_>, start: usize) -> BTreeSet<usize> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(at) = todo.pop() {
        let used = next.get(&at).into_iter().flatten();
        todo.extend(used.map(|one| one.to).filter(|&to| seen.insert(to)));
    }
    seen
}

/// Returns the shortest path of uses from `start` back to itself.
fn shortest(next: &FileUses<'_>, start: usize) -> Option<Vec<ModuleUse>> {
    let mut ways = VecDeque::from([(start, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((at, way)) = ways.pop_front() {
        for &one in next.get(&at).into_iter().flatten() {
            let mut longer: Vec<ModuleUse> = way.clone();
            longer.push(one.clone());
            if one.to == start {
                return Some(longer);
            }
            if seen.insert(one.to) {
                ways.push_back((one.to, longer));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::ratchet::RATCHET;
    use super::*;

    /// Returns the problems of the crate `x` with these files, by their paths from its `src/`.
    fn problems(files: &[(&str, &str)], ratchet: &str) -> Vec<String> {
        let sources: Vec<RustSource> = files
            .iter()
            .map(|(path, text)| RustSource::parse(&format!("crates/x/src/{path}"), text).unwrap())
            .collect();
        let tree = ProjectTree::of(&[("crates/x/Cargo.toml", ""), (RATCHET, ratchet)]);
        let (mut ratchet, _) = Ratchet::of(&tree);
        let mut found = check(&tree, &sources, &mut ratchet);
        found.extend(ratchet.left());
        found.iter().map(TidyProblem::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\npub use a::A;\n");

    #[test]
    fn two_files_that_use_each_other_are_reported_with_their_lines() {
        let a = ("a.rs", "use crate::b::B;\npub struct A(B);");
        let found = problems(&[LIB, a, ("b.rs", "\npub struct B(super::a::A);")], "");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`crates/x` has 1 circles, limit 0"));
        let steps = "a circle\n    crates/x/src/a.rs:1 uses `crate::b::B` of crates/x/src/b.rs\
                     \n    crates/x/src/b.rs:2 uses `super::a::A` of crates/x/src/a.rs";
        assert!(found[1].ends_with(steps), "{found:?}");
    }

    #[test]
    fn a_reexported_item_counts_for_its_defining_file() {
        let through_the_root = ("b.rs", "use crate::A; pub struct B(A);");
        let a = ("a.rs", "use crate::b; pub struct A(b::B);");
        assert_eq!(problems(&[LIB, a, through_the_root], "").len(), 2);
        let facade = (
            "lib.rs",
            "mod a;\nmod b;\npub use a::A;\npub struct Own(A);",
        );
        assert_eq!(
            problems(&[facade, ("a.rs", "pub struct A;"), through_the_root], ""),
            [""; 0]
        );
    }

    #[test]
    fn a_longer_circle_is_reported_and_a_chain_is_not() {
        let lib = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a.rs", "pub fn a() { crate::b::b() }");
        let b = ("b.rs", "use crate::c::{self, c as d}; pub fn b() { d() }");
        let chain = problems(&[lib, a, b, ("c.rs", "pub fn c() {}")], "");
        assert_eq!(chain, [""; 0]);
        let circle = problems(&[lib, a, b, ("c.rs", "pub fn c() { super::a::a() }")], "");
        assert_eq!(circle[1].matches(" uses ").count(), 3, "{circle:?}");
    }

    #[test]
    fn parent_and_child_may_use_each_other_and_tests_are_exempt() {
        let lib = ("lib.rs", "mod a;");
        let a = ("a.rs", "mod b; pub struct A(b::B);");
        assert_eq!(
            problems(
                &[lib, a, ("a/b.rs", "use super::A; pub struct B(Box<A>);")],
                ""
            ),
            [""; 0]
        );
        let b = (
            "b.rs",
            "pub struct B;\n#[cfg(test)]\nmod tests {\nuse crate::a::A;\nfn t(a: A) {}\n}",
        );
        assert_eq!(
            problems(&[LIB, ("a.rs", "pub struct A(crate::b::B);"), b], ""),
            [""; 0]
        );
    }

    #[test]
    fn a_circle_through_a_parent_and_one_of_its_children_is_found() {
        let lib = ("lib.rs", "mod a; mod c;");
        let a = ("a/mod.rs", "mod b; pub struct A; pub fn a() { b::b() }");
        let b = ("a/b.rs", "use crate::c::c; pub fn b() { c() }");
        let down = problems(&[lib, a, b, ("c.rs", "pub fn c() { crate::a::a() }")], "");
        assert_eq!(down[1].matches(" uses ").count(), 3, "{down:?}");
        let parent = ("a/mod.rs", "pub mod b; pub struct A(crate::c::C);");
        let child = ("a/b.rs", "pub struct B(super::A);");
        let up = [
            lib,
            parent,
            child,
            ("c.rs", "pub struct C(crate::a::b::B);"),
        ];
        let up = problems(&up, "");
        assert_eq!(up[1].matches(" uses ").count(), 3, "{up:?}");
    }

    #[test]
    fn listed_circles_are_allowed_while_they_exist() {
        let a = ("a.rs", "pub struct A(crate::b::B);");
        let circle = [LIB, a, ("b.rs", "pub struct B(crate::a::A);")];
        assert_eq!(problems(&circle, "1 crates/x circles\n"), [""; 0]);
        let ended = [LIB, a, ("b.rs", "pub struct B;")];
        assert!(
            problems(&ended, "1 crates/x circles\n")[0].contains("needs no exception any more")
        );
    }
}
