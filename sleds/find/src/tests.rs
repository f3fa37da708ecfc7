//! Tests of the parts of find that need no files. `tests/gnu_find` compares the effects on files with GNU's.

use super::cost::compares;
use super::entry::{base_name, dir_name};
use super::expr::{ExprNode, FileTest, NumericComparison};
use super::numbers;
use super::perm;
use super::printf::general;

#[test]
fn latencies_are_parsed_with_the_unit_before_or_after_the_number() {
    let read = numbers::latency;
    assert_eq!(read("+2"), Some((NumericComparison::More, 2.0, 1.0)));
    assert_eq!(read("-0.5"), Some((NumericComparison::Less, 0.5, 1.0)));
    assert_eq!(read("20m"), Some((NumericComparison::Equal, 20.0, 1e-3)));
    assert_eq!(read("+M20"), Some((NumericComparison::More, 20.0, 1e-3)));
    assert_eq!(read("-u7"), Some((NumericComparison::Less, 7.0, 1e-6)));
    assert_eq!(read("7U"), Some((NumericComparison::Equal, 7.0, 1e-6)));
    for wrong in ["", "+", "m", "+-1", "1k", "inf", "nan", "mm1", "1mm"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn a_time_equals_a_number_when_it_rounds_to_it() {
    assert!(compares(0.0124, NumericComparison::Equal, 12.0, 1e-3));
    assert!(!compares(0.0126, NumericComparison::Equal, 12.0, 1e-3));
    assert!(compares(0.0124, NumericComparison::More, 12.0, 1e-3));
    assert!(!compares(0.012, NumericComparison::Less, 12.0, 1e-3));
}

#[test]
fn errors_in_sizes_are_explained() {
    assert_eq!(
        numbers::size("+3k").map(|(n, unit)| (n.value, unit)),
        Ok((3, 1024))
    );
    assert_eq!(numbers::size("x"), Err("invalid -size type `x'".into()));
    assert_eq!(numbers::size("é"), Err("invalid -size type `é'".into()));
    assert_eq!(
        numbers::size("1cc"),
        Err("Invalid argument `1cc' to -size".into())
    );
}

#[test]
fn modes_are_those_of_chmod() {
    for (text, file, dir) in [
        ("644", 0o644, 0o644),
        ("u=rw,go=r", 0o644, 0o644),
        ("a+rX", 0o444, 0o555),
        ("u+s,+t", 0o5000, 0o5000),
        ("u=rwx,g=u,o=g-w", 0o775, 0o775),
    ] {
        assert_eq!(perm::parse(text, true), Some((file, dir)), "{text}");
    }
    for wrong in ["8", "77777", "u", "u=q", "z+r", "", "+7", "u=6"] {
        assert_eq!(perm::parse(wrong, true), None, "{wrong}");
    }
    assert_eq!(&perm::letters(0o101_644), b"-rw-r--r-T");
}

#[test]
fn paths_are_split_like_in_gnu_find() {
    for (path, dir, base) in [
        ("a/b", "a", "b"),
        ("a", ".", "a"),
        ("/", "", "/"),
        ("/a", "", "a"),
        ("a/b//", "a", "b/"),
        ("ab/", ".", "ab/"),
        ("a/", "a", "a/"),
    ] {
        assert_eq!(dir_name(path.as_bytes()), dir.as_bytes(), "{path}");
        assert_eq!(base_name(path.as_bytes()), base.as_bytes(), "{path}");
    }
}

#[test]
fn numbers_are_printed_like_by_the_c_library() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (1_365.333_333, "1365.33"),
        (0.000_012_345_67, "1.23457e-05"),
        (1_234_567.0, "1.23457e+06"),
        (0.125, "0.125"),
    ] {
        assert_eq!(general(value), text);
    }
}

#[test]
fn cheap_tests_run_first_and_no_test_moves_past_an_action() {
    use super::expr::FindAction;
    let latency = || {
        ExprNode::Test(FileTest::Latency {
            compare: NumericComparison::Less,
            value: 1.0,
            unit_s: 1.0,
        })
    };
    let cheap = || ExprNode::Test(FileTest::True);
    let mut node = ExprNode::And(vec![
        latency(),
        cheap(),
        ExprNode::Do(FindAction::Prune),
        latency(),
        cheap(),
    ]);
    node.put_cheap_first();
    let ExprNode::And(nodes) = node else {
        panic!("it stays what it is");
    };
    let is_cheap = |node: &ExprNode| matches!(node, ExprNode::Test(FileTest::True));
    let order: Vec<bool> = nodes.iter().map(is_cheap).collect();
    assert_eq!(order, [true, false, false, true, false]);
}
