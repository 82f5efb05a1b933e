//! `supercargo queue`: lists pending pods with their place, cause, waiting time and next retry, or shows one of them.
//! Asks the running scheduler, or reads a saved answer; changes nothing.

mod one;
pub(crate) mod table;

use crate::cluster::Refused;
use crate::live::LiveError;
use crate::live::candidates;
use crate::live::port::{Connection, LEADER_FLAGS, LeaderArgs, PORT_FLAGS, Page, PortArgs, Way, encoded};
use crate::screen::{ListOutput, Screen, in_list_form, say};
use crate::watching::{Between, Shown, WatchArgs, watch};
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::load::input::decompressed;
use supercargo_whatif::pending::{LabelQuery, PAGE, PendingGroup, PendingPod, QueueReport};

/// Maximum size of a report read from a file, in bytes after decompression.
const BYTES_MAX: u64 = 64 << 20;
/// Advice for files that cannot be read.
const SAVE: &str =
    "give a file with an answer of the scheduler, such as the output of `supercargo queue -A -o json`";
/// Advice if the answer is not of this version.
const SAME_VERSION: &str = "use the supercargo of the scheduler's version";

/// Arguments of `supercargo queue`.
#[derive(Clone, Debug, Args)]
// The cluster is asked for nothing else.
#[command(mut_arg("server", |arg| arg.conflicts_with_all(LEADER_FLAGS)))]
pub struct QueueArgs {
    /// Show only this pod, with the reasons that the scheduler has for each group of nodes.
    #[arg(value_name = "POD", conflicts_with_all = ["all_namespaces", "selector"], add = ArgValueCompleter::new(candidates::pending_pods))]
    pub name: Option<String>,

    /// Namespace of the pods. Defaults to the namespace of the kubeconfig's context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE", add = ArgValueCompleter::new(candidates::namespaces))]
    pub namespace: Option<String>,

    /// List pods of all namespaces in which you may read pods.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Label selector of the pods, for example app=web,tier!=test.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelQuery::parse)]
    pub selector: Option<LabelQuery>,

    /// Port of the scheduler.
    #[command(flatten)]
    pub port: PortArgs,

    /// How to find the leader.
    #[command(flatten)]
    pub leader: LeaderArgs,

    /// File with an answer of /debug/pending, or with POD of /debug/explain; `-` reads standard input.
    #[arg(
        short = 'f',
        long,
        value_name = "FILE",
        conflicts_with = "watch",
        conflicts_with_all = PORT_FLAGS,
        conflicts_with_all = LEADER_FLAGS
    )]
    pub file: Option<PathBuf>,

    /// Whether to go on.
    #[command(flatten)]
    pub watch: WatchArgs,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: ListOutput,
}

/// Runs the command: prints the list and returns the exit code.
pub fn main(args: &QueueArgs) -> ExitCode {
    if args.watch.watch {
        let is_table = matches!(args.output, ListOutput::Table | ListOutput::Wide);
        let between = Between::of_stdout(is_table, args.output == ListOutput::Yaml);
        let mut source = Source::new(args);
        return watch(args.watch, between, || shown(&mut source));
    }
    match shown(&mut Source::new(args)) {
        Ok(shown) => say(&shown.text, 0),
        Err(refused) => refused.report(),
    }
}

/// Asks, and formats the answer.
fn shown(source: &mut Source<'_>) -> Result<Shown, Refused> {
    let args = source.args;
    // The time of an answer makes it no new one.
    if let Some(name) = &args.name {
        let mut answer = one::answer(source, name)?;
        let names = || vec![format!("pod/{}", answer.pod.name)];
        let text = in_list_form(args.output, &answer, |_| one::text(&answer), names);
        answer.time.clear();
        return Ok(Shown {
            text,
            state: in_list_form(ListOutput::Json, &answer, |_| String::new(), Vec::new),
        });
    }
    let mut report = report(source)?;
    let names = || report.pods.iter().map(|pod| format!("pod/{}", pod.name)).collect();
    let table = |wide| {
        let mut screen = Screen::of_stdout();
        table::add(&mut screen, &report, wide, args.all_namespaces);
        screen.into_text()
    };
    let text = in_list_form(args.output, &report, table, names);
    report.time.clear();
    Ok(Shown { text, state: in_list_form(ListOutput::Json, &report, |_| String::new(), Vec::new) })
}

/// The source of the answers. It keeps the connection between two questions.
pub(crate) struct Source<'a> {
    args: &'a QueueArgs,
    connection: Option<Connection>,
}

impl<'a> Source<'a> {
    fn new(args: &'a QueueArgs) -> Self {
        Self { args, connection: None }
    }

    /// Returns a page, and the namespace asked about; `path` returns the path for a namespace.
    ///
    /// After an error the next question looks for the leader again.
    fn page(&mut self, path: impl FnOnce(&str) -> String) -> Result<(Page, Asked), Refused> {
        let open = || Connection::open(&self.args.port, &self.args.leader);
        let connection = self.connection.take().map_or_else(open, Ok).map_err(Refused::Live)?;
        let given = self.args.namespace.as_ref().or(connection.namespace.as_ref());
        let namespace = given.map_or_else(|| "default".to_owned(), String::clone);
        let page = connection.get(&path(&namespace)).map_err(Refused::Live)?;
        let asked = Asked { namespace, way: connection.way() };
        if page.status == 200 {
            self.connection = Some(connection);
        }
        Ok((page, asked))
    }
}

/// The way in which a page was requested.
struct Asked {
    namespace: String,
    way: Way,
}

fn report(source: &mut Source<'_>) -> Result<QueueReport, Refused> {
    let args = source.args;
    let (text, namespace) = match &args.file {
        Some(file) => (read(file)?, args.namespace.clone()),
        None => {
            let (page, asked) = source.page(|namespace| path(args, namespace))?;
            (answered(page, PAGE, asked.way)?, Some(asked.namespace))
        }
    };
    let report = parsed(&text).map_err(|text| wrong(args, &text))?;
    if !report.leading {
        source.connection = None;
    }
    Ok(narrowed(report, args, namespace.filter(|_| !args.all_namespaces).as_deref()))
}

/// Decodes a report.
pub(crate) fn parsed(text: &str) -> Result<QueueReport, String> {
    let report: QueueReport = serde_json::from_str(text)
        .map_err(|error| format!("not a QueueReport: {error}; expected an answer of {PAGE}"))?;
    if report.is_of_this_version() {
        return Ok(report);
    }
    let (kind, version) = (&report.kind, &report.api_version);
    Err(format!("{kind} of {version} is not supported by this version of supercargo; {SAME_VERSION}"))
}

/// Returns the error of an answer that cannot be read.
fn wrong(args: &QueueArgs, text: &str) -> InputError {
    let name = args.file.as_ref().map(|file| format!("{}: ", name_of(file)));
    InputError(format!("{}{text}", name.unwrap_or_default()))
}

/// Returns the path and query of the request. The server filters by namespace only; labels are filtered here.
fn path(args: &QueueArgs, namespace: &str) -> String {
    if args.all_namespaces { PAGE.to_owned() } else { format!("{PAGE}?namespace={}", encoded(namespace)) }
}

/// Keeps the pods of the requested namespace and labels, and updates the counts.
fn narrowed(mut report: QueueReport, args: &QueueArgs, namespace: Option<&str>) -> QueueReport {
    if namespace.is_none() && args.selector.is_none() {
        return report;
    }
    let is_wanted = |pod: &PendingPod| {
        namespace.is_none_or(|namespace| pod.namespace == namespace)
            && args
                .selector
                .as_ref()
                .is_none_or(|labels| labels.matches(|key| pod.labels.get(key).map(String::as_str)))
    };
    let all = report.pods.len();
    report.pods.retain(is_wanted);
    let is_named = |group: &PendingGroup| {
        let names =
            |pod: &PendingPod| pod.namespace == group.namespace && pod.group.as_ref() == Some(&group.name);
        report.pods.iter().any(names)
    };
    report.groups.retain(is_named);
    // The server's counts include pods it left out of the list, so they stay valid if nothing is removed
    // here.
    if report.left_out == 0 || args.selector.is_some() || report.pods.len() < all {
        report.counts = BTreeMap::new();
        for pod in &report.pods {
            *report.counts.entry(pod.place.clone()).or_default() += 1;
        }
    }
    report
}

fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path) -> Result<String, InputError> {
    let name = name_of(file);
    let wrong = |error: io::Error| InputError(format!("cannot read {name}: {error}; {SAVE}"));
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(wrong)?)
    };
    let mut text = String::new();
    decompressed(reader).map_err(wrong)?.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(InputError(format!("{name}: larger than 64 MiB, the limit for a report; {SAVE}")));
    }
    Ok(text)
}

/// Returns the body of an answer of `path`, or the error with advice.
pub(crate) fn answered(page: Page, path: &str, way: Way) -> Result<String, Refused> {
    let message = page.message();
    let text = match (page.status, way) {
        (200, _) => return Ok(page.body),
        (400, _) => return Err(InputError(message).into()),
        (401, Way::ByProxy) => {
            "401: the scheduler does not accept your identity. The API server passes on a token but no \
                        client certificate: give a token \
                        with --token-file (kubectl create token)"
                .to_owned()
        }
        (401, way) => unauthenticated("the scheduler", way),
        (404, _) => format!(
            "404: {path} not found: check that this is supercargo and that enableProfiling is true. {message}"
        ),
        (502..=504, Way::ByProxy) => format!(
            "the API server cannot reach the scheduler's port: {message}. If the scheduler listens only on 127.0.0.1, as a static pod \
             does, use `kubectl port-forward` and --server https://127.0.0.1:10259"
        ),
        (403, _) => format!("403: {message}; ask an administrator for this right"),
        (code, _) => format!("{code}: {message}; the scheduler's log may have the reason"),
    };
    Err(Refused::Live(LiveError::Cluster(text)))
}

/// Returns the error for a 401 of the server at `--server`.
pub(crate) fn unauthenticated(server: &str, way: Way) -> String {
    match way {
        Way::WithoutToken => format!(
            "401: {server} requires a token, and none was sent; write one to a file with `kubectl create token SERVICEACCOUNT`, and give the \
             file with --token-file"
        ),
        _ => format!(
            "401: {server} does not accept this token; give a valid one with --token-file (kubectl create token)"
        ),
    }
}

#[cfg(test)]
mod tests {
    //! Errors of the server.

    use super::*;

    #[test]
    fn unauthenticated_request_without_token_asks_for_one() {
        let text = |way| {
            let page = Page { status: 401, body: "Unauthorized".to_owned(), date: None };
            answered(page, PAGE, way).expect_err("it is refused").into_text()
        };
        let without = text(Way::WithoutToken);
        assert!(without.starts_with("401: the scheduler requires a token, and none was sent; "), "{without}");
        assert!(without.ends_with("give the file with --token-file"), "{without}");
        assert!(text(Way::WithToken).starts_with("401: the scheduler does not accept this token; "));
        assert!(text(Way::ByProxy).contains("does not accept your identity"));
    }
}
