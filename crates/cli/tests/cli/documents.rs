//! Help, completions and manual pages.

use crate::world::CliSandbox;

#[test]
fn help_documents_the_exit_codes_and_the_environment() {
    let world = CliSandbox::new();
    let help = world.ok(&["--help"]);
    for part in [
        "Exit codes",
        "FOREBAY_RUNTIME_DIR",
        "FOREBAY_STATE_DIR",
        "FOREBAY_DEV_DIR",
        "create",
        "attach",
        "detach",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(world.ok(&["check", "--help"]).contains("2  damaged"));
    assert!(!world.ok(&["attach", "--help"]).contains("--daemon"));
}

#[test]
fn completions_are_printed_for_every_shell() {
    let world = CliSandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = world.ok(&["completions", shell]);
        assert!(completions.contains("FOREBAY_COMPLETE"), "{shell}");
    }
    world
        .refused(&["completions", "dos"])
        .with(2, &["dos", "bash"]);
}

/// Returns what bash would offer for the last of these words.
fn offered(world: &CliSandbox, words: &[&str]) -> Vec<String> {
    let mut command = world.command(&["--", "forebay"]);
    command.args(words);
    command.env("FOREBAY_COMPLETE", "bash");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_names_of_volumes_values_of_options_and_paths() {
    let world = CliSandbox::with_volume();
    assert_eq!(offered(&world, &["attach", ""])[0], "v");
    let attached = offered(&world, &["detach", ""]);
    assert!(!attached.contains(&"v".to_owned()), "{attached:?}");
    let via = offered(&world, &["attach", "v", "--via", ""]);
    assert_eq!(via, ["auto", "ublk", "nbd", "loop", "none"]);
    assert_eq!(offered(&world, &["create", "--volume", "v"]), ["vsl"]);
    let data = offered(&world, &["create", "--data", "data"]);
    assert_eq!(data, ["data.img"]);
}

#[test]
fn manual_pages_have_sections_for_examples_files_and_exit_status() {
    let world = CliSandbox::new();
    world.ok(&["man", "--out", "pages"]);
    for entry in std::fs::read_dir(world.path("pages")).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        let has = |title: &str| page.lines().any(|line| line == title);
        assert!(
            has(".SH NAME") && has(".SH \"SEE ALSO\""),
            "{}",
            path.display()
        );
        if path.extension().is_some_and(|section| section == "1") {
            for title in [".SH EXAMPLES", ".SH \"EXIT STATUS\"", ".SH FILES"] {
                assert!(has(title), "{title} in {}", path.display());
            }
        }
    }
    let key = std::fs::read_to_string(world.path("pages/forebay.toml.5")).unwrap();
    assert!(key.contains("map\\-memory"), "{key}");
    assert!(world.path("pages/mount.forebay.8").exists());
}

#[test]
fn manual_pages_are_printed_singly_or_written_all_to_a_directory() {
    let world = CliSandbox::new();
    let page = world.ok(&["man"]);
    assert!(
        page.contains(".TH FOREBAY 1") && page.contains("attach"),
        "{page}"
    );
    world.ok(&["man", "--out", "pages"]);
    let attach = std::fs::read_to_string(world.path("pages/forebay-attach.1")).unwrap();
    assert!(attach.contains("max\\-delay"), "{attach}");
    assert!(world.path("pages/forebay.1").exists());
    assert!(!world.path("pages/forebay-help.1").exists());
    assert!(!world.path("pages/forebay-udev.1").exists());
}
