//! Tables in the project's Markdown pages, read as data.
//!
//! Tests read the pages, so that a page and the code that it describes stay equal. `cargo xtask tidy` reads the crate
//! table of ARCHITECTURE.md and checks the shape of `docs/format/*.md`; a crate's own test compares its constants with
//! its page. The form of a format page is described in docs/format/README.md.

/// One table of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct MarkdownTable {
    /// Text of the nearest heading above, without `#` and backticks.
    pub heading: String,
    /// Line of the header row, counted from 1.
    pub line: usize,
    /// Cells of the header, in lower case.
    pub header: Vec<String>,
    /// Line number and cells of each row, without surrounding blanks.
    pub rows: Vec<(usize, Vec<String>)>,
}

impl MarkdownTable {
    /// Begins a table after its header row.
    fn begun(heading: &str, line: usize, cells: &[String]) -> MarkdownTable {
        MarkdownTable {
            heading: heading.to_owned(),
            line,
            header: cells.iter().map(|cell| cell.to_lowercase()).collect(),
            rows: Vec::new(),
        }
    }
}

/// Returns all tables of `page` outside fenced blocks.
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

/// Returns true if `cell` belongs to the line between header and rows.
fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':')
}

/// Returns the cells of one row; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let held = inner.replace("\\|", "\u{0}");
    let cell = |cell: &str| cell.trim().replace('\u{0}', "|");
    held.split('|').map(cell).collect()
}

/// Returns `text` without backticks and surrounding blanks.
pub fn plain(text: &str) -> String {
    text.replace('`', "").trim().to_owned()
}

/// One field of an on-disk structure: offset and size in bytes, and its name.
pub type FormatField = (u64, u64, String);

/// Returns true if the table describes the fields of a structure.
pub fn is_layout(table: &MarkdownTable) -> bool {
    table.header.len() >= 3 && table.header[..3] == ["offset", "size", "field"]
}

/// Returns the fixed part of the structure that `table` describes.
///
/// Fields follow each other without a gap, from offset 0. Rows after the fixed part may have a size that is not a
/// number (`n × 24`, `rest`); they are omitted.
///
/// # Errors
/// If a row is malformed. The error names the row.
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

/// Returns the fields that `page` lists under the heading `structure`, for a test to compare.
///
/// # Panics
/// If the table is missing or malformed.
pub fn layout(page: &str, structure: &str) -> Vec<FormatField> {
    let table = tables(page)
        .into_iter()
        .find(|table| is_layout(table) && table.heading == structure)
        .unwrap_or_else(|| panic!("no `offset | size | field` table under \"{structure}\""));
    fields(&table).unwrap_or_else(|problem| panic!("{structure}: {problem}"))
}

/// Returns name and value of every row of the page's `constant | value` tables, for a test to compare.
pub fn constants(page: &str) -> Vec<(String, String)> {
    tables(page)
        .iter()
        .filter(|table| table.header.len() >= 2 && table.header[..2] == ["constant", "value"])
        .flat_map(|table| &table.rows)
        .filter_map(|(_, row)| Some((plain(row.first()?), plain(row.get(1)?))))
        .collect()
}
/// Compares bytes with a structure of a page: each value must be at the place that the page gives, little-endian, and
/// both sides must have equal sets of fields.
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
