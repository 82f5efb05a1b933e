//! `supercargo completion`: what a shell needs to complete command lines. Asks nobody and changes nothing.

use super::cluster::say;
use crate::args::Args as Line;
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Shell, generate};
use std::process::ExitCode;

/// For which shell.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: KnownShell,
}

/// The shells there are scripts for, as kubectl has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KnownShell {
    /// For `source <(supercargo completion bash)`.
    Bash,
    /// For a file `_supercargo` on the path of functions.
    Zsh,
    /// For `supercargo completion fish | source`.
    Fish,
}

/// The shell's script.
fn script(shell: KnownShell) -> String {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Line::command(), "supercargo", &mut script);
    String::from_utf8(script).expect("scripts are text")
}

/// Writes the script; 1 where nobody takes it.
pub fn main(args: CompletionArgs) -> ExitCode {
    say(&script(args.shell), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_and_command_is_completed_by_every_shell() {
        let command = Line::command();
        let flags: Vec<_> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        let commands: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(flags.len() > 20 && commands.contains(&"completion"));
        for shell in KnownShell::value_variants() {
            let script = script(*shell);
            let missing: Vec<_> =
                flags.iter().chain(&commands).filter(|word| !script.contains(**word)).collect();
            assert!(missing.is_empty(), "{shell:?}: {missing:?}");
        }
    }
}
