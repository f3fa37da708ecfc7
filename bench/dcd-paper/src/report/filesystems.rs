//! Measurements on real filesystems, on a real clock.

use forebay_report::ReportPage;

use std::time::Duration;

use crate::users::who;

/// Times of users on one real filesystem, on the disk alone and on caches in front of the disk.
#[derive(Clone, Debug)]
pub struct FilesystemRun {
    /// Name of the filesystem, and its mount options.
    pub filesystem: String,
    /// Number of concurrent users.
    pub users: u32,
    /// Files that each user unpacked.
    pub files: u32,
    /// The plain disk first, then the other shapes; each with its programs and their times, a sync included.
    pub shapes: Vec<(String, Vec<(String, Duration)>)>,
    /// Further remarks for the report.
    pub notes: Vec<String>,
}

pub(super) fn write(page: &mut ReportPage, runs: Result<&[FilesystemRun], &str>) {
    page.heading("Real filesystems");
    let runs = match runs {
        Ok(runs) => runs,
        Err(why) => return page.paragraph(&format!("Not measured: {why}.")),
    };
    page.paragraph(
        "By a real clock, as `forebay try` does it: a real filesystem on a block device over the emulated \
         disk (on the bus it was measured on, of 5 MB/s), with a log of 64 MiB. Each time is until a sync \
         of the filesystem has ended, and before each program it is unmounted and mounted, as in the paper. \
         (The paper, on UFS: untar and remove 3 to 6 times, copy 2 to 3 times as fast.)",
    );
    for run in runs {
        one(page, run);
    }
}

fn one(page: &mut ReportPage, run: &FilesystemRun) {
    let users = who(run.users.into());
    page.paragraph(&format!(
        "### {}: {users}, {} files each",
        run.filesystem, run.files
    ));
    let Some(((first, plain), others)) = run.shapes.split_first() else {
        return;
    };
    let mut header = vec!["", first];
    header.extend(others.iter().map(|(name, _)| &**name));
    let rows = plain.iter().enumerate().map(|(n, (program, alone))| {
        let mut row = vec![program.clone(), format!("{:.1} s", alone.as_secs_f64())];
        row.extend(others.iter().map(|(_, times)| match times.get(n) {
            Some((_, time)) => {
                let gain = alone.as_secs_f64() / time.as_secs_f64().max(1e-9);
                format!("{:.1} s: **{gain:.1} ×**", time.as_secs_f64())
            }
            None => "–".to_owned(),
        }));
        row
    });
    page.table(&header, rows);
    let notes: Vec<String> = run.notes.iter().map(|note| format!("- {note}")).collect();
    if !notes.is_empty() {
        page.paragraph(&notes.join("\n"));
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn gains_are_relative_to_the_plain_disk_of_the_same_run() {
        let times = |ms| vec![("untar".to_owned(), Duration::from_millis(ms))];
        let run = FilesystemRun {
            filesystem: "ext4".into(),
            users: 4,
            files: 508,
            shapes: vec![
                ("plain disk".into(), times(9000)),
                ("logical DCD".into(), times(3000)),
            ],
            notes: vec!["a note".into()],
        };
        let folder = tempfile::tempdir().unwrap();
        let mut page = ReportPage::begin(folder.path(), "A title").unwrap();
        write(&mut page, Ok(&[run]));
        for part in [
            "ext4: 4 users, 508 files each",
            "| untar | 9.0 s | 3.0 s: **3.0 ×** |",
            "\n- a note\n",
        ] {
            assert!(page.text().contains(part), "{part}: {}", page.text());
        }
        write(&mut page, Err("not root"));
        assert!(page.text().contains("Not measured: not root."));
    }
}
