//! `forebay dump`: prints every structure of a log.

use std::io::Write;
use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{LayerDumpItem, OpenContext, SuperblockDevice};
use serde_json::Value;

use crate::args::DumpArgs;
use crate::dirs::ProgramDirs;
use crate::run::on_ring;
use crate::target::own;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};

pub(crate) fn run(args: DumpArgs) -> CommandResult {
    on_ring(move |rt, ring| dump(args, rt, ring))
}

async fn dump(args: DumpArgs, rt: Rt, ring: Rc<IoRing>) -> CommandResult {
    let context = OpenContext {
        rt: &rt,
        ring: &ring,
        options: DeviceOpenOptions::existing().for_reading(),
    };
    let own = if let Some(name) = &args.target.name {
        let tree = ProgramDirs::new()?.description(name)?.tree;
        SuperblockDevice::open(tree.kind(), tree.own(), context)?
    } else {
        let (kind, spec) = own(&args.target)?;
        SuperblockDevice::open(kind, spec, context)?
    };
    // Records of an abandoned log look valid, but are never applied.
    if let (Some(records), Ok(log)) = (FailedLogDir::if_known(&rt), own.inspect().await)
        && records.is_abandoned(&log).await?
    {
        eprintln!(
            "forebay: {}: this log failed in use and was abandoned; its data was moved to the data device, and the \
             records below are never applied",
            own.spec()
        );
    }
    print(&own, &rt, args.json).await
}

async fn print(own: &SuperblockDevice, rt: &Rt, json: bool) -> CommandResult {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let mut write = |item: LayerDumpItem| {
        let LayerDumpItem(value) = item;
        let line = if json {
            value.to_string()
        } else {
            text(&value)
        };
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    };
    let dumped = own.dump(rt, &mut write).await;
    let flushed = out.flush();
    dumped?;
    match written.and(flushed) {
        // A closed pipe, as with `dump | head`, is not a failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| CommandFailure::io(format!("cannot write: {error}"))),
    }
}

/// Formats an item on one line: its kind, then `key=value` for each field.
fn text(item: &Value) -> String {
    let Value::Object(fields) = item else {
        return item.to_string();
    };
    let kind = fields.get("kind").and_then(Value::as_str);
    let mut words: Vec<String> = kind.map(Into::into).into_iter().collect();
    for (key, value) in fields.iter().filter(|(key, _)| *key != "kind") {
        match value {
            Value::Null => {}
            Value::String(text) => words.push(format!("{key}={text}")),
            value => words.push(format!("{key}={value}")),
        }
    }
    words.join(" ")
}
