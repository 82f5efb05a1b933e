//! Tests that need the complete command line: its manual pages and completion scripts.

use super::Args;
use clap::{CommandFactory as _, ValueEnum as _};
use supercargo_cli::commands::completion::{KnownShell, script};
use supercargo_cli::commands::man::{page, pages, write};

#[test]
fn every_command_has_a_manual_page_with_its_flags() {
    let pages = pages(Args::command());
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[0], "supercargo");
    for command in Args::command().get_subcommands() {
        let name = command.get_name();
        assert!(names.contains(&format!("supercargo-{name}").as_str()), "{name}");
    }
    assert!(names.contains(&"supercargo-shadow-report"), "{names:?}");
    for (name, command) in pages {
        let flags: Vec<String> =
            command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect();
        let text = String::from_utf8(page(&name, command)).expect("a page is text");
        let plain = text.replace("\\-", "-");
        assert!(
            plain.starts_with(".ie") && plain.contains(&format!(".TH {}", name.to_uppercase())),
            "{plain}"
        );
        assert!(plain.contains(env!("CARGO_PKG_VERSION")), "{name}");
        for flag in flags {
            assert!(plain.contains(&format!("--{flag}")), "{name}: {flag}");
        }
    }
}

#[test]
fn manual_pages_are_written_to_a_new_folder() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let dir = folder.path().join("share/man/man1");
    let count = write(Args::command(), &dir).expect("it can be written to");
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), count);
    assert!(dir.join("supercargo-explain.1").is_file() && dir.join("supercargo-drain-check.1").is_file());
}

#[test]
fn completion_scripts_contain_all_flags_and_commands() {
    let mut command = Args::command();
    let flags = command.get_arguments().filter_map(|flag| flag.get_long());
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let words: Vec<String> = flags.chain(commands).map(str::to_owned).collect();
    assert!(words.len() > 30 && words.contains(&"completion".to_owned()), "{words:?}");
    for shell in KnownShell::value_variants() {
        let script = script(*shell, &mut command);
        let missing: Vec<_> = words.iter().filter(|word| !script.contains(*word)).collect();
        assert!(missing.is_empty(), "{shell:?}: {missing:?}");
    }
}
