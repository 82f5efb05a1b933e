//! A report of pending pods in the making: first which pods, then what is told of them, some at a time, so that the scheduling thread is never
//! held for long.

use super::report::QueueReport;
use super::{Question, words};
use std::collections::BTreeMap;
use supercargo_core::intern::Symbol;
use supercargo_core::pod::Uid;
use supercargo_core::scheduler::{Pending, Scheduler};
use supercargo_core::time::Time;

/// Pods of one report at most.
const PODS_MAX: usize = 20_000;
/// Pods that are told of in one go.
const PART: usize = 256;

/// A report in the making.
pub struct Reporting {
    question: Question,
    report: Option<QueueReport>,
    /// The pods that are left to be told of.
    left: std::vec::IntoIter<Uid>,
}

impl Reporting {
    /// Nothing was looked at yet.
    pub fn new(question: Question) -> Self {
        Self { question, report: None, left: Vec::new().into_iter() }
    }

    /// Finds out which pods there are, or tells of some more. Of those that have left meanwhile nothing is told.
    pub fn go_on(&mut self, engine: &Scheduler, now: Time) {
        let Some(report) = &mut self.report else {
            let (report, pods) = begin(engine, now, &self.question);
            (self.report, self.left) = (Some(report), pods.into_iter());
            return;
        };
        for pending in self.left.by_ref().take(PART).filter_map(|uid| engine.pending_one(&uid)) {
            *report.counts.entry(words::place(pending.at).to_owned()).or_default() += 1;
            report.pods.push(words::told(engine, &pending));
        }
    }

    /// Whether there is nothing left to look at.
    pub fn is_done(&self) -> bool {
        self.report.is_some() && self.left.len() == 0
    }

    /// What was found; `None` where nothing was looked at.
    pub fn done(self) -> Option<QueueReport> {
        let mut report = self.report?;
        report.pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        Some(report)
    }
}

/// The pods on their way to a node that are asked for. Those that are too many are counted at once.
fn begin(engine: &Scheduler, now: Time, question: &Question) -> (QueueReport, Vec<Uid>) {
    let snapshot = engine.snapshot();
    let mut known: BTreeMap<Symbol, bool> = BTreeMap::new();
    let mut is_asked_for = |namespace: Symbol| match &question.namespaces {
        None => true,
        Some(names) => *known.entry(namespace).or_insert_with(|| names.contains(snapshot.text(namespace))),
    };
    let mut report = QueueReport::new(now, engine.is_leading(), !question.is_part);
    let mut pods = Vec::new();
    for pending in engine.pending() {
        let pod = pending.pod();
        if !is_asked_for(pod.namespace) || !question.labels.matches(|key| label(engine, &pending, key)) {
            continue;
        }
        if pods.len() < PODS_MAX {
            pods.push(Uid::clone(&pod.uid));
        } else {
            *report.counts.entry(words::place(pending.at).to_owned()).or_default() += 1;
            report.left_out += 1;
        }
    }
    (report, pods)
}

fn label<'e>(engine: &'e Scheduler, pending: &Pending<'_>, wanted: &str) -> Option<&'e str> {
    let snapshot = engine.snapshot();
    let mut labels = snapshot.labels(pending.pod().labels).iter();
    labels.find(|&(key, _)| snapshot.text(key) == wanted).map(|(_, value)| snapshot.text(value))
}
