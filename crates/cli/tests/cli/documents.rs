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
        assert!(completions.contains("detach"), "{shell}");
    }
    world
        .refused(&["completions", "dos"])
        .with(2, &["dos", "bash"]);
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
