//! `supercargo completion`: shell completion scripts, and the answers that they ask the program for. Changes nothing.
//!
//! Flags and commands come from the command line definition, and names from the cluster (`live::candidates`).

use crate::live::candidates;
use crate::screen::{plain, say};
use clap::{Args, Command, ValueEnum};
use clap_complete::CompletionCandidate;
use clap_complete::engine::complete;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use std::ffi::OsString;
use std::process::ExitCode;

/// Variable that makes the program complete a command line: its value is the shell. The scripts set it.
const VARIABLE: &str = "SUPERCARGO_COMPLETE";
/// Hidden command that completes a command line for kubectl, as cobra's programs do.
const COBRA: &str = "__complete";
/// Cobra's directives: no blank after the word, and no names of files beside the candidates.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

/// The program that kubectl runs to complete the words of `kubectl supercargo`.
const KUBECTL: &str = "#!/bin/sh
# Completes `kubectl supercargo`. Save it as kubectl_complete-supercargo, executable, in a folder of PATH.
exec kubectl-supercargo __complete \"$@\"
";

/// Arguments of `supercargo completion`.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionArgs {
    /// Shell to generate the script for, or `kubectl` for the program that completes `kubectl supercargo`.
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
    /// Save as `kubectl_complete-supercargo`, executable, in a folder of `$PATH`.
    Kubectl,
}

impl KnownShell {
    fn completer(self) -> Option<&'static dyn EnvCompleter> {
        match self {
            Self::Bash => Some(&Bash),
            Self::Zsh => Some(&Zsh),
            Self::Fish => Some(&Fish),
            Self::Kubectl => None,
        }
    }
}

/// Returns the completion script for a shell. It runs the program for each completion.
pub fn script(shell: KnownShell) -> String {
    let Some(completer) = shell.completer() else { return KUBECTL.to_owned() };
    let mut script = Vec::new();
    let written =
        completer.write_registration(VARIABLE, "supercargo", "supercargo", "supercargo", &mut script);
    written.expect("writing to memory cannot fail");
    String::from_utf8(script).expect("scripts are text")
}

/// Runs the command: prints the script. Returns 1 if it cannot be written.
pub fn main(args: CompletionArgs) -> ExitCode {
    say(&script(args.shell), 0)
}

/// Completes a command line if a shell or kubectl asks for it, and returns the exit code. Prints no errors: they would
/// end up in the line that is being typed.
pub fn answered(words: &[OsString], program: impl FnOnce() -> Command) -> Option<ExitCode> {
    if words.get(1).is_some_and(|word| word == COBRA) {
        let line: Vec<OsString> = words[..1].iter().chain(&words[2..]).cloned().collect();
        return Some(say(&for_kubectl(program(), line), 0));
    }
    let shell = std::env::var(VARIABLE).ok().filter(|_| words.get(1).is_some_and(|word| word == "--"))?;
    let line = words[2..].to_vec();
    let completer = KnownShell::from_str(&shell, false).ok().and_then(KnownShell::completer);
    let Some(completer) = completer.filter(|_| !line.is_empty()) else { return Some(ExitCode::FAILURE) };
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
    let index: usize = index.unwrap_or(line.len() - 1);
    let mut program = prepared(program(), &line, index);
    let mut answer = Vec::new();
    let folder = std::env::current_dir().ok();
    if completer.write_complete(&mut program, line, folder.as_deref(), &mut answer).is_err() {
        return Some(ExitCode::FAILURE);
    }
    // Bash and zsh separate candidates by a control character.
    let text = String::from_utf8_lossy(&answer).into_owned();
    Some(say(&text, 0))
}

/// Returns the definition to complete with. Flags are candidates only once a dash is typed, as in kubectl, or if there
/// is nothing else.
fn prepared(program: Command, line: &[OsString], index: usize) -> Command {
    candidates::remember(line);
    let has_dash = line.get(index).is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    if has_dash { program } else { without_flags(program) }
}

fn without_flags(command: Command) -> Command {
    let command = command.mut_args(|arg| if arg.is_positional() { arg } else { arg.hide(true) });
    command.disable_help_flag(true).disable_version_flag(true).mut_subcommands(without_flags)
}

/// Returns the candidates for the last word of a line, each with its description, and cobra's directive.
pub fn for_kubectl(program: Command, line: Vec<OsString>) -> String {
    let index = line.len() - 1;
    let mut program = prepared(program, &line, index);
    let folder = std::env::current_dir().ok();
    let candidates = complete(&mut program, line, index, folder.as_deref()).unwrap_or_default();
    let mut out = String::new();
    for candidate in &candidates {
        out.push_str(&plain(&candidate.get_value().to_string_lossy()));
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some(help) = help.lines().next().filter(|help| !help.is_empty()) {
            out.push('\t');
            out.push_str(&plain(help));
        }
        out.push('\n');
    }
    let goes_on = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().as_encoded_bytes();
        value.ends_with(b"/") || value.ends_with(b"=")
    };
    let is_part = !candidates.is_empty() && candidates.iter().all(goes_on);
    out.push_str(&format!(":{}\n", if is_part { NO_FILES | NO_SPACE } else { NO_FILES }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::queue::QueueArgs;

    fn program() -> Command {
        let queue = QueueArgs::augment_args(Command::new("queue")).about("List pods.\n\nMore.");
        Command::new("supercargo").subcommand(queue).arg(clap::Arg::new("flag").long("flag"))
    }

    fn completed(words: &[&str]) -> String {
        let line = std::iter::once("supercargo").chain(words.iter().copied());
        for_kubectl(program(), line.map(OsString::from).collect())
    }

    #[test]
    fn commands_come_with_their_description_and_flags_after_a_dash() {
        assert_eq!(completed(&["q"]), "queue\tList pods.\n:4\n");
        assert_eq!(completed(&["--f"]), "--flag\n:4\n");
        let flags = completed(&["queue", "--all"]);
        assert!(flags.starts_with("--all-namespaces\tList pods of all namespaces"), "{flags}");
        assert_eq!(completed(&["queue", "-o", "ya"]), "yaml\tThe same object in YAML\n:4\n");
        // Tests run in the folder of the package.
        assert_eq!(completed(&["queue", "-f", "Carg"]), "Cargo.toml\n:4\n");
    }

    #[test]
    fn scripts_run_the_program() {
        for (shell, part) in [
            (KnownShell::Bash, "SUPERCARGO_COMPLETE=\"bash\""),
            (KnownShell::Zsh, "SUPERCARGO_COMPLETE=\"zsh\""),
            (KnownShell::Fish, "SUPERCARGO_COMPLETE=fish"),
            (KnownShell::Kubectl, "exec kubectl-supercargo __complete \"$@\""),
        ] {
            let script = script(shell);
            assert!(script.contains(part), "{script}");
        }
    }
}
