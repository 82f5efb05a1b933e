//! Compares the program's verdict on command lines with the real kube-scheduler's.
//!
//! `fixtures/flags/command-lines.jsonl` has the command lines and the verdicts, which `fixtures/flags/record.sh`
//! records. Both programs run in a folder with the files of `fixtures/flags/files`, and with certificates and keys.

use super::offline::{Folder, assert_matches_file, page};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use supercargo_config::flags::table::{Effect, FLAGS};

/// Command lines with another verdict than kube-scheduler's, each with the reason. FIDELITY.md has them, too.
const DIFFERENT: [(&str, &str); 5] = [
    ("lease duration below the renew deadline", ELECTION),
    ("renew deadline equal to the lease duration", ELECTION),
    ("renew deadline below the retry period", ELECTION),
    ("negative renew deadline", ELECTION),
    (
        "hidden metrics of this version",
        "until the API server answers, 1.37 may be the version, whose previous one is 1.36",
    ),
];

/// kube-scheduler compares the durations only after it has listed the cluster, and then ends.
const ELECTION: &str = "leader election is checked before the start";

#[derive(Debug)]
struct Row {
    name: String,
    args: Vec<String>,
    verdict: String,
    messages: Vec<String>,
}

fn rows() -> Vec<Row> {
    let text = super::read(&super::root().join("tests/fixtures/flags/command-lines.jsonl"));
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.map(|item| item.as_str().expect("a text").to_owned()).collect()
    };
    let row = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("it is JSON");
        Row {
            name: value["name"].as_str().expect("a name").to_owned(),
            args: texts(&value["args"]),
            verdict: value["verdict"].as_str().expect("record.sh has run").to_owned(),
            messages: texts(&value["messages"]),
        }
    };
    text.lines().map(row).collect()
}

/// The folder in which the command lines are run.
fn folder() -> Folder {
    let folder = Folder::new();
    let files = super::root().join("tests/fixtures/flags/files");
    for file in std::fs::read_dir(files).expect("the folder is there") {
        let path = file.expect("it can be listed").path();
        folder.write(&path.file_name().expect("a file").to_string_lossy(), &super::read(&path));
    }
    for name in ["tls", "other", "ca"] {
        let pair = rcgen::generate_simple_self_signed([name.to_owned()]).expect("there is chance");
        folder.write(&format!("{name}.crt"), &pair.cert.pem());
        folder.write(&format!("{name}.key"), &pair.signing_key.serialize_pem());
    }
    folder
}

/// Runs the program under kube-scheduler's name until it starts or ends. Returns the verdict and standard error.
fn verdict(folder: &Folder, args: &[String]) -> (&'static str, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.arg0("kube-scheduler").args(args).current_dir(folder.path());
    command.env_remove("KUBECONFIG").env("HOME", folder.path()).env_remove("RUST_LOG");
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program is built");
    let mut said = String::new();
    let stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
    for line in stderr.lines().map_while(Result::ok) {
        said.push_str(&line);
        said.push('\n');
        // The message of a line in either log format.
        if line.contains(" starting version=") || line.contains("\"message\":\"starting\"") {
            // It may have ended at once.
            let _ = child.kill();
            let _ = child.wait();
            return ("accepted", said);
        }
    }
    let code = child.wait().expect("it ends").code();
    match code {
        Some(0) => ("prints", said),
        Some(1 | 2) => ("refused", said),
        other => panic!("{args:?} ended with {other:?}: {said}"),
    }
}

/// Returns the flags that a text names.
fn flags_in(text: &str) -> BTreeSet<&str> {
    let names = text.split("--").skip(1).map(|rest| {
        let end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn command_lines_get_kube_schedulers_verdict() {
    let rows = rows();
    let folder = folder();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((names.len(), rows.len() >= 60), (rows.len(), true), "names are unique");
    let mut wrong = Vec::new();
    for Row { name, args, verdict: expected, messages } in &rows {
        let (got, said) = verdict(&folder, args);
        let differs = DIFFERENT.iter().any(|(different, _)| different == name);
        if (got == expected.as_str()) == differs {
            wrong.push(format!("{name}: {args:?} is {got}, not {expected} with {messages:?}: {said}"));
            continue;
        }
        // Where both refuse, every flag that kube-scheduler names is named.
        let upstream: BTreeSet<&str> = messages.iter().flat_map(|message| flags_in(message)).collect();
        let missing: Vec<_> = upstream.into_iter().filter(|flag| !flags_in(&said).contains(flag)).collect();
        if got == "refused" && !differs && !missing.is_empty() {
            wrong.push(format!("{name}: {args:?} does not name {missing:?}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// All wrong flags are named, where kube-scheduler names the first.
#[test]
fn all_wrong_flags_of_a_line_are_named() {
    let folder = folder();
    let line = "--foo --port=0 --profiling=maybe --secure-port=70000 --tls-min-version=1.2 --requestheader-uid-headers=X";
    let (got, said) = verdict(&folder, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(got, "refused");
    for flag in ["foo", "port", "profiling", "secure-port", "tls-min-version", "requestheader-uid-headers"] {
        assert!(flags_in(&said).contains(flag), "{flag}: {said}");
    }
    assert!(said.starts_with("error: 6 flags or arguments are wrong:"), "{said}");
}

/// A flag that is accepted without an effect is in the log.
#[test]
fn every_flag_without_effect_is_logged_once() {
    let folder = folder();
    let flags = [
        "--vmodule=a=1",
        "--kube-api-burst=9",
        "--kube-api-qps=7",
        "--log-flush-frequency=1s",
        "--feature-gates=MemoryQoS=true",
    ];
    let line = [&["--kubeconfig=kubeconfig", "--secure-port=0"][..], &flags].concat();
    let (got, said) = verdict(&folder, &line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(got, "accepted");
    for flag in &flags[..4] {
        let name = flag.trim_start_matches("--").split('=').next().unwrap_or_default();
        let lines = said.lines().filter(|line| line.contains(&format!("flag=\"{name}\"")));
        assert_eq!(
            lines.filter(|line| line.contains("this flag has no effect")).count(),
            1,
            "{name}: {said}"
        );
    }
    assert_eq!(said.matches("MemoryQoS=true").count(), 1, "{said}");
}

/// As kube-scheduler, which then does not generate one.
#[test]
fn certificate_in_the_directory_of_cert_dir_is_used() {
    let folder = folder();
    let line = ["--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", "--cert-dir=."].map(str::to_owned);
    let (got, said) = verdict(&folder, &line);
    assert!(got == "accepted" && said.contains("--cert-dir has no kube-scheduler.crt"), "{said}");
    folder.write("kube-scheduler.crt", "This is no certificate.");
    folder.write("kube-scheduler.key", "This is no key.");
    let (got, said) = verdict(&folder, &line);
    assert!(got == "refused" && said.contains("kube-scheduler.crt as a serving certificate"), "{said}");
}

/// The table of docs/flags.md; `UPDATE_EXPECT=1` writes it.
#[test]
fn flags_page_has_every_flag_with_its_effect() {
    const PAGE: &str = "docs/flags.md";
    const HEAD: &str = "| Flag | Default | Effect |\n|---|---|---|\n";
    let page = page(PAGE);
    let (before, _) = page.split_once(HEAD).expect("the page has the table, at its end");
    let mut table = String::new();
    let mut flags: Vec<_> = FLAGS.iter().filter(|flag| !flag.help.is_empty()).collect();
    flags.sort_by_key(|flag| flag.name);
    for flag in flags {
        let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
        let help = flag.help.replace('|', "\\|");
        let effect = match flag.effect {
            Effect::Works => help,
            Effect::None(why) => format!("No effect: {why}"),
        };
        table.push_str(&format!("| `--{}` | {default} | {effect} |\n", flag.name));
    }
    assert_matches_file(PAGE, &format!("{before}{HEAD}{table}"));
}
