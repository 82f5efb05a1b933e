//! `config check`: prints the problems of files, each with its line and a caret.

use crate::commands::config::{Answer, BAD_INPUT};
use crate::screen::{Output, in_form};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use supercargo_config::{ConfigError, Effective, Flags, Problem, Settings};
use supercargo_whatif::explain::format::count;

/// Maximum number of columns shown of a line.
const WIDTH: usize = 120;

/// `apiVersion` and `kind` of the report.
const API_VERSION: &str = "supercargo.dev/v1alpha1";
const KIND: &str = "ConfigCheck";

/// The results of several files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigCheck {
    api_version: &'static str,
    kind: &'static str,
    /// Whether all files are valid.
    valid: bool,
    /// The files, in the order of the command line.
    files: Vec<Checked>,
}

/// The result of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    file: String,
    valid: bool,
    /// Names of the profiles; empty if the file is invalid.
    profiles: Vec<String>,
    /// Why the file is invalid.
    problems: Vec<Told>,
    /// The same as text.
    #[serde(skip)]
    text: String,
}

/// A problem.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    /// Line and column from 1, in characters; absent for fields that are not in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// Path of the field; empty for the whole file.
    field: String,
    message: String,
    /// The closest known name.
    #[serde(skip_serializing_if = "Option::is_none")]
    did_you_mean: Option<String>,
}

pub(super) fn answer(files: &[PathBuf], output: Output) -> Answer {
    shown(files.iter().map(|file| check(file)).collect(), output)
}

fn shown(files: Vec<Checked>, output: Output) -> Answer {
    let valid = files.iter().all(|file| file.valid);
    let code = if valid { 0 } else { BAD_INPUT };
    if matches!(output, Output::Json | Output::Yaml) {
        let report = ConfigCheck { api_version: API_VERSION, kind: KIND, valid, files };
        return Answer { out: in_form(output, &report, |_| String::new()), err: String::new(), code };
    }
    let mut answer = Answer { out: String::new(), err: String::new(), code };
    for file in &files {
        (if file.valid { &mut answer.out } else { &mut answer.err }).push_str(&file.text);
    }
    answer
}

fn check(file: &Path) -> Checked {
    match supercargo_config::yaml::file::read(file) {
        Ok(text) => judge(file, &text),
        Err(source) => unread(file, &ConfigError::Read { path: file.to_owned(), source }),
    }
}

fn unread(file: &Path, error: &ConfigError) -> Checked {
    let message = format!("{error}; name a file with a KubeSchedulerConfiguration");
    let text = format!("{message}\n");
    let told = Told { line: None, column: None, field: String::new(), message, did_you_mean: None };
    Checked {
        file: file.display().to_string(),
        valid: false,
        profiles: Vec::new(),
        problems: vec![told],
        text,
    }
}

/// Checks a text; `file` is used only in messages.
fn judge(file: &Path, text: &str) -> Checked {
    let name = file.display().to_string();
    let settings = Effective::parse(file, text, &Flags::default()).and_then(|it| Settings::of(&it));
    match settings {
        Ok(settings) => {
            let profiles: Vec<String> =
                settings.profiles.iter().map(|profile| profile.name.clone()).collect();
            let noun = if profiles.len() == 1 { "profile" } else { "profiles" };
            let text = format!("{name}: valid, with {noun} {}\n", profiles.join(", "));
            Checked { file: name, valid: true, profiles, problems: Vec::new(), text }
        }
        Err(ConfigError::Invalid { problems, .. }) => {
            let mut shown = String::new();
            for problem in &problems {
                show(file, text, problem, &mut shown);
            }
            let _ = writeln!(shown, "{name}: {}", count(problems.len(), "problem"));
            let problems = problems.iter().map(told).collect();
            Checked { file: name, valid: false, profiles: Vec::new(), problems, text: shown }
        }
        Err(error @ ConfigError::Read { .. }) => unread(file, &error),
    }
}

fn told(problem: &Problem) -> Told {
    let place = problem.place;
    Told {
        line: place.map(|place| place.line),
        column: place.map(|place| place.column),
        field: problem.path.clone(),
        message: problem.text.clone(),
        did_you_mean: problem.meant.clone(),
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
        let checked = judge(Path::new("f.yaml"), &format!("{HEAD}{election}{rest}"));
        shown(vec![checked], Output::Table)
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

    #[test]
    fn json_has_all_files_with_their_problems() {
        let good = judge(Path::new("good"), HEAD);
        let bad = judge(Path::new("bad"), &format!("{HEAD}fooo: 0\nfoo: 1\n"));
        let answer = shown(vec![good, bad], Output::Json);
        let report: serde_json::Value = serde_json::from_str(&answer.out).expect("JSON");
        assert_eq!((answer.code, &report["valid"], answer.err.as_str()), (2, &false.into(), ""));
        assert_eq!(report["files"][0]["profiles"], serde_json::json!(["default-scheduler"]));
        let problems = report["files"][1]["problems"].as_array().expect("a list");
        assert_eq!(problems.len(), 2);
        let unknown = problems.iter().find(|it| it["field"] == "foo").expect("it is unknown");
        assert_eq!((&unknown["line"], &unknown["column"]), (&4.into(), &1.into()));
    }
}
