//! Gives the objects of files to a trial as events, with the same types and conversions as the scheduler.

use crate::load::files::{Item, Wrong};
use std::sync::Arc;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::report::Notice;
use supercargo_core::scheduler::Trial;
use supercargo_objects::api::{Malformed, Object};
use supercargo_objects::convert::{self, Watched as _};
use supercargo_objects::of_any_kind;

/// Adds an object of the cluster.
///
/// # Errors
/// Fails if the object is invalid.
pub fn apply(trial: &mut Trial, item: Item) -> Result<(), Wrong> {
    // `inventory` has removed all kinds that the engine does not read.
    let Ok(object) = Object::from_value(item.value) else { return Ok(()) };
    let event = event(&object, trial.tables_mut()).map_err(|malformed| wrong(&malformed))?;
    handle(trial, event)
}

fn handle(trial: &mut Trial, event: Event) -> Result<(), Wrong> {
    trial.handle(event);
    let message = |notice: Notice| format!("{}: {}", notice.object, notice.text);
    trial.take_notice().map_or(Ok(()), |notice| Err(Wrong { path: String::new(), message: message(notice) }))
}

/// Adds a pod that the caller needs later; returns it with whether it has finished.
///
/// A bound pod counts on its node. A pending pod counts only where it is nominated, until it is scheduled.
///
/// # Errors
/// Fails if the pod is invalid.
pub fn pod(trial: &mut Trial, item: Item) -> Result<(Arc<PodInfo>, bool), Wrong> {
    let (pod, has_ended) = converted(trial, item)?;
    let uid = Arc::clone(&pod.uid);
    if !has_ended && pod.node_name.is_some() {
        handle(trial, Event::PodApplied(Box::new(pod)))?;
        let (pod, _) = trial.placement(&uid).expect("a bound pod counts on its node");
        return Ok((Arc::clone(pod), false));
    }
    Ok((pending(trial, pod, has_ended), has_ended))
}

fn pending(trial: &mut Trial, pod: PodInfo, has_ended: bool) -> Arc<PodInfo> {
    let pod = Arc::new(pod);
    if pod.node_name.is_none() && !has_ended && !pod.deleting {
        trial.nominate(&pod, pod.nominated_node);
    }
    pod
}

/// Converts a pod to schedule; returns it with whether it has finished. If it is pending, it counts where it is
/// nominated; a bound pod counts when its turn comes.
///
/// # Errors
/// Fails if the pod is invalid.
pub fn to_schedule(trial: &mut Trial, item: Item) -> Result<(Arc<PodInfo>, bool), Wrong> {
    let (pod, has_ended) = converted(trial, item)?;
    Ok((pending(trial, pod, has_ended), has_ended))
}

/// Converts a pod that is not part of the cluster yet.
///
/// # Errors
/// Fails if the pod is invalid.
pub fn template(trial: &mut Trial, item: Item) -> Result<Arc<PodInfo>, Wrong> {
    converted(trial, item).map(|(pod, _)| Arc::new(pod))
}

/// Converts a pod; returns it with whether it has finished.
fn converted(trial: &mut Trial, item: Item) -> Result<(PodInfo, bool), Wrong> {
    let pod: supercargo_objects::api::Pod = serde_json::from_value(item.value)
        .expect("any JSON deserializes; malformed pods fail in the conversion");
    let info = convert::pod(trial.tables_mut(), &pod).map_err(|malformed| wrong(&malformed))?;
    Ok((info, pod.has_ended()))
}

/// Converts an object.
///
/// # Errors
/// Fails if the object is malformed.
pub(crate) fn event(object: &Object, tables: &mut Tables) -> Result<Event, Malformed> {
    of_any_kind!(object, it => it.applied(tables))
}

/// Converts the error; its reason begins with the path of the field.
pub(crate) fn wrong(malformed: &Malformed) -> Wrong {
    let path = malformed.reason.split_once(": ").map_or("", |(path, _)| path).to_owned();
    Wrong { path, message: malformed.to_string() }
}
