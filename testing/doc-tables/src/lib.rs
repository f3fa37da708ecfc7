//! Tables in the project's Markdown pages, read as data.
//!
//! A page and the code it describes are kept equal by reading the page. `cargo xtask tidy` reads
//! the crate table of ARCHITECTURE.md and checks the shape of `docs/format/*.md`; a crate's own
//! test compares its constants with its page. How a format page is written is in
//! docs/format/README.md.

/// One table of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct MarkdownTable {
    /// The text of the nearest heading above, without `#` and backticks.
    pub heading: String,
    /// The line of the header row, counted from 1.
    pub line: usize,
    /// The header's cells, in lower case.
    pub header: Vec<String>,
    /// Line number and cells of each row, with surrounding blanks removed.
    pub rows: Vec<(usize, Vec<String>)>,
}

impl MarkdownTable {
    /// A table of which the header row has been read.
    fn begun(heading: &str, line: usize, cells: &[String]) -> MarkdownTable {
        MarkdownTable {
            heading: heading.to_owned(),
            line,
            header: cells.iter().map(|cell| cell.to_lowercase()).collect(),
            rows: Vec::new(),
        }
    }
}

/// All tables of `page` that are not inside a fenced block.
pub fn tables(page: &str) -> Vec<MarkdownTable> {
    let mut found: Vec<MarkdownTable> = Vec::new();
    let mut heading = String::new();
    let mut fenced = false;
    let mut in_table = false;
    for (index, line) in page.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || !line.starts_with('|') {
            in_table = false;
            if !fenced && line.starts_with('#') {
                heading = plain(line.trim_start_matches('#'));
            }
            continue;
        }
        let cells = cells(line);
        if !in_table {
            in_table = true;
            found.push(MarkdownTable::begun(&heading, index + 1, &cells));
        } else if !cells.iter().all(|cell| is_rule(cell)) {
            let table = found.last_mut().expect("a table was begun");
            table.rows.push((index + 1, cells));
        }
    }
    found
}

/// Whether `cell` belongs to the line between header and rows.
fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':')
}

/// The cells of one row; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let held = inner.replace("\\|", "\u{0}");
    let cell = |cell: &str| cell.trim().replace('\u{0}', "|");
    held.split('|').map(cell).collect()
}

/// `text` without backticks and surrounding blanks.
pub fn plain(text: &str) -> String {
    text.replace('`', "").trim().to_owned()
}

/// One field of an on-disk structure: offset and size in bytes, and its name.
pub type FormatField = (u64, u64, String);

/// Whether the table describes the fields of a structure.
pub fn is_layout(table: &MarkdownTable) -> bool {
    table.header.len() >= 3 && table.header[..3] == ["offset", "size", "field"]
}

/// The fixed part of the structure that `table` describes.
///
/// Fields follow each other without a gap, from offset 0. Rows after the fixed part may have a
/// size that is no number (`n × 24`, `rest`); they are left out here.
///
/// # Errors
/// Says which row is not as it must be.
pub fn fields(table: &MarkdownTable) -> Result<Vec<FormatField>, String> {
    let mut fields = Vec::new();
    let mut end = 0;
    let mut fixed = true;
    for (line, row) in &table.rows {
        let [offset, size, name, ..] = &row[..] else {
            return Err(format!("line {line}: fewer than three cells"));
        };
        match (fixed, offset.parse::<u64>(), size.parse::<u64>()) {
            (true, Ok(offset), _) if offset != end => {
                return Err(format!(
                    "line {line}: offset {offset}, but the field above ends at {end}"
                ));
            }
            (true, Ok(offset), Ok(size)) => {
                end = offset + size;
                fields.push((offset, size, plain(name)));
            }
            (true, Err(_), _) => {
                return Err(format!("line {line}: offset `{offset}` is no number"));
            }
            (false, _, Ok(_)) => {
                return Err(format!("line {line}: a fixed field after a variable one"));
            }
            (_, _, Err(_)) => fixed = false,
        }
    }
    Ok(fields)
}

/// The fields that `page` lists under the heading `structure`, for a test to compare.
///
/// # Panics
/// If there is no such table or it is malformed.
pub fn layout(page: &str, structure: &str) -> Vec<FormatField> {
    let table = tables(page)
        .into_iter()
        .find(|table| is_layout(table) && table.heading == structure)
        .unwrap_or_else(|| panic!("no `offset | size | field` table under \"{structure}\""));
    fields(&table).unwrap_or_else(|problem| panic!("{structure}: {problem}"))
}

/// Name and value of every row of the page's `constant | value` tables, for a test to compare.
pub fn constants(page: &str) -> Vec<(String, String)> {
    tables(page)
        .iter()
        .filter(|table| table.header.len() >= 2 && table.header[..2] == ["constant", "value"])
        .flat_map(|table| &table.rows)
        .filter_map(|(_, row)| Some((plain(row.first()?), plain(row.get(1)?))))
        .collect()
}
/// Holds bytes against a structure of a page: each value where the page says that it stands, little-endian, and
/// no field that only one side knows.
///
/// # Panics
/// If they differ.
pub fn fields_stand(page: &str, structure: &str, bytes: &[u8], values: &[(&str, u64)]) {
    let fields = layout(page, structure);
    let names: Vec<&str> = fields.iter().map(|(_, _, name)| name.as_str()).collect();
    let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known, "{structure}");
    for ((at, size, name), (_, value)) in fields.iter().zip(values) {
        let mut expected = value.to_le_bytes().to_vec();
        expected.resize((*size).max(8) as usize, 0);
        let found = &bytes[*at as usize..(at + size) as usize];
        assert_eq!(found, &expected[..*size as usize], "{structure}: {name}");
    }
}
