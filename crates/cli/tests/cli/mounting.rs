//! Mount options, and the `mount` and `umount` of the system.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::files::{check, world};
use crate::system::{installed, tool, try_unmount};
use crate::world::{CliSandbox, failed, output, signal, texts, wait_for_end, wait_until};

fn accessed(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().accessed().unwrap()
}

/// Reads a file, or the names in a directory. Returns true if the access time was updated.
fn is_noted(path: &Path) -> bool {
    let before = accessed(path);
    if path.is_dir() {
        fs::read_dir(path).unwrap().count();
    } else {
        fs::read(path).unwrap();
    }
    accessed(path) > before
}

#[test]
fn access_times_are_updated_as_the_mount_options_require() {
    let Some(world) = world("access_times_are_updated_as_the_mount_options_require") else {
        return;
    };
    let dir = world.path("mnt");
    let [file, sub] = ["file", "sub"].map(|name| dir.join(name));
    world.ok(&["mount", "f", "mnt"]);
    fs::write(&file, b"content").unwrap();
    fs::create_dir(&sub).unwrap();
    world.unmount("mnt");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (options, of_file, of_directory) in [
        ("rw", [true, false], true),
        ("noatime", [false, false], false),
        ("strictatime", [true, true], true),
        ("norelatime,nodiratime", [true, true], false),
        ("noatime,relatime,diratime", [true, false], true),
    ] {
        world.ok(&["mount", "f", "mnt", "-o", options]);
        for path in [&file, &sub] {
            let times = FileTimes::new().set_accessed(old).set_modified(old);
            File::open(path).unwrap().set_times(times).unwrap();
        }
        let noted = [is_noted(&file), is_noted(&file)];
        assert_eq!(noted, of_file, "{options}");
        assert_eq!(is_noted(&sub), of_directory, "{options}");
        // The access times are durable.
        let before = [&file, &sub].map(|path| accessed(path));
        world.unmount("mnt");
        world.ok(&["mount", "f", "mnt", "-o", "ro"]);
        assert_eq!([&file, &sub].map(|path| accessed(path)), before);
        world.unmount("mnt");
    }
    // Through a read-only mount, no access time is updated.
    world.ok(&["mount", "f", "mnt"]);
    let times = FileTimes::new().set_accessed(old);
    File::open(&file).unwrap().set_times(times).unwrap();
    world.unmount("mnt");
    for options in ["ro", "ro,strictatime"] {
        world.ok(&["mount", "f", "mnt", "-o", options]);
        assert!(!is_noted(&file) && !is_noted(&sub), "{options}");
        world.unmount("mnt");
    }
    world.ok(&["mount", "f", "mnt", "-o", "ro"]);
    assert_eq!(accessed(&file), old);
    world.unmount("mnt");
}

#[test]
fn a_filesystem_can_be_mounted_right_after_the_system_umount() {
    let Some(world) = world("a_filesystem_can_be_mounted_right_after_the_system_umount") else {
        return;
    };
    let dir = world.path("mnt");
    for round in 0..10_u8 {
        world.ok(&["mount", "f", "mnt"]);
        fs::write(dir.join("file"), vec![round; 1 << 20]).unwrap();
        // `umount` returns before the daemon has made all data durable.
        try_unmount(&[dir.to_str().unwrap()]).expect("unmounted");
    }
    world.ok(&["mount", "f", "mnt"]);
    assert!(fs::read(dir.join("file")).unwrap() == vec![9; 1 << 20]);
    world.unmount("mnt");
}

/// Found by xfstests' generic/507 and 524, which mount again at once on a busy system. The lock of the name was free
/// while the image was still open, and the next daemon, which had waited for the lock, was refused.
#[test]
fn the_name_lock_is_held_until_the_image_is_closed() {
    let Some(world) = world("the_name_lock_is_held_until_the_image_is_closed") else {
        return;
    };
    let dir = world.path("mnt");
    for round in 0..10_u8 {
        world.ok(&["mount", "f", "mnt"]);
        fs::write(dir.join("file"), vec![round; 1 << 16]).unwrap();
        let daemon = world.pid("f").expect("mounted");
        let image = fs::canonicalize(world.path("disk.img")).unwrap();
        let lock = File::open(world.path("run/f.lock")).unwrap();
        try_unmount(&[dir.to_str().unwrap()]).expect("unmounted");
        lock.lock().unwrap();
        let open = fs::read_dir(format!("/proc/{daemon}/fd"));
        let open = open.into_iter().flatten().flatten();
        let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert!(!open.any(|file| file == image), "{round}");
        drop(lock);
    }
}

/// Found by xfstests' generic/488: the kernel does not report all files that it released before the unmount.
#[test]
fn unlinked_open_files_are_reclaimed_at_unmount() {
    let Some(world) = world("unlinked_open_files_are_reclaimed_at_unmount") else {
        return;
    };
    let dir = world.path("mnt");
    world.ok(&["mount", "f", "mnt"]);
    let files: Vec<File> = (0..500)
        .map(|n| {
            let path = dir.join(format!("file{n}"));
            let file = File::create(&path).unwrap();
            fs::remove_file(&path).unwrap();
            file
        })
        .collect();
    drop(files);
    world.unmount("mnt");
    let (code, said) = check(&world);
    assert!(code == 0 && !said.contains("unlinked"), "{said}");
}

/// Runs the helper that the system's `mount` calls, with these arguments.
fn helper(world: &CliSandbox, arguments: &[&str]) -> Output {
    let helper = world.path("mount.forebay");
    if !helper.exists() {
        symlink(env!("CARGO_BIN_EXE_forebay"), &helper).unwrap();
    }
    let mut command = Command::new(&helper);
    world.set_up(&mut command);
    let done = output(command.args(arguments)).unwrap();
    assert!(done.status.success(), "{arguments:?}: {:?}", texts(&done));
    done
}

#[test]
fn the_mount_helper_supports_quiet_fake_and_remount() {
    let Some(world) = world("the_mount_helper_supports_quiet_fake_and_remount") else {
        return;
    };
    let dir = world.path("mnt");
    helper(&world, &["f", "mnt", "-f", "-o", "rw"]);
    world.refused(&["umount", "mnt"]).with(3, &["mnt"]);
    let silent = helper(&world, &["f", "mnt", "-n", "-o", "rw,lazytime"]);
    assert_eq!(texts(&silent), (String::new(), String::new()));
    fs::write(dir.join("a"), b"1").unwrap();
    // The options as the system shows them for a mount, and passes them to a remount.
    let shown = "user_id=0,group_id=0,default_permissions,allow_other";
    let options = ["remount,ro,relatime", shown].join(",");
    helper(&world, &["f", "mnt", "-o", &options]);
    let refused = fs::write(dir.join("a"), b"2").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
    helper(&world, &["f", "mnt", "-o", "remount,rw"]);
    // Neither another directory nor another name can be remounted.
    fs::create_dir(world.path("other")).unwrap();
    for [name, dir] in [["f", "other"], ["g", "mnt"]] {
        let args = ["mount", "-o", "remount,ro", name, dir];
        failed(&args, &world.run(&args)).with(3, &["is not mounted at"]);
    }
    fs::write(dir.join("a"), b"2").unwrap();
    world.unmount("mnt");
    let said = texts(&helper(&world, &["f", "mnt", "-v"])).0;
    assert!(said.contains("mnt"), "{said}");
    world.unmount("mnt");
}

/// `chattr +S` and `+D`: without any `fsync`, and the daemon is killed.
#[test]
fn the_sync_and_dirsync_flags_make_changes_durable_at_once() {
    let test = "the_sync_and_dirsync_flags_make_changes_durable_at_once";
    if !installed(test, &["chattr"]) {
        return;
    }
    let Some(world) = world(test) else {
        return;
    };
    let dir = world.path("mnt");
    world.ok(&["mount", "f", "mnt"]);
    let pid = world.pid("f").expect("it is mounted");
    let chattr = |flag: &str, path: &Path| tool("chattr", &[flag, path.to_str().unwrap()]);
    fs::create_dir(dir.join("names")).unwrap();
    fs::write(dir.join("data"), b"old").unwrap();
    chattr("+D", &dir.join("names")).unwrap();
    chattr("+S", &dir.join("data")).unwrap();
    // Each operation also makes all earlier operations durable, so the daemon is killed after each.
    fs::write(dir.join("data"), b"new").unwrap();
    signal(pid, "KILL");
    wait_for_end(pid);
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(fs::read(dir.join("data")).unwrap(), b"new");
    let pid = world.pid("f").expect("it is mounted");
    fs::rename(dir.join("data"), dir.join("names/moved")).unwrap();
    fs::create_dir(dir.join("names/below")).unwrap();
    signal(pid, "KILL");
    wait_for_end(pid);
    world.ok(&["mount", "f", "mnt"]);
    assert!(dir.join("names/moved").exists() && !dir.join("data").exists());
    assert!(dir.join("names/below").is_dir());
    let pid = world.pid("f").expect("it is mounted");
    // A rename belongs to the target directory as well. New files and directories inherit the flag of their directory.
    fs::write(dir.join("names/below/file"), b"").unwrap();
    fs::rename(dir.join("names/moved"), dir.join("names/below/moved")).unwrap();
    fs::rename(dir.join("names/below/moved"), dir.join("back")).unwrap();
    signal(pid, "KILL");
    wait_for_end(pid);
    world.ok(&["mount", "f", "mnt"]);
    assert!(dir.join("back").exists() && dir.join("names/below/file").exists());
    world.unmount("mnt");
    assert_eq!(check(&world).0, 0);
}

#[test]
fn fstrim_by_root_returns_free_space_to_the_image() {
    let test = "fstrim_by_root_returns_free_space_to_the_image";
    if !installed(test, &["fstrim"]) {
        return;
    }
    let Some(world) = world(test) else {
        return;
    };
    let dir = world.path("mnt");
    let taken = || {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(world.path("disk.img")).unwrap().blocks() * 512
    };
    world.ok(&["mount", "f", "mnt"]);
    let file = dir.join("file");
    fs::write(&file, vec![7; 24 << 20]).unwrap();
    File::open(&file).unwrap().sync_all().unwrap();
    fs::remove_file(&file).unwrap();
    let before = taken();
    let trim = |more: &[&str]| tool("fstrim", &[more, &[dir.to_str().unwrap()]].concat());
    let said = trim(&["-v"]).expect("done");
    let bytes = said
        .split(['(', ' '])
        .filter_map(|word| word.parse::<u64>().ok());
    assert!(bytes.max().is_some_and(|bytes| bytes > 20 << 20), "{said}");
    assert!(taken() + (16 << 20) < before, "{} of {before}", taken());
    assert!(trim(&["-o", "1T"]).is_none(), "there is nothing");
    fs::write(dir.join("new"), vec![8; 8 << 20]).unwrap();
    world.unmount("mnt");
    assert_eq!(check(&world).0, 0);
}

#[test]
fn statfs_reports_the_number_of_files() {
    let Some(world) = world("statfs_reports_the_number_of_files") else {
        return;
    };
    let dir = world.path("mnt");
    let used = || {
        let space = rustix::fs::statvfs(&dir).unwrap();
        assert!(space.f_ffree > 0 && space.f_ffree <= (space.f_bavail + 1) * 4);
        space.f_files - space.f_ffree
    };
    world.ok(&["mount", "f", "mnt"]);
    (0..20).for_each(|n| fs::write(dir.join(format!("{n}")), b"").unwrap());
    wait_until("they are counted", || used() == 21);
    fs::remove_file(dir.join("7")).unwrap();
    wait_until("it is gone", || used() == 20);
    world.unmount("mnt");
    world.ok(&["mount", "f", "mnt"]);
    wait_until("they are counted again", || used() == 20);
    world.unmount("mnt");
}
