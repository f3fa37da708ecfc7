//! The modules of a crate, and the uses of one file's items in another file.
//!
//! Names are followed to their definitions: a child that writes `super::Size` for a type which its parent re-exports
//! from a sibling uses the sibling. Code behind `#[cfg(test)]` is ignored. Methods are not detected, as no path names
//! them; nor are modules that macros make.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::rust::{RustSource, RustToken, item_end};

/// Maximum chain of imports that is followed.
const IMPORTS_MAX: usize = 20;

/// A use in `from` of an item that `to` defines; both are indices in the list of sources.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(super) struct ModuleUse {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) line: usize,
    /// The path as written.
    pub(super) path: String,
}

/// A module: a file, or a `mod name { … }` within a file.
#[derive(Debug, Default)]
struct Module {
    /// File that contains the module.
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names of the items defined in the module.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Tokens of the module, without those of inline modules and tests.
    body: Vec<Range<usize>>,
}

/// One name that a `use` imports.
#[derive(Debug)]
struct Import {
    line: usize,
    path: Vec<String>,
    /// Name in this module; `*` for all names of the imported module.
    name: String,
    /// True if the import is re-exported, as with `pub use`.
    public: bool,
    /// Tokens of its `use`.
    tokens: Range<usize>,
}

/// A crate's modules, from one root file.
struct Crate<'a> {
    sources: &'a [RustSource],
    modules: Vec<Module>,
}

/// Returns the uses of other files in each file below `root`; `root` is an index in `sources`.
pub(super) fn uses(sources: &[RustSource], root: usize) -> Vec<ModuleUse> {
    let mut krate = Crate {
        sources,
        modules: Vec::new(),
    };
    let (directory, _) = sources[root].path.rsplit_once('/').unwrap_or_default();
    krate.module(root, 0..sources[root].tokens.len(), None, directory);
    let mut uses: Vec<ModuleUse> = (0..krate.modules.len())
        .flat_map(|module| krate.uses_of(module))
        .collect();
    uses.sort();
    uses.dedup();
    uses
}

impl Crate<'_> {
    /// Reads the module in `range` of `file`; files of its children lie in `directory`.
    fn module(
        &mut self,
        file: usize,
        range: Range<usize>,
        parent: Option<usize>,
        directory: &str,
    ) -> usize {
        let place = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        let mut at = range.start;
        while at < range.end {
            at = self.item(place, at, directory);
        }
        self.imports(place);
        place
    }

    /// Reads the item at `at` and returns the beginning of the next item.
    fn item(&mut self, place: usize, at: usize, directory: &str) -> usize {
        let source = &self.sources[self.modules[place].file];
        let tokens = &source.tokens;
        let start = head(tokens, at);
        let end = item_end(tokens, start).map_or(tokens.len(), |end| end + 1);
        if source.is_test(tokens[at].line) {
            return end;
        }
        let words: Vec<&str> = tokens[start..end.min(start + 4)]
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        if let ["mod", name, next, ..] = words[..] {
            self.child(place, name.to_owned(), next == "{", start + 2, directory);
            return end;
        }
        let name = match words[..] {
            ["macro_rules", "!", name, ..] => Some(name),
            _ => defined(&tokens[start..end]),
        };
        let module = &mut self.modules[place];
        module.items.extend(name.map(str::to_owned));
        module.body.push(at..end);
        end
    }

    fn child(&mut self, place: usize, name: String, inline: bool, at: usize, directory: &str) {
        let below = format!("{directory}/{name}");
        let file = self.modules[place].file;
        let child = if inline {
            let close = self.sources[file].tokens[at].close;
            Some(self.module(file, at + 1..close, Some(place), &below))
        } else {
            let candidates = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let found = self.sources.iter();
            let found = found
                .enumerate()
                .find(|(_, one)| candidates.contains(&one.path));
            found.map(|(file, one)| {
                let all = 0..one.tokens.len();
                self.module(file, all, Some(place), &below)
            })
        };
        if let Some(child) = child {
            self.modules[place].children.insert(name, child);
        }
    }

    /// Records every `use` in the module, including those within functions.
    fn imports(&mut self, place: usize) {
        let tokens = &self.sources[self.modules[place].file].tokens;
        let mut found = Vec::new();
        for range in &self.modules[place].body {
            for at in range.clone() {
                if tokens[at].text != "use" {
                    continue;
                }
                let Some(end) = item_end_of_use(tokens, at) else {
                    continue;
                };
                let before = at.checked_sub(1).map(|before| tokens[before].text.as_str());
                // `pub use`, `pub(crate) use`.
                let public = matches!(before, Some("pub" | ")"));
                let mut names = Vec::new();
                tree(tokens, at + 1..end, &[], &mut names);
                found.extend(names.into_iter().map(|(line, path, name)| Import {
                    line,
                    path,
                    name,
                    public,
                    tokens: at..end,
                }));
            }
        }
        self.modules[place].imports = found;
    }

    /// Returns the file that defines the item at `path` in the module `place`, if a file of the crate defines it.
    fn file_of(&self, place: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[place];
        match self.module_named(place, first) {
            Some(next) if rest.is_empty() => Some(self.modules[next].file),
            Some(next) => {
                let found = self.file_of(next, rest, depth);
                // An item without a visible definition comes from a macro in that module.
                found.or(Some(self.modules[next].file))
            }
            None if module.items.contains(first) => Some(module.file),
            None => self.imported(place, first, rest, depth),
        }
    }

    /// Returns the module for `name` at the beginning of a path in the module `place`.
    fn module_named(&self, place: usize, name: &str) -> Option<usize> {
        match name {
            "crate" => Some(0),
            "self" => Some(place),
            "super" => self.modules[place].parent,
            name => self.modules[place].children.get(name).copied(),
        }
    }

    /// Returns the module at `path` in the module `place`, if the path names a module directly.
    fn module_at(&self, place: usize, path: &[String]) -> Option<usize> {
        let mut names = path.iter();
        names.try_fold(place, |place, name| self.module_named(place, name))
    }

    /// Does the work of `file_of` for a path whose first name is imported into the module.
    fn imported(&self, place: usize, first: &str, rest: &[String], depth: usize) -> Option<usize> {
        // A name may be imported from itself, in a circle.
        if depth > IMPORTS_MAX {
            return None;
        }
        let imports = &self.modules[place].imports;
        let named = imports.iter().filter(|import| import.name == *first);
        let mut named = named.filter_map(|import| {
            let whole: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            self.file_of(place, &whole, depth + 1)
        });
        named.next().or_else(|| {
            let globs = imports.iter().filter(|import| import.name == "*");
            let from = globs.filter_map(|import| self.module_at(place, &import.path));
            let mut holders = from.filter(|&from| self.modules[from].items.contains(first));
            holders.next().map(|from| self.modules[from].file)
        })
    }

    /// Returns the uses of other files in the module `place`.
    fn uses_of(&self, place: usize) -> Vec<ModuleUse> {
        let module = &self.modules[place];
        let source = &self.sources[module.file];
        let tokens = &source.tokens;
        let mut found = Vec::new();
        let mut note = |line, path: &[String]| {
            let to = self.file_of(place, path, 0);
            if let Some(to) = to.filter(|&to| to != module.file) {
                found.push(ModuleUse {
                    from: module.file,
                    to,
                    line,
                    path: path.join("::"),
                });
            }
        };
        // The compiler ensures that each import is used, unless it is re-exported. Uses of an imported module are
        // detected at their own places.
        for import in module.imports.iter().filter(|import| !import.public) {
            if self.module_at(place, &import.path).is_none() {
                note(import.line, &import.path);
            }
        }
        for at in module.body.iter().cloned().flatten() {
            let line = tokens[at].line;
            if source.is_test(line) || module.imports.iter().any(|one| one.tokens.contains(&at)) {
                continue;
            }
            if let Some(path) = path_at(tokens, at).filter(|path| self.is_use(place, path)) {
                note(line, &path);
            }
        }
        found
    }

    /// Returns true if `path` in the module uses an item: neither the word `self`, nor a variable that has a module's
    /// name.
    fn is_use(&self, place: usize, path: &[String]) -> bool {
        let [name] = path else { return true };
        let type_like = name.starts_with(char::is_uppercase);
        type_like && !self.modules[place].items.contains(name)
    }
}

/// Returns the beginning of an item's own words, behind attributes and visibility.
fn head(tokens: &[RustToken], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        let after = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        at = match token.text.as_str() {
            "#" if after(at + 1) == "!" => tokens[at + 2].close + 1,
            "#" => tokens[at + 1].close + 1,
            "pub" if after(at + 1) == "(" => tokens[at + 1].close + 1,
            "pub" => at + 1,
            _ => return at,
        };
    }
    at
}

/// Returns the name that the item defines.
fn defined(item: &[RustToken]) -> Option<&str> {
    const KINDS: [&str; 8] = [
        "fn", "struct", "enum", "union", "trait", "type", "static", "const",
    ];
    let at = item
        .iter()
        .position(|token| KINDS.contains(&token.text.as_str()))?;
    let before = item[..at].iter().all(|token| {
        ["const", "async", "unsafe", "extern", "auto"].contains(&token.text.as_str())
            || token.text.starts_with('"')
    });
    let mut rest = item[at + 1..].iter().map(|token| token.text.as_str());
    let name = rest.find(|word| !["mut", "fn", "unsafe", "extern"].contains(word))?;
    before.then_some(name)
}

fn item_end_of_use(tokens: &[RustToken], at: usize) -> Option<usize> {
    let ends = |token: &RustToken| token.text == ";";
    let from = tokens.get(at..)?;
    // `use<'a>` in a type is not an import.
    (tokens.get(at + 1)?.text != "<").then_some(())?;
    from.iter().position(ends).map(|length| at + length)
}

/// Returns the names of a tree such as `use a::{b, c::{self, d as e}}`: line, path and local name.
fn tree(
    tokens: &[RustToken],
    range: Range<usize>,
    prefix: &[String],
    names: &mut Vec<(usize, Vec<String>, String)>,
) {
    let mut at = range.start;
    while at < range.end {
        let mut path = prefix.to_vec();
        let mut called = None;
        let line = tokens[at].line;
        while at < range.end && tokens[at].text != "," {
            match tokens[at].text.as_str() {
                "{" => {
                    tree(tokens, at + 1..tokens[at].close, &path, names);
                    at = tokens[at].close;
                    path.clear();
                }
                "as" => {
                    called = tokens.get(at + 1).map(|token| token.text.clone());
                    at += 1;
                }
                ":" => {}
                "self" if !path.is_empty() => {}
                word => path.push(word.to_owned()),
            }
            at += 1;
        }
        at += 1;
        let last = path.last().cloned();
        if let Some(last) = last {
            let name = called.unwrap_or_else(|| last.clone());
            if last == "*" {
                path.pop();
            }
            names.push((line, path, name));
        }
    }
}

/// Returns the path that begins at `at`: names with `::` between them, or a single name.
fn path_at(tokens: &[RustToken], at: usize) -> Option<Vec<String>> {
    let word = |at: usize| {
        let text = tokens.get(at).map_or("", |token| token.text.as_str());
        let starts = |c: char| c.is_alphabetic() || c == '_';
        text.starts_with(starts).then(|| text.to_owned())
    };
    let mark = |at: Option<usize>, text: &str| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|token| token.text == text)
    };
    let first = word(at)?;
    let before = at.checked_sub(1);
    let inside = mark(before, ":") && mark(at.checked_sub(2), ":");
    if inside || mark(before, ".") || mark(before, "'") {
        return None;
    }
    let mut path = vec![first];
    let mut next = at + 1;
    while mark(Some(next), ":") && mark(Some(next + 1), ":") {
        let Some(name) = word(next + 2) else { break };
        path.push(name);
        next += 3;
    }
    Some(path)
}
