//! `config diff`: compares the effective settings of two files.

use crate::commands::config::Answer;
use std::fmt::Write as _;
use std::path::Path;
use supercargo_config::{ConfigError, Effective, Flags};

/// Exit code if the settings differ.
const DIFFERENT: u8 = 1;

pub(super) fn answer(before: &Path, after: &Path) -> Answer {
    // Settings that this version does not support can still be compared.
    let read = |file: &Path| Effective::load(file, &Flags::default());
    match (read(before), read(after)) {
        (Ok(before), Ok(after)) => compare(&before, &after),
        (before, after) => {
            let errors: Vec<ConfigError> = [before.err(), after.err()].into_iter().flatten().collect();
            Answer::bad_input(errors.iter().map(|error| format!("{error}\n")).collect())
        }
    }
}

/// Writes one line per setting: `field: before -> after`, with `-` for a side without the setting.
fn compare(before: &Effective, after: &Effective) -> Answer {
    let mut out = String::new();
    for difference in before.differences(after) {
        let side = |value: &Option<String>| match value.as_deref() {
            None => "-".to_owned(),
            Some("") => "\"\"".to_owned(),
            Some(value) => value.to_owned(),
        };
        let restart = if difference.needs_restart() { " (needs a restart)" } else { "" };
        let (a, b) = (side(&difference.before), side(&difference.after));
        let _ = writeln!(out, "{}: {a} -> {b}{restart}", difference.field);
    }
    let code = if out.is_empty() { 0 } else { DIFFERENT };
    Answer { out, err: String::new(), code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(before: &str, after: &str) -> Answer {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = |name: &str, rest: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{head}{rest}")).expect("it can be written");
            path
        };
        answer(&file("a", before), &file("b", after))
    }

    #[test]
    fn equal_settings_exit_with_0() {
        let answer = answer_of("", "parallelism: 16 # the default\n");
        assert_eq!(answer, Answer { out: String::new(), err: String::new(), code: 0 });
    }

    #[test]
    fn each_different_setting_is_one_line() {
        let answer = answer_of(
            "parallelism: 4\n",
            "podMaxBackoffSeconds: 60\nclientConnection: {acceptContentTypes: x}\n",
        );
        let expected = "\
clientConnection.acceptContentTypes: \"\" -> x (needs a restart)
parallelism: 4 -> 16 (needs a restart)
podMaxBackoffSeconds: 10 -> 60
";
        assert_eq!((answer.out.as_str(), answer.code), (expected, 1));
    }

    #[test]
    fn problems_of_both_files_are_reported() {
        let answer = answer_of("foo: 1\n", "parallelism: 0\n");
        assert!(
            answer.err.contains("/a:3:1: foo: ") && answer.err.contains("/b:3:1: parallelism: "),
            "{}",
            answer.err
        );
        assert_eq!(answer.code, 2);
    }
}
