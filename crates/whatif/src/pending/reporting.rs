//! Builds a report of pending pods in steps: first selects the pods, then describes some per step, so that
//! the scheduling thread is never blocked for long.

use crate::pending::report::QueueReport;
use crate::pending::{Question, format};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::Uid;
use supercargo_core::model::time::Time;
use supercargo_core::scheduler::{Pending, Scheduler};

/// Maximum number of pods in one report.
const PODS_MAX: usize = 20_000;
/// Number of pods described per step.
const PART: usize = 256;

/// A report under construction.
pub struct Reporting {
    question: Question,
    report: Option<QueueReport>,
    /// Pods that are not described yet.
    left: std::vec::IntoIter<Uid>,
    /// Namespaces and names of the groups that are described.
    groups: BTreeSet<(String, String)>,
}

impl Reporting {
    /// Starts a report.
    pub fn new(question: Question) -> Self {
        Self { question, report: None, left: Vec::new().into_iter(), groups: BTreeSet::new() }
    }

    /// Selects the pods, or describes some more of them. Pods that have left in the meantime are skipped.
    pub fn go_on(&mut self, engine: &Scheduler, now: Time) {
        let Some(report) = &mut self.report else {
            let (report, pods) = begin(engine, now, &self.question);
            (self.report, self.left) = (Some(report), pods.into_iter());
            return;
        };
        for pending in self.left.by_ref().take(PART).filter_map(|uid| engine.pending_one(&uid)) {
            *report.counts.entry(format::place(pending.at).to_owned()).or_default() += 1;
            let pod = format::describe(engine, &pending);
            if let (Some(key), Some(name)) = (pending.pod().group_key(), &pod.group)
                && self.groups.insert((pod.namespace.clone(), name.clone()))
            {
                report.groups.push(format::describe_group(engine, key));
            }
            report.pods.push(pod);
        }
    }

    /// Returns whether the report is complete.
    pub fn is_done(&self) -> bool {
        self.report.is_some() && self.left.len() == 0
    }

    /// Returns the report; `None` before the first step.
    pub fn done(self) -> Option<QueueReport> {
        let mut report = self.report?;
        report.groups.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        report.pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        Some(report)
    }
}

/// Selects the pods. Pods above the limit are only counted.
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
            *report.counts.entry(format::place(pending.at).to_owned()).or_default() += 1;
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
