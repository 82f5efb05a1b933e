//! A whole simulation: objects of a cluster, the pods to schedule, and the decision about each of them.

use crate::explain::device_claims::remove;
use crate::load::files::{Files, InputError, Item};
use crate::prepare::inventory::{self, Given, Inventory};
use crate::prepare::update::Concern;
use crate::simulate::decide::{Decider, Rules};
use crate::simulate::decision::Decision;
use crate::simulate::objects;
use std::sync::Arc;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::scheduler::Trial;

/// A validated cluster and the pods to schedule.
pub struct Simulation {
    /// Decides about the pods.
    pub decider: Decider,
    /// The pods in their order, each with whether it has finished.
    pub pods: Vec<(Arc<PodInfo>, bool)>,
    /// Messages about the objects for the user.
    pub notices: Vec<String>,
}

impl Simulation {
    /// Adds the objects of a cluster to a trial of an empty one, and completes the pods to schedule; with `as_written`,
    /// no defaults are set.
    ///
    /// # Errors
    /// Fails if an object is invalid; the error names the file, line and column.
    pub fn of(
        files: &Files,
        (of_cluster, of_pods): (Vec<Item>, Vec<Item>),
        mut trial: Trial,
        rules: Rules,
        as_written: bool,
    ) -> Result<Self, InputError> {
        let existing = Concern::among(&of_pods, of_cluster.iter());
        let given = Given { items: of_pods, are_templates: false, existing };
        let gathered = inventory::gather(files, of_cluster, given, as_written)?;
        let Inventory { cluster, pods, leaving, changes: mut notices, skipped, whole, .. } = gathered;
        let mut removed = Vec::new();
        for item in cluster {
            let origin = item.origin;
            let is_leaving = || leaving.contains(&(item.namespace().to_owned(), item.name().to_owned()));
            let is_removed = item.kind() == "Pod" && is_leaving();
            let taken = whole.of(item).and_then(|item| {
                if !is_removed {
                    return objects::apply(&mut trial, item);
                }
                let (pod, has_ended) = objects::pod(&mut trial, item)?;
                removed.extend((!has_ended).then_some(pod));
                Ok(())
            });
            taken.map_err(|wrong| files.error(origin, &wrong))?;
        }
        let to_come = pods.iter().map(|item| item.text("/metadata/uid").into()).collect();
        remove(&mut trial, removed.iter().map(AsRef::as_ref), &to_come);
        let mut decoded = Vec::with_capacity(pods.len());
        for item in pods {
            let origin = item.origin;
            let pod = objects::to_schedule(&mut trial, item);
            decoded.push(pod.map_err(|wrong| files.error(origin, &wrong))?);
        }
        notices.extend(skipped.message());
        Ok(Self { decider: Decider::new(trial, rules), pods: decoded, notices })
    }

    /// Schedules every pod in order and returns the decisions.
    pub fn decisions(mut self) -> Vec<Decision> {
        let turns = self.decider.turns(self.pods.iter().map(|(pod, has_ended)| (pod, *has_ended)));
        let decided = turns.iter().flat_map(|turn| self.decider.decide_turn(turn));
        decided.map(|(_, decided)| decided.decision).collect()
    }
}
