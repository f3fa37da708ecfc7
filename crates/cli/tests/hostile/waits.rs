//! A report about the waits of processes in the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::callers::UnfinishedAct;

/// Maximum groups of threads in a report.
const GROUPS: usize = 40;

/// Describes the threads of processes by state, system call and place in the kernel, with the acts of callers among
/// them. Of each group, one thread is shown with its stack.
pub(crate) fn report(pids: &[u32], slots: &[UnfinishedAct]) -> String {
    let acts: BTreeMap<u32, &str> = slots
        .iter()
        .map(|slot| (slot.tid, slot.act.as_str()))
        .collect();
    let mut groups: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for &pid in pids {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let (group, stack) = describe(&task.path(), &acts);
            groups.entry(group).or_insert((0, stack)).0 += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let lines = groups
        .iter()
        .take(GROUPS)
        .map(|(group, (count, stack))| format!("{count} threads: {group}\n{stack}"));
    lines.collect()
}

fn describe(task: &Path, acts: &BTreeMap<u32, &str>) -> (String, String) {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let tid = task
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    let act = tid
        .and_then(|tid: u32| acts.get(&tid).copied())
        .unwrap_or("-");
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or("?").trim().to_owned()
    };
    let syscall = read("syscall");
    let syscall = syscall.split_whitespace().next().unwrap_or("?");
    let group = format!(
        "{} ({act}), {}, system call {syscall}, at {}",
        field("Name:"),
        field("State:"),
        read("wchan")
    );
    let stack = read("stack");
    let stack = stack.lines().map(|line| format!("        {line}\n"));
    (group, stack.collect())
}
