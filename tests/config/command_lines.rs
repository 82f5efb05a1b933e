//! Compares the program's verdict on command lines with the real kube-scheduler's.
//!
//! `fixtures/flags/command-lines.jsonl` has the command lines and each version's verdicts, which
//! `fixtures/flags/record.sh` records. Both programs run in a folder with the files of `fixtures/flags/files`, and
//! with certificates and keys.

use super::offline::{Folder, assert_matches_file, page};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use supercargo_config::flags::table::{Effect, FLAGS};
use supercargo_core::model::emulation::EmulatedVersion;

/// Command lines with another verdict than kube-scheduler's, in all or some versions, each with the reason.
/// FIDELITY.md has them, too.
const DIFFERENT: [(&str, &[&str], &str); 24] = [
    ("lease duration below the renew deadline", &[], ELECTION),
    ("renew deadline equal to the lease duration", &[], ELECTION),
    ("renew deadline below the retry period", &[], ELECTION),
    ("negative renew deadline", &[], ELECTION),
    ("metric labels from a file", &["any", "1.34", "1.35"], MANIFEST),
    ("metric labels from a file that is missing", &["any", "1.34", "1.35"], MANIFEST),
    ("gates of several versions", &["any"], "until the version is known, each gate is judged alone"),
    ("gate that is new in 1.37, on", &["any", "1.37"], DECIDES),
    ("gates of several versions with prefix", &["1.34", "1.35", "1.36"], DECIDES),
    ("storage scoring on", &["1.34", "1.35", "1.36"], DECIDES),
    ("storage scoring off", &["1.37"], DECIDES),
    ("declared features on", &["1.35"], DECIDES),
    ("extended resources of devices on", &["1.34", "1.35"], DECIDES),
    ("extended resources of devices off", &["1.36"], DECIDES),
    ("device taints on", &["1.34", "1.35"], DECIDES),
    ("device taint rules on", &["1.36"], DECIDES),
    ("device taint rules off", &["1.37"], DECIDES),
    ("devices off", &["any", "1.34"], DECIDES),
    ("volume attributes off", &["any", "1.34", "1.35"], DECIDES),
    ("resize off", &["any", "1.34"], DECIDES),
    ("nominations on", &["1.34"], DECIDES),
    ("nominations off", &["1.35", "1.36", "1.37"], DECIDES),
    ("volume limits on", &["1.35", "1.36"], DECIDES),
    ("volume limits off", &["1.37"], DECIDES),
];

const DECIDES: &str = "the gate changes decisions, which are those of the version's defaults";

const MANIFEST: &str = "1.34 and 1.35 start without a manifest that cannot be read";

/// kube-scheduler compares the durations only after it has listed the cluster, and then ends.
const ELECTION: &str = "leader election is checked before the start";

/// A verdict of kube-scheduler, and its messages if it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    verdict: String,
    messages: Vec<String>,
}

#[derive(Debug)]
struct Row {
    name: String,
    args: Vec<String>,
    /// By version. A line with `--emulated-version` has only the pinned one's.
    verdicts: BTreeMap<&'static str, Verdict>,
}

impl Row {
    /// Returns the verdicts without `--emulated-version`: any version may be the API server's.
    fn of_any_version(&self) -> Vec<&Verdict> {
        let (refusing, others): (Vec<&Verdict>, Vec<&Verdict>) =
            self.verdicts.values().partition(|it| it.verdict == "refused");
        if others.is_empty() { refusing } else { others }
    }
}

fn rows() -> Vec<Row> {
    let text = super::read(&super::root().join("tests/fixtures/flags/command-lines.jsonl"));
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.map(|item| item.as_str().expect("a text").to_owned()).collect()
    };
    let verdict = |value: &Value| Verdict {
        verdict: value["verdict"].as_str().expect("record.sh has run").to_owned(),
        messages: texts(&value["messages"]),
    };
    let row = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("it is JSON");
        let args = texts(&value["args"]);
        let versions = EmulatedVersion::ALL.map(EmulatedVersion::as_str).into_iter();
        let is_set = args.iter().any(|word| word.starts_with("--emulated-version"));
        let asked = versions.filter(|version| !is_set || *version == PINNED);
        let of = |version| verdict(value["versions"].get(version).unwrap_or(&value));
        let name = value["name"].as_str().expect("a name").to_owned();
        Row { name, args, verdicts: asked.map(|version| (version, of(version))).collect() }
    };
    text.lines().map(row).collect()
}

/// Held while command lines open the default port.
static DEFAULT_PORT: Mutex<()> = Mutex::new(());

/// The version whose verdicts a line of the table has itself.
const PINNED: &str = "1.36";

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

/// Compares a verdict with kube-scheduler's: with one of several, where they differ. Returns what differs.
fn compare(folder: &Folder, name: &str, args: &[String], version: &str, of: &[&Verdict]) -> Option<String> {
    let (got, said) = verdict(folder, args);
    let differs = DIFFERENT.iter().any(|(different, versions, _)| {
        *different == name && (versions.is_empty() || versions.contains(&version))
    });
    let expected = of[0].verdict.as_str();
    if (got == expected) == differs {
        return Some(format!("{name}, {version}: {args:?} is {got}, not as {of:?}: {said}"));
    }
    if got != "refused" || differs || of.iter().any(|verdict| says(&said, &verdict.messages)) {
        return None;
    }
    Some(format!("{name}, {version}: {args:?} does not say {of:?}: {said}"))
}

/// Returns whether a text names every flag that kube-scheduler's messages name, and says the same of gates and
/// fields of a configuration.
fn says(said: &str, messages: &[String]) -> bool {
    // The log quotes.
    let said = said.replace("\\\"", "\"");
    let flags: BTreeSet<&str> = messages.iter().flat_map(|message| flags_in(message)).collect();
    let compared =
        messages.iter().filter(|message| message.contains("profiles") || message.contains("feature gate"));
    let mut rules = compared.flat_map(|message| message.split(", unknown field \"")).map(|part| {
        let rule = part.rsplit(": ").next().unwrap_or_default();
        rule.strip_prefix("unknown field \"").unwrap_or(rule).trim_end_matches(']')
    });
    rules.all(|rule| said.contains(rule)) && flags.is_subset(&flags_in(&said))
}

/// Runs a command line as each version, and without a version. Returns what differs.
fn compare_row(folder: &Folder, row: &Row) -> Vec<String> {
    let Row { name, args, verdicts } = row;
    let any = compare(folder, name, args, "any", &row.of_any_version());
    let versions = verdicts.iter().filter(|_| verdicts.len() > 1);
    let each = versions.filter_map(|(version, expected)| {
        let args = [&[format!("--emulated-version={version}")], &args[..]].concat();
        compare(folder, name, &args, version, &[expected])
    });
    any.into_iter().chain(each).collect()
}

#[test]
fn command_lines_get_kube_schedulers_verdict() {
    let rows = rows();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((names.len(), rows.len() >= 350), (rows.len(), true), "names are unique");
    // Lines that open the default port run one after the other, and no other test opens it meanwhile.
    let _port = DEFAULT_PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let (closed, open): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.args.iter().any(|word| word == "--secure-port=0"));
    let (one, two) = closed.split_at(closed.len() / 2);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let run = |rows: &[&Row]| {
            let folder = folder();
            rows.iter().flat_map(|row| compare_row(&folder, row)).collect::<Vec<_>>()
        };
        let parts = [&open[..], one, two].map(|rows| scope.spawn(move || run(rows)));
        parts.into_iter().flat_map(|part| part.join().expect("a part ends")).collect()
    });
    assert!(wrong.is_empty(), "{} of {} lines differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
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

/// Answers every request like an API server of version 1.36 that has nothing else, and returns its address.
fn api_server_of_1_36() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            let (status, body) = if request[..length].starts_with(b"GET /version ") {
                ("200 OK", r#"{"major":"1","minor":"36"}"#)
            } else {
                ("404 Not Found", "{}")
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("http://{address}")
}

/// Without `--emulated-version`, the API server's version decides which gates exist, and their defaults.
#[test]
fn gates_are_judged_again_once_the_version_is_known() {
    let folder = folder();
    let started_with = |gates: &str| {
        let line = [format!("--master={}", api_server_of_1_36()), format!("--feature-gates={gates}")];
        verdict(&folder, &[&line[..], &["--secure-port=0".to_owned()]].concat())
    };
    let (got, said) =
        started_with("SchedulerPreQueueingHints=false,EvictionRequestAPI=true,SidecarContainers=true");
    assert_eq!(got, "accepted", "{said}");
    let unknown = "does not know the feature gate; it has no effect gate=";
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(unknown)).collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("\"SchedulerPreQueueingHints=false\" version=1.36"), "{}", lines[0]);
    assert!(lines[1].contains("\"EvictionRequestAPI=true\" version=1.36"), "{}", lines[1]);

    let (got, said) = started_with("StorageCapacityScoring=true");
    assert_eq!(got, "refused", "{said}");
    assert!(said.contains("cannot set feature gate StorageCapacityScoring to true: it changes"), "{said}");
}

/// As kube-scheduler, which then does not generate one.
#[test]
fn certificate_in_the_directory_of_cert_dir_is_used() {
    let folder = folder();
    let _port = DEFAULT_PORT.lock().unwrap_or_else(PoisonError::into_inner);
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
