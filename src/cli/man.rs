//! `supercargo man`: manual pages of the program and each command, generated from the command line
//! definition. Contacts no API server.

use super::cluster::{complain, say};
use crate::args::Args as Line;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;

/// Exit code if the folder cannot be written.
const BAD_INPUT: u8 = 2;

/// Output of `supercargo man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Folder to write a page for the program and each command to; created if missing. Without it, the
    /// program's page is printed.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Returns the commands that have a page, with the names of their pages.
fn pages() -> Vec<(String, Command)> {
    fn add(name: String, command: Command, pages: &mut Vec<(String, Command)>) {
        // The usage line shows the command as typed; the page's name joins the words with dashes.
        let command = command.bin_name(name.replace('-', " ")).display_name(name.clone());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            add(format!("{name}-{}", inner.get_name()), inner.clone(), pages);
        }
        pages.push((name, command));
    }
    let mut pages = Vec::new();
    let mut command = Line::command();
    command.build();
    add("supercargo".to_owned(), command, &mut pages);
    pages.sort_by(|a, b| a.0.cmp(&b.0));
    pages
}

/// Formats a page in roff, as `man` reads it.
fn page(name: &str, command: Command) -> io::Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command)
        .title(name.to_uppercase())
        .source(format!("supercargo {version}"))
        .manual("supercargo");
    let mut text = Vec::new();
    man.render(&mut text)?;
    Ok(text)
}

fn write(dir: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    let pages = pages();
    let count = pages.len();
    for (name, command) in pages {
        std::fs::write(dir.join(format!("{name}.1")), page(&name, command)?)?;
    }
    Ok(count)
}

/// Runs the command: writes or prints the pages. Returns 2 if the folder cannot be written.
pub fn main(args: &ManArgs) -> ExitCode {
    let Some(dir) = &args.dir else {
        let (name, command) = pages().into_iter().next().expect("the program's own page comes first");
        let text = page(&name, command).expect("writing to memory cannot fail");
        return say(&String::from_utf8_lossy(&text), 0);
    };
    match write(dir) {
        Ok(pages) => say(
            &format!("{} in {}\n", count(pages, "page"), super::screen::plain(&dir.display().to_string())),
            0,
        ),
        Err(error) => {
            complain(&format!("error: cannot write to {}: {error}", dir.display()));
            ExitCode::from(BAD_INPUT)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_manual_page_with_its_flags() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "supercargo");
        for command in Line::command().get_subcommands() {
            assert!(
                names.contains(&format!("supercargo-{}", command.get_name()).as_str()),
                "{}",
                command.get_name()
            );
        }
        assert!(names.contains(&"supercargo-shadow-report"), "{names:?}");
        for (name, command) in pages {
            let flags: Vec<String> =
                command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect();
            let text = String::from_utf8(page(&name, command).expect("writing to memory succeeds"))
                .expect("a page is text");
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
        let count = write(&dir).expect("it can be written to");
        assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), count);
        assert!(dir.join("supercargo-explain.1").is_file() && dir.join("supercargo-drain-check.1").is_file());
    }
}
