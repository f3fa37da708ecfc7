//! The page `docs/options.md`, made of the declarations of options.

use std::fmt::Write as _;

use super::OptionRow;
use super::service::service_keys;
use crate::kind_spec::ServedAs;
use crate::registry::kind_specs;

const HEAD: &str = "\
# Options of volumes

Each option is a key of the configuration file `NAME.toml` and, with two dashes before it, an option of the command
line of `forebay attach` or `forebay mount`, which overrides the file. `forebay create` also has the options of volumes,
and records them in the file. A value is text, in quotation marks in the file.

This page is made of the declarations in `crates/volume`; a test compares them.
";

/// Returns the text of `docs/options.md`.
pub fn options_page() -> String {
    let mut out = HEAD.to_owned();
    for kind in kind_specs() {
        let (name, title) = (kind.name, kind.title);
        section(
            &mut out,
            &format!("Of a {title} (`kind = \"{name}\"`)"),
            kind.options,
        );
    }
    for (served, title) in [
        (ServedAs::BlockDevice, "Of the daemon of a block device"),
        (ServedAs::Files, "Of the daemon of a filesystem"),
    ] {
        section(&mut out, title, service_keys(served));
    }
    out.push_str("\nThe following are options of `forebay create` only.\n");
    for kind in kind_specs() {
        let title = format!("To create a {} (`--volume {kind}`)", kind.title);
        section(&mut out, &title, kind.create_options);
    }
    let former = kind_specs().flat_map(|kind| kind.options);
    let former = former.filter_map(|row| Some((row.spec.key, row.spec.former?)));
    out.push_str("\n## Former names\n\nThese are understood, with a warning.\n\n| former | now |\n|---|---|\n");
    let mut seen = Vec::new();
    for (now, former) in former {
        if !seen.contains(&former.key) {
            seen.push(former.key);
            let _ = writeln!(out, "| `{}` | `{now}` |", former.key);
            for (before, value) in former.values {
                let _ = writeln!(
                    out,
                    "| `{} = \"{before}\"` | `{now} = \"{value}\"` |",
                    former.key
                );
            }
        }
    }
    out
}

/// Adds the section of these options, unless the list is empty.
fn section<'a>(out: &mut String, title: &str, rows: impl IntoIterator<Item = &'a OptionRow>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "\n## {title}\n\n| option | meaning | default |\n|---|---|---|"
    );
    for row in rows {
        let (key, help) = (row.spec.key, row.help());
        let value = row.spec.value_name.replace('|', "\\|");
        let _ = writeln!(out, "| `{key}` {value} | {help} | {} |", row.default);
    }
}
