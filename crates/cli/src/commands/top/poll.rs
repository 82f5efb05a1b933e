//! Asks the scheduler for `top` on a thread of its own, so that keys are answered meanwhile.

use super::TopArgs;
use super::load::{History, Load, Sample};
use super::state::{Named, State};
use crate::cluster::{Refused, SourceArgs};
use crate::commands::{explain, queue};
use crate::live::port::{Connection, encoded};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Instant;
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::pending::{PAGE, QueueReport};

/// Path of the metrics.
const METRICS: &str = "/metrics";
/// Advice for a client that may not read the metrics.
const GRANT: &str = "no rates: /metrics needs the ClusterRole supercargo-metrics-reader";

/// A result of the thread.
pub(super) enum News {
    /// An answer to the regular question.
    Answer(Result<Answer, String>),
    /// An explanation, or why there is none.
    Explanation(Named, String),
}

/// An answer to the regular question.
pub(super) struct Answer {
    report: QueueReport,
    /// Rates; `None` until there are two scrapes.
    load: Result<Option<Load>, String>,
}

impl News {
    /// Changes what is shown.
    pub(super) fn apply(self, state: &mut State) {
        match self {
            Self::Answer(Ok(Answer { report, load })) => {
                (state.report, state.error) = (Some(report), None);
                (state.load, state.no_load) = match load {
                    Ok(load) => (load, None),
                    Err(text) => (None, Some(text)),
                };
            }
            Self::Answer(Err(text)) => state.error = Some(text),
            Self::Explanation(pod, text) => state.explained(&pod, &text),
        }
    }
}

/// Asks again and again, until `top` ends.
pub(super) fn ask(args: &TopArgs, news: &Sender<News>) {
    let began = Instant::now();
    let (mut connection, mut history) = (None, History::default());
    loop {
        let asked = Instant::now();
        let answer = answer(args, &mut connection, &mut history, began);
        if news.send(News::Answer(answer.map_err(Refused::into_text))).is_err() {
            return;
        }
        thread::sleep(args.interval.max(asked.elapsed()));
    }
}

/// Asks once. After an error, and if a standby replica answered, the next question looks for the leader again.
fn answer(
    args: &TopArgs,
    kept: &mut Option<Connection>,
    history: &mut History,
    began: Instant,
) -> Result<Answer, Refused> {
    let open = || Connection::open(&args.port, &args.leader);
    let connection = kept.take().map_or_else(open, Ok).map_err(Refused::Live)?;
    let path = match &args.namespace {
        Some(namespace) => format!("{PAGE}?namespace={}", encoded(namespace)),
        None => PAGE.to_owned(),
    };
    let page = connection.get(&path).map_err(Refused::Live)?;
    let text = queue::answered(page, PAGE, connection.way())?;
    let report = queue::parsed(&text).map_err(|text| Refused::Live(crate::live::LiveError::Cluster(text)))?;
    let metrics = connection.get(METRICS).map_err(Refused::Live)?;
    let load = match metrics.status {
        200 => Ok(history.add(began.elapsed(), Sample::of(&metrics.body))),
        401 | 403 => Err(GRANT.to_owned()),
        code => Err(format!("no rates: {METRICS} answers {code}")),
    };
    if report.leading {
        *kept = Some(connection);
    }
    Ok(Answer { report, load })
}

/// Explains a pod as `explain` does, on a thread of its own.
pub(super) fn explain(args: &TopArgs, pod: Named, news: Sender<News>) {
    let source = SourceArgs {
        cluster: Vec::new(),
        live: args.leader.live.clone(),
        config: args.config.clone(),
        emulation: args.emulation.clone(),
        as_written: false,
        input_limit: InputLimit::default(),
        strict: false,
    };
    thread::spawn(move || {
        let text = explain::pod_text(&source, (&pod.namespace, &pod.name), &pod.uid);
        let text = text.unwrap_or_else(|refused| format!("error: {}", refused.into_text()));
        // `top` may have ended.
        let _ = news.send(News::Explanation(pod, text));
    });
}
