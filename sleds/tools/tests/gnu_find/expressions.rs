//! Tests of thousands of random expressions.

use crate::support::{GnuCase, cases, is_gnu, scratch, seed};
use crate::tree;
use forebay_rng::Rng;

/// Tests with arguments that sometimes match.
const TESTS: [&str; 96] = [
    "-true",
    "-false",
    "-name a*",
    "-name *",
    "-name .*",
    "-name [a-c]*",
    "-name [[:upper:]]*",
    "-name ?",
    "-name *.[ch]",
    "-iname B*",
    "-iname *README*",
    "-name \\[ab\\]",
    "-name st\\*r",
    "-name *\n*",
    "-path ./a*",
    "-path */a/*",
    "-ipath ./B/*",
    "-wholename *deep*",
    "-lname *",
    "-lname nowhere",
    "-ilname NOW*",
    "-regex .*a.*",
    "-regex ./[a-b]+",
    "-iregex .*B",
    "-regex .*\\(a\\|b\\)",
    "-regex .*\\(.\\)\\1.*",
    "-regextype posix-extended -regex .*(a|b).?",
    "-regextype posix-basic -regex .*a\\{1,2\\}.*",
    "-regextype grep -regex ./\\w\\+",
    "-regextype egrep -regex .*[[:digit:]]+",
    "-regextype awk -regex .*/[^/]+",
    "-regextype findutils-default -regex .*w.l.*",
    "-regextype sed -regex .*e$",
    "-regextype posix-minimal-basic -regex ./a.*",
    "-regextype gnu-awk -regex .*\\<a.*",
    "-type f",
    "-type d",
    "-type l",
    "-type p",
    "-type f,l",
    "-xtype f",
    "-xtype d",
    "-xtype l",
    "-xtype d,p",
    "-size 0",
    "-size 1",
    "-size +1",
    "-size -2",
    "-size 1k",
    "-size +1k",
    "-size -2k",
    "-size 512c",
    "-size +1000c",
    "-size -1025c",
    "-size +1M",
    "-size 3M",
    "-size 256w",
    "-size -1G",
    "-size +7b",
    "-empty",
    "-newer a",
    "-anewer .",
    "-cnewer .",
    "-newermt yesterday",
    "-newermt 2025-11-21",
    "-newerat @1700000000",
    "-mtime 0",
    "-mtime +1",
    "-mtime -3",
    "-mtime 2",
    "-mtime +2.5",
    "-atime -2",
    "-ctime 0",
    "-ctime -1",
    "-mmin -1440",
    "-mmin +2000",
    "-amin +5000",
    "-cmin -60",
    "-used +1",
    "-used -3",
    "-perm 644",
    "-perm -u+x",
    "-perm /022",
    "-perm -4000",
    "-perm u=rw,go=r",
    "-perm /u+s,g+s",
    "-user root",
    "-group daemon",
    "-uid +0",
    "-gid 12345",
    "-nouser",
    "-nogroup",
    "-links +1",
    "-samefile a",
    "-readable",
    "-executable",
];

const ACTIONS: [&str; 18] = [
    "-print",
    "-print0",
    "-prune",
    "-ls",
    "-printf %p\\n",
    "-printf %P:%f:%h:%H:%d\\n",
    "-printf %y%Y:%l:%m:%#m:%M:%n\\n",
    "-printf %s:%k:%b:%S:%U:%G:%u:%g\\n",
    "-printf %i:%D:%F\\n",
    "-printf %t|%c\\n",
    "-printf %T@:%TY-%Tm-%TdT%TT:%Ta\\n",
    "-printf %C+:%Ck:%Cj\\n",
    "-printf [%10f][%-6s][%.2p][%05d]\\n",
    "-fprint /dev/stderr",
    "-fprintf /dev/stdout <%p>\\n",
    "-exec echo x{}y ;",
    "-exec echo {} +",
    "-execdir echo {} +",
];

const OPTIONS: [&str; 11] = [
    "-depth",
    "-maxdepth 0",
    "-maxdepth 1",
    "-maxdepth 3",
    "-mindepth 1",
    "-mindepth 2",
    "-xdev",
    "-daystart",
    "-follow",
    "-noleaf",
    "-ignore_readdir_race",
];

fn push(args: &mut Vec<String>, words: &str) {
    args.extend(words.split(' ').map(str::to_owned));
}

/// Adds tests; `deep` limits the nesting of their parentheses.
fn tests(rng: &Rng, args: &mut Vec<String>, deep: u32) {
    let parts = 1 + rng.below(3);
    for part in 0..parts {
        if part > 0 {
            match rng.below(6) {
                0 | 1 => args.push(rng.pick(&["-o", "-or"]).into()),
                2 => args.push(rng.pick(&["-a", "-and"]).into()),
                _ => {}
            }
        }
        while rng.below(5) == 0 {
            args.push(rng.pick(&["!", "-not"]).into());
        }
        match rng.below(4) {
            0 if deep > 0 => {
                args.push("(".into());
                tests(rng, args, deep - 1);
                args.push(")".into());
            }
            _ => push(args, rng.pick(&TESTS)),
        }
    }
}

/// Adds tests followed by actions. Actions are not put in parentheses: GNU find's optimiser moves tests to the front of
/// those, past the actions (`( -print -o -mmin -9 -o -name f ) -path x` does not print what it should). The optimiser
/// also does so with commas.
fn expression(rng: &Rng, args: &mut Vec<String>) {
    let chains = 1 + rng.below(3);
    for chain in 0..chains {
        if chain > 0 {
            args.push(rng.pick(&["-o", "-or"]).into());
        }
        args.push("(".into());
        tests(rng, args, 2);
        args.push(")".into());
        let last = chain + 1 == chains;
        // An expression without any action has an implicit `-print` at its end.
        if chains == 1 && rng.below(2) == 0 {
            return;
        }
        for _ in 0..1 + rng.below(2) {
            push(args, rng.pick(&ACTIONS));
        }
        if last && rng.below(20) == 0 {
            args.push("-quit".into());
        }
    }
}

/// Makes a command line. Starting points have no trailing slash: with `-L` and `-depth`, GNU find removes the slash for
/// empty folders.
fn command_line(rng: &Rng) -> Vec<String> {
    let mut args = Vec::new();
    if rng.below(3) == 0 {
        args.push(rng.pick(&["-L", "-H", "-P"]).to_owned());
    }
    for _ in 0..1 + rng.below(2) {
        args.push(
            rng.pick(&[".", ".", ".", "./", "a", "b", "deep", "nothing"])
                .to_owned(),
        );
    }
    for _ in 0..rng.below(3) {
        push(&mut args, rng.pick(&OPTIONS));
    }
    expression(rng, &mut args);
    args
}

/// Expressions per tree.
const CALLS: u64 = 180;

/// Tries expressions on trees. `loops` allows links to themselves in a tree. For such a link `-xtype` reports an error,
/// and the optimiser decides when `-xtype` is evaluated.
fn try_expressions(test: &str, loops: bool) {
    if !is_gnu(test, "find") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed.wrapping_add(u64::from(loops)));
    for _ in 0..cases(6 * CALLS).div_ceil(CALLS) {
        let dir = scratch();
        // A link to the parent leads to this folder only.
        let root = &dir.path().join("tree");
        std::fs::create_dir(root).expect("a folder");
        // `-newer` and `-samefile` refer to this file.
        std::fs::write(root.join("a"), "a").expect("a file");
        tree::grow(root, &rng, 60, loops);
        tree::settle(dir.path());
        for _ in 0..CALLS {
            let locale = rng.pick(&["C", "C.UTF-8"]);
            let args = command_line(&rng);
            if loops && args.iter().any(|arg| arg == "-xtype") {
                continue;
            }
            GnuCase::new("find", root)
                .args(args)
                .env("LC_ALL", locale)
                .env(
                    "TZ",
                    rng.pick(&["UTC", "Europe/Berlin", "America/St_Johns"]),
                )
                .check(seed);
        }
    }
}

#[test]
fn expressions_give_the_results_of_gnu_find() {
    try_expressions("expressions_give_the_results_of_gnu_find", false);
}

#[test]
fn expressions_give_the_results_of_gnu_find_with_a_symlink_loop() {
    let test = "expressions_give_the_results_of_gnu_find_with_a_symlink_loop";
    try_expressions(test, true);
}
