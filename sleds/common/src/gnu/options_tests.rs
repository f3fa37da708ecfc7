use std::ffi::OsString;

use super::options::{OptionArgument, ParsedArgument, ToolOption, UsageError, one_of, parse};

const fn opt(id: char, short: u8, long: &'static str, arg: OptionArgument) -> ToolOption<char> {
    ToolOption {
        id,
        short: Some(short),
        long: Some(long),
        arg,
        help: "",
        ours: false,
    }
}

const TABLE: [ToolOption<char>; 6] = [
    opt('l', b'l', "lines", OptionArgument::None),
    opt('e', b'e', "regexp", OptionArgument::Required("RE")),
    opt('c', b'k', "color", OptionArgument::Optional("WHEN")),
    opt('c', b'K', "colour", OptionArgument::Optional("WHEN")),
    opt('r', b'r', "recursive", OptionArgument::None),
    ToolOption {
        ours: true,
        ..opt('p', b'p', "links", OptionArgument::None)
    },
];

fn taken(args: &[&str], permute: bool) -> Result<String, String> {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let text = |os: OsString| os.into_string().unwrap();
    let items =
        parse(&TABLE, args, permute).map_err(|UsageError(t)| String::from_utf8(t).unwrap())?;
    let shown = items.into_iter().map(|item| match item {
        ParsedArgument::Operand(o) => format!("[{}]", text(o)),
        ParsedArgument::Option(id, None) => id.to_string(),
        ParsedArgument::Option(id, Some(value)) => format!("{id}={}", text(value)),
    });
    Ok(shown.collect::<Vec<_>>().join(" "))
}

#[test]
fn options_may_follow_operands_except_in_posix_mode() {
    assert_eq!(
        taken(&["a", "-l", "b", "--", "-l"], true).unwrap(),
        "[a] l [b] [-l]"
    );
    assert_eq!(taken(&["-l", "a", "-l"], false).unwrap(), "l [a] [-l]");
    assert_eq!(taken(&["-", "-l"], true).unwrap(), "[-] l");
}

#[test]
fn short_options_may_be_combined_with_an_attached_argument_of_the_last() {
    assert_eq!(
        taken(&["-lex", "-e", "y", "-kl"], true).unwrap(),
        "l e=x e=y c=l"
    );
}

#[test]
fn long_options_may_be_abbreviated_if_unambiguous() {
    assert_eq!(
        taken(&["--li", "--col=x", "--reg", "z"], true).unwrap(),
        "l c=x e=z"
    );
    assert!(
        taken(&["--re=1"], true)
            .unwrap_err()
            .contains("'--re=1' is ambiguous; possibilities: '--regexp' '--recursive'")
    );
}

#[test]
fn options_unknown_to_gnu_must_not_be_abbreviated() {
    assert_eq!(taken(&["--links"], true).unwrap(), "p");
    assert_eq!(taken(&["--lin"], true).unwrap(), "l");
    assert_eq!(
        taken(&["--link"], true).unwrap_err(),
        "unrecognized option '--link'"
    );
}

#[test]
fn a_wrong_command_line_is_refused_with_the_messages_of_getopt() {
    for (args, words) in [
        (&["-z"][..], "invalid option -- 'z'"),
        (&["-le"], "option requires an argument -- 'e'"),
        (&["--regexp"], "option '--regexp' requires an argument"),
        (&["--line=3"], "option '--lines' doesn't allow an argument"),
        (&["--what=3"], "unrecognized option '--what=3'"),
    ] {
        assert_eq!(taken(args, true).unwrap_err(), words);
    }
}

#[test]
fn an_option_value_may_be_abbreviated_and_an_unknown_value_lists_the_valid_values() {
    let table = [("auto", 1), ("always", 2), ("only", 3)];
    assert_eq!(one_of("--total", "o".as_ref(), &table), Ok(3));
    let UsageError(text) = one_of("--total", "a".as_ref(), &table).unwrap_err();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.starts_with("ambiguous argument") && text.contains("- "),
        "{text}"
    );
    assert!(one_of("--total", "never".as_ref(), &table).is_err());
}
