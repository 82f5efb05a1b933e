//! Tests that need the complete command line: its manual pages and completion.

use super::Args;
use clap::CommandFactory as _;
use supercargo_cli::commands::completion::for_kubectl;
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
fn completion_offers_all_commands_and_after_a_dash_all_flags() {
    let command = Args::command();
    let shown = |command: &clap::Command| !command.is_hide_set();
    let commands = command.get_subcommands().filter(|it| shown(it)).map(|it| it.get_name().to_owned());
    let commands: Vec<String> = commands.collect();
    let flags: Vec<String> =
        command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect();
    let completed = |word: &str| for_kubectl(Args::command(), vec!["supercargo".into(), word.into()]);
    let has = |text: &str, name: &str| text.lines().any(|line| line.split('\t').next() == Some(name));
    let text = completed("");
    assert!(commands.len() > 15, "{commands:?}");
    let missing: Vec<&String> = commands.iter().filter(|name| !has(&text, name)).collect();
    assert!(missing.is_empty() && !text.contains("\n--") && text.ends_with(":4\n"), "{missing:?}: {text}");
    let text = completed("--");
    let missing: Vec<&String> = flags.iter().filter(|name| !has(&text, &format!("--{name}"))).collect();
    assert!(missing.is_empty() && flags.len() > 30, "{missing:?}: {text}");
}
