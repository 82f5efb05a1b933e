//! `supercargo completion`: shell completion scripts. Contacts no API server and changes nothing.

use super::cluster::say;
use crate::args::Args as Line;
use clap::{Args, CommandFactory as _, ValueEnum};
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

/// Returns the completion script of a shell.
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

/// Runs the command: prints the script. Returns 1 if it cannot be written.
pub fn main(args: CompletionArgs) -> ExitCode {
    say(&script(args.shell), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_scripts_contain_all_flags_and_commands() {
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
