//! Splits a command line into flags as pflag does, and finds all that is wrong with it.
//!
//! Upstream: `spf13/pflag/flag.go`, which stops at the first mistake; the messages are its own.

use super::kind::Kind;
use super::table::{FLAGS, REMOVED, find};
use super::values::Values;
use crate::yaml::nearest;
use std::ffi::OsString;

/// A flag that kube-scheduler does not have.
#[derive(Clone, Copy, Debug)]
pub struct OwnFlag<'a> {
    /// The name without hyphens.
    pub name: &'a str,
    /// Whether it takes a value.
    pub takes_value: bool,
}

/// What a command line asks for instead of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The help, in its short form for `-h`.
    Help {
        /// Whether it was `-h`.
        short: bool,
    },
    /// The version, with all details for `--version=raw`.
    Version {
        /// Whether it was `--version=raw`.
        raw: bool,
    },
}

/// A command line, split into flags.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// Values of kube-scheduler's flags.
    pub values: Values,
    /// Arguments `--NAME=VALUE` for flags of our own.
    pub own: Vec<String>,
    /// Words that are not flags.
    pub words: Vec<String>,
    /// Whether help or the version is requested.
    pub request: Option<Request>,
    /// The version to report, of `--version=v1.36.3-vendor`.
    pub reported_version: Option<String>,
    /// What is wrong, in the order of the command line.
    pub problems: Vec<String>,
}

/// The value that a flag has on the command line.
enum Given<'a> {
    Value(&'a str),
    Missing,
}

impl CommandLine {
    /// Reads arguments, without the name of the program.
    pub fn read(arguments: &[OsString], own: &[OwnFlag<'_>]) -> Self {
        let mut line = Self::default();
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        for (argument, _) in arguments.iter().zip(&words).filter(|(argument, _)| argument.to_str().is_none())
        {
            line.problems.push(format!("argument {argument:?} is not valid UTF-8"));
        }
        let mut rest = words.as_slice();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if word == "--" {
                line.words.extend(rest.iter().cloned());
                break;
            }
            rest = match word.strip_prefix("--") {
                Some(flag) => line.long(word, flag, rest, own),
                None if word.starts_with('-') && word.len() > 1 => line.short(&word[1..], rest),
                None => {
                    line.words.push(word.clone());
                    rest
                }
            };
        }
        if let (Some(reported), Some(emulated)) = (&line.reported_version, line.values.emulated_version())
            && let Err(why) = super::version::reported(reported, Some(emulated))
        {
            let reported = reported.clone();
            line.invalid("version", &reported, &why);
        }
        line
    }

    /// Reads `--NAME`, `--NAME=VALUE` or `--NAME VALUE`. Returns the words that follow.
    fn long<'a>(
        &mut self,
        word: &str,
        flag: &'a str,
        rest: &'a [String],
        own: &[OwnFlag<'_>],
    ) -> &'a [String] {
        if flag.starts_with(['-', '=']) {
            self.problems.push(format!("bad flag syntax: {word}"));
            return rest;
        }
        let (written, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let name = written.replace('_', "-");
        let value = value.map(Given::Value);
        if let Some(known) = find(&name) {
            let (given, rest) = taken(value, known.kind == Kind::Bool, rest);
            match given {
                Given::Value(value) => self.set(known.name, value),
                Given::Missing => self.problems.push(format!("flag needs an argument: --{written}")),
            }
            return rest;
        }
        if matches!(name.as_str(), "help" | "version") {
            let (Given::Value(value), rest) = taken(value, true, rest) else { return rest };
            self.global(&name, value);
            return rest;
        }
        if let Some(flag) = own.iter().find(|flag| flag.name == name) {
            if !flag.takes_value {
                let value =
                    if let Some(Given::Value(value)) = value { format!("={value}") } else { String::new() };
                self.own.push(format!("--{name}{value}"));
                return rest;
            }
            let (given, rest) = taken(value, false, rest);
            match given {
                Given::Value(value) => self.own.push(format!("--{name}={value}")),
                Given::Missing => self.problems.push(format!("flag needs an argument: --{written}")),
            }
            return rest;
        }
        self.problems.push(unknown(written, &name, own));
        // The next word is probably its value.
        match rest {
            [next, after @ ..] if value.is_none() && !next.starts_with('-') => after,
            _ => rest,
        }
    }

    /// Reads flags of one letter, such as `-v2`. Returns the words that follow.
    fn short<'a>(&mut self, letters: &'a str, mut rest: &'a [String]) -> &'a [String] {
        let mut left = letters;
        while let Some(letter) = left.chars().next() {
            let after = &left[letter.len_utf8()..];
            match letter {
                'v' => {
                    let joined = after.strip_prefix('=').filter(|value| !value.is_empty()).unwrap_or(after);
                    let joined = Some(joined).filter(|value| !value.is_empty()).map(Given::Value);
                    let (given, follow) = taken(joined, false, rest);
                    rest = follow;
                    match given {
                        Given::Value(value) => self.set("v", value),
                        Given::Missing => {
                            self.problems.push(format!("flag needs an argument: 'v' in -{left}"));
                        }
                    }
                    return rest;
                }
                'h' => {
                    let value = after.strip_prefix('=').filter(|value| !value.is_empty());
                    self.global("h", value.unwrap_or("true"));
                    if value.is_some() {
                        return rest;
                    }
                }
                _ => {
                    self.problems.push(format!("unknown shorthand flag: {letter:?} in -{left}"));
                    return rest;
                }
            }
            left = after;
        }
        rest
    }

    /// Sets a flag of kube-scheduler, if the value has its type.
    fn set(&mut self, name: &'static str, value: &str) {
        let Some(flag) = find(name) else { return };
        match flag.kind.read(value) {
            Ok(value) => self.values.set(flag, value),
            Err(why) => self.invalid(if name == "v" { "-v, --v" } else { name }, value, &why),
        }
    }

    /// Sets `--help`, `-h` or `--version`.
    fn global(&mut self, name: &str, value: &str) {
        if name == "version" && value == "raw" {
            self.request.get_or_insert(Request::Version { raw: true });
            return;
        }
        if name == "version" && value.starts_with('v') {
            match super::version::reported(value, None) {
                Ok(()) => self.reported_version = Some(value.to_owned()),
                Err(why) => self.invalid(name, value, &why),
            }
            return;
        }
        match (name, Kind::Bool.read(value).as_deref()) {
            ("version", Ok("true")) => {
                self.request.get_or_insert(Request::Version { raw: false });
            }
            (_, Ok("true")) => self.request = Some(Request::Help { short: name == "h" }),
            (_, Ok(_)) => self.request = None,
            (_, Err(why)) => self.invalid(if name == "h" { "-h, --help" } else { name }, value, why),
        }
    }

    fn invalid(&mut self, name: &str, value: &str, why: &str) {
        let name = if name.starts_with('-') { name.to_owned() } else { format!("--{name}") };
        self.problems.push(format!("invalid argument {value:?} for \"{name}\" flag: {why}"));
    }
}

/// Returns the value of a flag, and the words that follow it. A boolean's value is never the next word.
fn taken<'a>(value: Option<Given<'a>>, is_bool: bool, rest: &'a [String]) -> (Given<'a>, &'a [String]) {
    match (value, rest.split_first()) {
        (Some(value), _) => (value, rest),
        (None, _) if is_bool => (Given::Value("true"), rest),
        (None, Some((next, after))) => (Given::Value(next), after),
        (None, None) => (Given::Missing, rest),
    }
}

/// Describes an unknown flag, with what replaced it or the closest known name.
fn unknown(written: &str, name: &str, own: &[OwnFlag<'_>]) -> String {
    if let Some((_, advice)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        return format!("unknown flag: --{written} (removed from kube-scheduler; {advice})");
    }
    let known = FLAGS.iter().map(|flag| flag.name).chain(own.iter().map(|flag| flag.name));
    match nearest(name, known) {
        Some(similar) => format!("unknown flag: --{written} (similar: --{similar})"),
        None => format!("unknown flag: --{written}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [OwnFlag<'static>; 2] = [
        OwnFlag { name: "verify-decisions", takes_value: true },
        OwnFlag { name: "allow-second-default-scheduler", takes_value: false },
    ];

    fn read(words: &[&str]) -> CommandLine {
        CommandLine::read(&words.iter().map(OsString::from).collect::<Vec<_>>(), &OWN)
    }

    #[test]
    fn values_follow_an_equals_sign_or_a_space_and_the_last_one_counts() {
        let line = read(&["--config", "a", "--config=b", "--secure_port", "0x10", "-v", "1", "-v=2", "-v3"]);
        assert_eq!(line.problems, [""; 0]);
        assert_eq!((line.values.text("config"), line.values.text("secure-port")), ("b", "16"));
        assert_eq!(line.values.text("v"), "3");
    }

    #[test]
    fn all_mistakes_are_found() {
        let line = read(&[
            "--foo",
            "value",
            "--profiling=maybe",
            "--leader-elec=false",
            "--port=0",
            "-x",
            "--kube-api-burst",
            "many",
            "---a",
            "--verify-decisions=9",
            "--config",
        ]);
        let expected = [
            "unknown flag: --foo",
            "invalid argument \"maybe\" for \"--profiling\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            "unknown flag: --leader-elec (similar: --leader-elect)",
            "unknown flag: --port (removed from kube-scheduler; use --secure-port)",
            "unknown shorthand flag: 'x' in -x",
            "invalid argument \"many\" for \"--kube-api-burst\" flag: strconv.ParseInt: parsing \"many\": invalid syntax",
            "bad flag syntax: ---a",
            "flag needs an argument: --config",
        ];
        assert_eq!(line.problems, expected);
        assert_eq!(line.own, ["--verify-decisions=9"]);
    }

    #[test]
    fn words_that_are_no_flags_are_kept() {
        let line = read(&["--leader-elect", "false", "--profiling", "-", "--", "--config"]);
        assert_eq!(line.words, ["false", "-", "--config"]);
        assert_eq!((line.values.text("leader-elect"), line.problems.len()), ("true", 0));
    }

    #[test]
    fn help_and_version_are_requests() {
        for (words, request) in [
            (&["-h"][..], Some(Request::Help { short: true })),
            (&["--version", "--help"], Some(Request::Help { short: false })),
            (&["--help=false"], None),
            (&["--version"], Some(Request::Version { raw: false })),
            (&["--version=raw"], Some(Request::Version { raw: true })),
            (&["--version=false"], None),
        ] {
            assert_eq!(read(words).request, request, "{words:?}");
        }
        let line = read(&["--version=v1.36.3-acme", "--version=v1.99.0", "--version=full"]);
        assert_eq!(line.reported_version.as_deref(), Some("v1.36.3-acme"));
        assert_eq!(line.problems.len(), 2, "{:?}", line.problems);
    }
}
