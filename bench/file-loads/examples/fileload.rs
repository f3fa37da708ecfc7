//! Runs one workload of the comparison of filesystems in a directory: `fileload WHAT DIRECTORY [NUMBER]`, with `names`,
//! `durable`, `tree` or `apps`. Used with a profiler.
#![allow(missing_docs, reason = "an example")]

use std::io;
use std::path::PathBuf;

use forebay_file_loads::apps::{App, AppAmount};
use forebay_file_loads::names::{self, SourceTree};
use forebay_file_loads::{TimeTaken, forget_caches, measured};

fn say(what: &str, count: u64, took: TimeTaken) {
    let (rate, each) = (took.rate(count), took.micros_each(count));
    println!("{what:12} {rate:10.0}/s {each:8.1} us of processors each");
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let dir = PathBuf::from(args.next().unwrap_or_default()).join("fileload");
    let count = args.next().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    std::fs::create_dir(&dir)?;
    let step = |what: &str, count: u64, work: &dyn Fn() -> io::Result<()>| {
        measured(work).map(|((), took)| say(what, count, took))
    };
    match what.as_str() {
        "names" => {
            step("create", count, &|| names::make(&dir, count))?;
            step("sync", 1, &|| names::sync(&dir))?;
            step("stat", count, &|| names::look(&dir, count))?;
            step("unlink", count, &|| names::remove(&dir, count))?;
        }
        "durable" => step("durable", count, &|| names::make_durable(&dir, count))?,
        "tree" => {
            let tree = SourceTree::of(count);
            step("unpack", count, &|| tree.unpack(&dir))?;
            step("sync", 1, &|| names::sync(&dir))?;
            step("find", count, &|| tree.find(&dir))?;
            forget_caches();
            step("find, cold", count, &|| tree.find(&dir))?;
            return step("rm -r", count, &|| tree.remove(&dir));
        }
        "apps" => {
            for app in App::ALL {
                let within = dir.join(app.name());
                std::fs::create_dir(&within)?;
                say(app.name(), 1, app.run(&within, AppAmount::Quick)?);
                std::fs::remove_dir_all(within)?;
            }
        }
        _ => return Err(io::Error::other("names, durable, tree or apps?")),
    }
    std::fs::remove_dir_all(dir)
}
