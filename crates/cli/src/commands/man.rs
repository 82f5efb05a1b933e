//! `supercargo man`: manual pages of the program and each command, generated from the command line
//! definition. Contacts no API server.

use crate::screen::{complain, say};
use clap::{Args, Command};
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

/// Returns the commands of a program that have a page, with the names of their pages.
pub fn pages(mut program: Command) -> Vec<(String, Command)> {
    fn add(name: String, command: Command, pages: &mut Vec<(String, Command)>) {
        // The usage line shows the command as typed; the page's name joins the words with dashes.
        let command = command.bin_name(name.replace('-', " ")).display_name(name.clone());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            add(format!("{name}-{}", inner.get_name()), inner.clone(), pages);
        }
        pages.push((name, command));
    }
    let mut pages = Vec::new();
    program.build();
    add("supercargo".to_owned(), program, &mut pages);
    pages.sort_by(|a, b| a.0.cmp(&b.0));
    pages
}

/// Formats a page in roff, as `man` reads it.
pub fn page(name: &str, command: Command) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command)
        .title(name.to_uppercase())
        .source(format!("supercargo {version}"))
        .manual("supercargo");
    let mut text = Vec::new();
    man.render(&mut text).expect("writing to memory cannot fail");
    text
}

/// Writes the pages to a folder, which is created if it is missing. Returns the number of pages.
///
/// # Errors
/// Fails if the folder cannot be written.
pub fn write(program: Command, dir: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    let pages = pages(program);
    let count = pages.len();
    for (name, command) in pages {
        std::fs::write(dir.join(format!("{name}.1")), page(&name, command))?;
    }
    Ok(count)
}

/// Runs the command: writes or prints the pages of a program. Returns 2 if the folder cannot be written.
pub fn main(args: &ManArgs, program: Command) -> ExitCode {
    let Some(dir) = &args.dir else {
        let (name, command) = pages(program).into_iter().next().expect("the program's own page comes first");
        let text = page(&name, command);
        return say(&String::from_utf8_lossy(&text), 0);
    };
    match write(program, dir) {
        Ok(pages) => say(
            &format!("{} in {}\n", count(pages, "page"), crate::screen::plain(&dir.display().to_string())),
            0,
        ),
        Err(error) => {
            complain(&format!(
                "error: cannot write to {}: {error}; give another folder with --dir",
                dir.display()
            ));
            ExitCode::from(BAD_INPUT)
        }
    }
}
