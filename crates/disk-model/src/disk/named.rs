//! Drives known by name.

use super::spec::DiskSpec;

const TABLES: [(&str, &str); 10] = [
    ("dec_rz26", include_str!("tables/dec_rz26.disk")),
    ("barracuda", include_str!("tables/barracuda.disk")),
    ("cheetah4lp", include_str!("tables/cheetah4lp.disk")),
    ("atlas3", include_str!("tables/atlas3.disk")),
    ("cheetah9lp", include_str!("tables/cheetah9lp.disk")),
    ("ibm18es", include_str!("tables/ibm18es.disk")),
    ("atlas10k", include_str!("tables/atlas10k.disk")),
    (
        "cheetah15k5-2003",
        include_str!("tables/cheetah15k5-2003.disk"),
    ),
    ("hylog-2008", include_str!("tables/hylog-2008.disk")),
    (
        "barracuda1tb-2012",
        include_str!("tables/barracuda1tb-2012.disk"),
    ),
];

/// Returns the drive called `name`, if it exists.
///
/// # Panics
/// If a table in this crate is invalid, which a test rules out.
pub fn named(name: &str) -> Option<DiskSpec> {
    let (_, table) = TABLES.iter().find(|(known, _)| *known == name)?;
    Some(DiskSpec::parse(table).unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// Returns the names of all drives, oldest first, each with a line on the drive and the source of its figures.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.iter().map(|(name, table)| {
        let about = table
            .lines()
            .find_map(|line| line.strip_prefix("about "))
            .unwrap_or("");
        (*name, about)
    })
}
