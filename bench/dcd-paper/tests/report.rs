//! Measures and writes the report at the smallest scale.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use forebay_dcd_paper::{Circumstances, PaperScale, measure, write_report};

/// Returns the figures that a page of Markdown shows.
fn shown(text: &str) -> BTreeSet<String> {
    let images = text.lines().filter(|line| line.starts_with("!["));
    let names = images.filter_map(|line| line.rsplit_once("](")?.1.strip_suffix(')'));
    names.map(str::to_owned).collect()
}

fn drawn(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".svg")).collect()
}

/// Checks that each row of a table has the same number of cells, and that every number is valid.
fn check_tables(text: &str) {
    let mut cells = 0;
    for line in text.lines() {
        let here = line.matches('|').count();
        assert!(cells == 0 || here == 0 || here == cells, "{line}");
        cells = here;
        assert!(!line.contains("NaN") && !line.contains("inf "), "{line}");
    }
}

#[test]
fn a_report_shows_all_its_figures_next_to_the_values_of_the_paper() {
    let circumstances = Circumstances::begin();
    let measured = measure(PaperScale::Quick, |_| true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = write_report(folder.path(), &circumstances, &measured, Err("left out")).unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(shown(&text), drawn(folder.path()));
    for figure in ["figure-7.svg", "figure-10.svg", "figure-12-logical.svg"] {
        assert!(shown(&text).contains(figure), "{figure}: {text}");
    }
    check_tables(&text);
    for said in [
        "6.2 ×",
        "135.30",
        "42.28",
        "(55.0)",
        "Not measured: left out.",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_measurement_ends_on_request() {
    let mut steps = 0;
    let measured = measure(PaperScale::Quick, |_| {
        steps += 1;
        steps < 2
    });
    assert!(measured.is_err());
    assert_eq!(steps, 2);
}
