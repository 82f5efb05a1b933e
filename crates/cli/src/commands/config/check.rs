//! `config check`: prints the problems of a file, each with its line and a caret.

use crate::commands::config::Answer;
use std::fmt::Write as _;
use std::path::Path;
use supercargo_config::{ConfigError, Effective, Flags, Problem, Settings};
use supercargo_whatif::explain::format::count;

/// Maximum number of columns shown of a line.
const WIDTH: usize = 120;

pub(super) fn answer(file: &Path) -> Answer {
    let text = match supercargo_config::yaml::file::read(file) {
        Ok(text) => text,
        Err(source) => {
            let error = ConfigError::Read { path: file.to_owned(), source };
            return Answer::bad_input(format!("{error}\n"));
        }
    };
    judge(file, &text)
}

/// Checks a text; `file` is used only in messages.
pub(super) fn judge(file: &Path, text: &str) -> Answer {
    let settings = Effective::parse(file, text, &Flags::default()).and_then(|it| Settings::of(&it));
    match settings {
        Ok(settings) => {
            let names: Vec<&str> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
            let noun = if names.len() == 1 { "profile" } else { "profiles" };
            let out = format!("{}: valid, with {noun} {}\n", file.display(), names.join(", "));
            Answer { out, err: String::new(), code: 0 }
        }
        Err(ConfigError::Invalid { problems, .. }) => {
            let mut output = String::new();
            for problem in &problems {
                show(file, text, problem, &mut output);
            }
            let _ = writeln!(output, "{}: {}", file.display(), count(problems.len(), "problem"));
            Answer::bad_input(output)
        }
        Err(error @ ConfigError::Read { .. }) => Answer::bad_input(format!("{error}\n")),
    }
}

/// Writes a problem, its line and a caret below.
pub(crate) fn show(file: &Path, text: &str, problem: &Problem, output: &mut String) {
    let colon = if problem.place.is_some() { ":" } else { ": " };
    let _ = writeln!(output, "{}{colon}{problem}", file.display());
    let meant = problem.meant.as_ref().map(|meant| format!("did you mean {meant:?}?"));
    let line = problem.place.and_then(|place| Some((place, text.lines().nth(place.line.checked_sub(1)?)?)));
    let Some((place, line)) = line else {
        if let Some(meant) = meant {
            let _ = writeln!(output, "  {meant}");
        }
        return;
    };
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let (shown, caret) = excerpt(line, place.column);
    let _ = writeln!(output, "{margin} |\n{number} | {shown}");
    let word = format!("{margin} | {}^ {}", " ".repeat(caret), meant.unwrap_or_default());
    let _ = writeln!(output, "{}", word.trim_end());
}

/// Returns the part of a line that is shown, and the columns before the caret. Control characters would move
/// the caret and become spaces.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    let line: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let at = column.saturating_sub(1).min(line.len());
    let start = if at < WIDTH { 0 } else { at - WIDTH / 2 };
    let end = (start + WIDTH).min(line.len());
    let mut shown: String = line[start..end].iter().collect();
    let mut caret = at - start;
    if start > 0 {
        shown.insert_str(0, "...");
        caret += 3;
    }
    if end < line.len() {
        shown.push_str("...");
    }
    (shown.trim_end().to_owned(), caret)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    fn answer_of(rest: &str) -> Answer {
        let election = "leaderElection: {leaderElect: false}\n";
        judge(Path::new("f.yaml"), &format!("{HEAD}{election}{rest}"))
    }

    #[test]
    fn misspelt_field_is_shown_with_its_line_and_a_suggestion() {
        let expected = "\
f.yaml:4:1: podInitialBackofSeconds: strict decoding error: unknown field \"podInitialBackofSeconds\"
  |
4 | podInitialBackofSeconds: 3
  | ^ did you mean \"podInitialBackoffSeconds\"?
f.yaml: 1 problem
";
        assert_eq!(answer_of("podInitialBackofSeconds: 3\n"), Answer::bad_input(expected.to_owned()));
    }

    #[test]
    fn plugin_names_values_and_arguments_get_suggestions() {
        for (rest, meant) in [
            ("profiles: [{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]\n", "NodeResourcesFit"),
            ("profiles: [{plugins: {multiPoint: {enabled: [{name: imagelocality}]}}}]\n", "ImageLocality"),
            (
                "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: list}}]}]\n",
                "List",
            ),
            (
                "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSecond: 5}}]}]\n",
                "bindTimeoutSeconds",
            ),
        ] {
            let answer = answer_of(rest);
            assert!(answer.err.contains(&format!("^ did you mean {meant:?}?\n")), "{}", answer.err);
            assert_eq!(answer.code, 2);
        }
    }

    #[test]
    fn all_problems_are_reported_and_absent_fields_have_no_line() {
        let answer = answer_of("parallelism: 0\npodInitialBackoffSeconds: 99\n");
        let expected = "\
f.yaml:4:1: parallelism: Invalid value: 0: should be an integer value greater than zero
  |
4 | parallelism: 0
  | ^
f.yaml: podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds
f.yaml: 2 problems
";
        assert_eq!(answer.err, expected);
    }

    #[test]
    fn long_line_is_cut_around_the_caret() {
        let line = format!("{}x: 1", "a".repeat(300));
        let (shown, caret) = excerpt(&line, 301);
        assert!(shown.len() < 130, "{shown}");
        assert_eq!(shown.chars().nth(caret), Some('x'));
        assert_eq!(excerpt("a\tb", 3), ("a b".to_owned(), 2));
        assert_eq!(excerpt("ab", 40), ("ab".to_owned(), 2));
    }

    #[test]
    fn valid_file_is_reported_with_its_profiles() {
        let answer = answer_of("profiles: [{schedulerName: a}, {schedulerName: b}]\n");
        assert_eq!((answer.out.as_str(), answer.code), ("f.yaml: valid, with profiles a, b\n", 0));
        assert_eq!(answer.err, "");
    }
}
