//! Valid and invalid command lines, one by one.

use std::fs;

use crate::support::{CaseInput, GnuCase, is_gnu, scratch};
use crate::walks::known_tree;

/// Words separated by blanks; run with both locales, in [`known_tree`].
const LINES: &str = r"
.
a//
a/
./
-L .
-H .
)
,
nonexist
. -foo
. -name
. foo
. -name a b
. -name a f
. (
. )
. -maxdepth
. -maxdepth x
. -maxdepth -1
. -type q
. -type fd
. -type f,d -maxdepth 1
. -size 3x
. -perm zz
. -user nosuch
. -newermt garbage
. -printf %
. -printf %Q\n -quit
. -printf \q\n -quit
. -regextype foo
. -regex \(
. -exec
. -exec echo
. -exec echo {} {} +
. -mtime x
. -o
. -name a -o
. -not
. -a -print
. ( )
. -D
-D
-O
. -name . -o -quit
. -user root -prune -o -quit
-O9 . -quit
-O99999 . -quit
-Ox
. -links x
. -newerXX a
. -newer nonexist
. -samefile nonexist
. -samefile f
-L . -samefile l
. -files0-from
. -path X/
. -nowarn -wholename c/
. -ipath ./
. -path /
. a/ -wholename */
a/ -path A/
a/ -ipath A/
/ -maxdepth 0 -path /
-path ./
. -delete -prune
. ,
. -quit ,
. -true !
-maxdepth 1 -false
-- -x
-
. -used x
-H
. -context foo
. -ls
-L . -ls
. -fprint /nonexist/a
. -inum 99999999999999999999
. -maxdepth 99999999999999
. -empty
. -size -1
. -size +0c -size -3c
. -size +1G
. -size 5G
. -size +4194303k -size -6G
. -maxdepth 0 -execdir echo {} ;
a/b -execdir echo {} ;
a/b/ -execdir pwd ;
a/b/ -execdir echo {} ;
/ -maxdepth 0 -execdir echo {} ;
. -execdir echo {} +
. -exec echo {} +
. -maxdepth 1 -name f -exec foo {} ;
. -name f -exec foo {} +
. -perm /000 -quit
. -perm +600
. -perm +u+x
. -perm -u+x,g=r -quit
. -perm /u=q
. -perm 77777
. -perm -888
. -perm 07000
. -perm -1000
. -perm /6000
. -perm u=rw,go=r
. -perm -a+rX
. -perm u+X
. -perm =
. -perm u=g
. -perm a=u
. -perm o=u,u=o
. -perm u+s,g+s,+t
. -group nos
. -user
. -user 0 -maxdepth 0
. -user 0x
. -size abc
. -size +
. -size 1cc
. -size 99999999999999999999k
. -mtime +
. ( -true
. -true )
. ( ( -true )
. -true -o )
. ( -true -o )
. ( -not )
. ( -not
. ( -a )
. ( -o -true )
. ( , )
. -true , )
. ( -true , )
. -name a , ,
. -not -not -name f
. ! ! ! -type d
. -type f,
. -type f,f
. -type ,f
. -type D
. -xtype l
-L . -xtype l
-L . -type l
-H l -type l
-H l -xtype l
-H l -ls
-P l -xtype f
-H l -lname f
-P . -H -quit
-L . -lname *
. -lname *
. -lname F
. -ilname F
. -maxdepth 1 -regex .*/[fl]
. -regex .*new.line
. -regextype emacs -regex .*new.line
. -regextype posix-basic -regex .*new.line
. -regextype posix-extended -regex ./(a|f)(/.*)?
. -regex ./\(a\|f\)
. -regex .*/\(.\)\1.*
. -iregex ./[A-F].*
. -regextype grep -regex ./[[:alpha:]]\{1,3\}
. -regextype sed -regex ./\w*
. -newermt 2020-01-01 -newermt yesterday -maxdepth 0
. -newerma f -maxdepth 0
. -newertm f
. -quit -foo
. -name a -maxdepth 1 -warn
-warn . -name a/b -name a
. -warn -name a/b
. -warn -name a -maxdepth 1
. -warn -iname a/b
. -warn -path ./a/
. -warn -d -maxdepth 0
. -warn -type f -maxdepth 1 -name f
. -warn -perm 777 -follow -maxdepth 0
. -fstype nosuch
. -fstype ext4 -maxdepth 0
/proc /dev / -maxdepth 0 -printf %p|%F\n
. -depth -prune -name f
. -nouser
. -nogroup
. -noleaf -maxdepth 0
. -xautofs -maxdepth 0
. -ignore_readdir_race -maxdepth 0
. -mount -maxdepth 0
. -ok echo
. -ok echo {} +
. -exec echo +
. -exec echo a + b ; -quit
. -exec echo a{} +
. -exec ;
. -exec {} ; -quit
. -fprintf
. -fprintf /dev/null
. -newerm f
. -newer
. -mmin 1k
. -daystart
. -inum -5x
. -a
. -o -true
!
! -a -true
. -or
. -and
( -true ) -maxdepth 0
. -E
. -P
. -regextype posix-extended -regex (
. -regex [
. -regextype posix-extended -iregex ./(A|F)
. -wholename ./a* -iwholename ./A/B
. -uid +0
. -uid x
. -gid -1 -quit
. -gid root
-type
. -sparse
. -name [
. -name [a-c]
. -name [[:upper:]]
. -iname [A-C]
. -name *
. -name .*
. -name ?
. -printf %p|%f|%h|%H|%P|%y|%Y|%l|%d|%D|%F|%g|%G|%i|%k|%b|%m|%M|%n|%s|%S|%t|%u|%U|%c\n
-L . -printf %p|%f|%h|%H|%P|%y|%Y|%l|%d|%D|%F|%g|%G|%i|%k|%b|%m|%M|%n|%s|%S|%t|%u|%U|%c\n
./a/ ./a/b/ a/b// a/b/ ./ .// /// ../ -maxdepth 0 -printf %p|%f|%h|%H|%P\n
a// a/ / // /.. /tmp/.. -maxdepth 0 -printf %p|%f|%h|%H|%P\n
f -printf [%10p][%-10p][%05s][%5s][%-5d][%#m][%m][%.2p][%+5s][% 5s][%3%][%10M][%20t][%-20Tc][%.3T@][%20T@][%6y]\n
f -printf [%5d][%05d][%+d][%.3d][%-5d][%#10m][%010m][%.5m][%#.5m][%x]\n
f -printf %T@|%TH|%TI|%Tk|%Tl|%TM|%Tp|%Tr|%TS|%TT|%T+|%TX|%TZ|%Ta|%TA|%Tb|%TB|%Tc|%Td|%TD|%Th|%Tj|%Tm|%TU|%Tw|%TW|%Tx|%Ty|%TY|%TF|%TG|%Tg|%TV|%TC|%Te|%Tn|%Tt|%TR|%Ts|%Tu|%Tz|%TE|%TO|%Tq|%T%|%T1\n
old -printf %T@|%C+|%TS|%T+|%Tc|%t\n
f -printf a\a\b\f\n\r\t\v\\\0x\101\1012\c_foo\n
f -printf \
f -printf %T
f -printf %A%
f -printf %{
f -printf %Z\n
f -printf \8\x41\400
-maxdepth 1 -name f -print -o -name a -prune -o -print
. -name a -prune -o -type f -print
. -depth
. -mindepth 1 -maxdepth 1
. -mindepth 2
-mindepth 5 -maxdepth 2
. -true -quit
. -name f -quit -o -print
. -print -quit , -print
. ! -quit -o -print
. -print , -name f -print
. -print0
. -fls /dev/stdout -maxdepth 0
. -fprint /dev/stdout -maxdepth 0
. -fprint /dev/stderr -maxdepth 0 -print
. -exec sh -c echo;exit\ 3 {} + -print
. -readable -writable -executable
. -cnewer old
. -anewer old
. -newer old
. -newermt 2020-01-02 -name o*
. -newermt @1577836799
. ! -newermt @1577836800.5
. -daystart -mtime -1
. -mtime -180 -name o*
. -mtime +180 -name o*
. -mtime 180 -name o*
. -mtime 179.5 -name o*
. -mmin -70
. -mmin +257700
. -daystart -mmin +100
. -links 2
. -links +2
. -type d -links 3
. -uid 12345
. -user 12345
. -group 54321
. -size 0
. -size 1
. -size 1k
. -size +1
. -size -2
. -size 3c
. -size 2w
. -size -1M
. -size 1M
. -writable -readable
/dev/null /dev/tty -ls
/dev/null -size 0 -type c
f f
f nonexist a
-files0-from nonexist
-files0-from .
-files0-from -
-files0-from - -ok echo ;
x -files0-from -
f -printf %p\n -exec false ; -o -print
. -name f -o -name l -printf x
. -name f -a -name l -o -name a
. -mount -xdev -maxdepth 1 -type d
. -follow
. -follow -type l
. -lname nowhere -printf %Y%y%l\n
. -execdir
. -exec {} +
-warn -name a/ -quit
. -nowarn -name a/b
. -amin 1 -cmin 1 -mmin 1
. -newerac f
. -newerca f -print
. -ipath ./A*
. -iname F
-regextype
-d -name b
. -used 1
. -warn -maxdepth 1 -name f -mindepth 1
. -warn ( -name f ) -depth
. -mtime 1e1
. -mtime 0x10
. -size 0x10
. -links 010
. -size -0
. -mtime --1
. -mtime +-1
. -mtime 1.
. -mtime .5
. -mtime .
";

/// Words that may be empty, separated by `|`.
const WITH_EMPTY: [&str; 18] = [
    "",
    ".|-user|",
    ".|-group|",
    ".|-size|",
    ".|-mtime|",
    ".|-used|",
    ".|-links|",
    ".|-type|",
    ".|-perm|",
    ".|-exec||;",
    ".|-name|",
    ".|-regex|",
    ".|-newermt|",
    ".|-fstype|",
    ".|-printf|",
    ".|-maxdepth|",
    ".|-regextype|",
    "f|-exec|sh|-c|kill -9 $$|;|-print",
];

#[test]
fn valid_and_invalid_command_lines_behave_like_in_gnu_find() {
    if !is_gnu(
        "valid_and_invalid_command_lines_behave_like_in_gnu_find",
        "find",
    ) {
        return;
    }
    let dir = scratch();
    known_tree(dir.path());
    let lines = LINES.trim().lines().map(|line| line.split(' ').collect());
    let with_empty = WITH_EMPTY.iter().map(|line| line.split('|').collect());
    for words in lines.chain(with_empty) {
        let words: Vec<&str> = words;
        for locale in ["C", "C.UTF-8"] {
            GnuCase::new("find", dir.path())
                .args(&words)
                .env("LC_ALL", locale)
                .check(0);
        }
    }
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    use std::os::unix::fs::PermissionsExt as _;
    if !is_gnu(
        "a_script_without_an_interpreter_line_is_run_by_the_shell",
        "find",
    ) {
        return;
    }
    let dir = scratch();
    fs::create_dir(dir.path().join("d")).expect("a folder");
    for (name, mode) in [("d/script", 0o755), ("d/empty", 0o755), ("d/plain", 0o644)] {
        let path = dir.path().join(name);
        let text = if name == "d/empty" {
            ""
        } else {
            "echo $0: $# $1; exit 0$2\n"
        };
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let path = format!("{}/d:/usr/bin:/bin", dir.path().display());
    for words in [
        "d -name script -exec ./d/script {} ;",
        "d -name script -exec ./d/script {} 3 ; -print",
        "d -exec d/script {} +",
        "d -name plain -exec script {} ;",
        "d -name plain -execdir ./script {} ;",
        "d -name plain -execdir script {} ;",
        "d -name plain -exec ./d/plain {} ;",
        "d -name plain -exec d/empty {} ; -print",
    ] {
        GnuCase::new("find", dir.path())
            .args(words.split(' '))
            .env("PATH", &path)
            .check(0);
    }
}

#[test]
fn ls_counts_blocks_of_512_bytes_if_posix_is_obeyed() {
    if !is_gnu("ls_counts_blocks_of_512_bytes_if_posix_is_obeyed", "find") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), vec![1; 300_000]).expect("a file");
    for correct in [false, true] {
        let mut case = GnuCase::new("find", dir.path()).args(["f", "-ls", "-printf", "%b %k\\n"]);
        if correct {
            case = case.env("POSIXLY_CORRECT", "1");
        }
        case.check(0);
    }
}

#[test]
fn starting_points_are_read_from_standard_input() {
    if !is_gnu("starting_points_are_read_from_standard_input", "find") {
        return;
    }
    let dir = scratch();
    known_tree(dir.path());
    for list in ["a\0c\0\0nox\0", "a\0c", "", "\0", "a\0-\0", "a\0\0"] {
        GnuCase::new("find", dir.path())
            .args(["-files0-from", "-", "-maxdepth", "0"])
            .input(CaseInput::Pipe(list.into()))
            .check(0);
    }
    fs::write(dir.path().join("list"), "a\0l\0").expect("a list");
    GnuCase::new("find", dir.path())
        .args(["-files0-from", "list", "-type", "l"])
        .check(0);
}

#[test]
fn ok_prompts_and_answers_behave_like_in_gnu_find() {
    if !is_gnu("ok_prompts_and_answers_behave_like_in_gnu_find", "find") {
        return;
    }
    let dir = scratch();
    known_tree(dir.path());
    for answer in ["y\n", "n\n", "", "Yes\n", "y", " y\n"] {
        for action in ["-ok", "-okdir"] {
            GnuCase::new("find", dir.path())
                .args([".", "-name", "f", action, "echo", "a{}b", ";"])
                .input(CaseInput::Pipe(answer.into()))
                .check(0);
        }
    }
}

#[test]
fn an_insecure_path_variable_forbids_execdir() {
    if !is_gnu("an_insecure_path_variable_forbids_execdir", "find") {
        return;
    }
    let dir = scratch();
    for path in [
        ".:/usr/bin:/bin",
        "/usr/bin:/bin:",
        "rel:/usr/bin:/bin",
        "/bin:/usr/bin",
    ] {
        for action in ["-execdir", "-okdir"] {
            GnuCase::new("find", dir.path())
                .args([".", "-maxdepth", "0", action, "echo", "{}", ";"])
                .env("PATH", path)
                .check(0);
        }
    }
}

#[test]
fn dates_are_parsed_like_in_gnu_find() {
    if !is_gnu("dates_are_parsed_like_in_gnu_find", "find") {
        return;
    }
    let dates = [
        "2026-11-21",
        "2026-11-21 13:05",
        "2026-11-21T13:05:09",
        "2026-11-21 13:05:09.25",
        "2026-11-21 13:05:09 +0130",
        "2026-11-21T13:05:09Z",
        "2026-11-21 13:05 UTC",
        "11/21/2026",
        "20261121",
        "21 Nov 2026",
        "Nov 21, 2026",
        "nov 21 2026 1:05 pm",
        "12:00 am 2026-01-31",
        "@1700000000",
        "@1700000000.75",
        "@-1.5",
        "2026-01-31 +1 month",
        "2026-03-01 yesterday",
        "2026-01-01 3 days ago",
        "2026-01-01 2 weeks",
        "2026-01-01 -2 hours",
        "21-Nov-2026",
        "2024-02-29 1 year",
        "26-11-21",
        "70-01-02",
        "2026-11-21 last week",
        "2026-06-01 12:00 EST5",
        "garbage",
        "2026-13-01",
        "2026-02-30x",
        "25:00",
        "12:60",
        "1970-01-01 00:00:00 UTC",
    ];
    let dir = scratch();
    let file = fs::File::create(dir.path().join("f")).expect("a file");
    for date in dates {
        for locale in ["UTC", "America/New_York"] {
            // GNU's own `date` computes the second; the file gets times just before and after it.
            let known = std::process::Command::new("date")
                .args(["-d", date, "+%s %N"])
                .env("TZ", locale)
                .output()
                .expect("date");
            let text = String::from_utf8_lossy(&known.stdout).into_owned();
            let mut numbers = text.split_whitespace().map(str::parse::<i64>);
            let moments = match (numbers.next(), numbers.next()) {
                (Some(Ok(seconds)), Some(Ok(nanos))) => {
                    let at = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
                    vec![at, at + 1]
                }
                _ => vec![0],
            };
            for moment in moments {
                use rustix::fs::{Timespec, Timestamps};
                let time = Timespec {
                    tv_sec: moment.div_euclid(1_000_000_000) as i64,
                    tv_nsec: moment.rem_euclid(1_000_000_000) as i64,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                rustix::fs::futimens(&file, &times).expect("times");
                GnuCase::new("find", dir.path())
                    .args(["f", "-newermt", date])
                    .env("TZ", locale)
                    .check(0);
            }
        }
    }
}
