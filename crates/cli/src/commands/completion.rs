//! `supercargo completion`: shell completion scripts. Contacts no API server and changes nothing.

use crate::screen::say;
use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};
use std::process::ExitCode;

/// Arguments of `supercargo completion`.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionArgs {
    /// Shell to generate the script for.
    #[arg(value_name = "SHELL")]
    pub shell: KnownShell,
}

/// Supported shells, named as in `kubectl completion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KnownShell {
    /// Load with `source <(supercargo completion bash)`.
    Bash,
    /// Save as `_supercargo` in a folder of `$fpath`.
    Zsh,
    /// Load with `supercargo completion fish | source`.
    Fish,
}

/// Returns the completion script of a program for a shell.
pub fn script(shell: KnownShell, program: &mut Command) -> String {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, program, "supercargo", &mut script);
    String::from_utf8(script).expect("scripts are text")
}

/// Runs the command: prints the script. Returns 1 if it cannot be written.
pub fn main(args: CompletionArgs, program: &mut Command) -> ExitCode {
    say(&script(args.shell, program), 0)
}
