//! Rules about storage: claims and StorageClasses that do not exist.

use crate::explain::lint::{Linted, Rule};
use supercargo_config::yaml::nearest;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::volume::{StorageKey, StorageKind};

/// Checks claims and classes. Without nodes the input is manifests only, and missing objects may exist in the
/// cluster.
pub(super) fn judge(linted: &mut Linted<'_, '_>) {
    if linted.snapshot().nodes().is_empty() {
        return;
    }
    let subject = linted.subject;
    for volume in &subject.pod.volumes {
        if let Some((name, is_own)) = volume.claim() {
            claim(linted, &volume.name, name, is_own);
        }
    }
    for (at, (_, class)) in
        subject.claim_templates.iter().enumerate().filter(|(_, (_, class))| !class.is_empty())
    {
        let symbol = linted.tables().find(class);
        if symbol.is_none_or(|class| !is_served(linted, class)) {
            let message = class_message(linted, class, "claims of this template stay pending");
            let field = format!("spec.volumeClaimTemplates[{at}].spec.storageClassName");
            let meant = nearest(class, names(linted, StorageKind::StorageClass, None)).map(str::to_owned);
            let severity = Rule::StorageClassMissing.severity();
            linted.add_to_object(Rule::StorageClassMissing, severity, field, message, meant);
        }
    }
}

/// Checks a claim of a pod; `is_own` if a controller creates it for the pod.
fn claim(linted: &mut Linted<'_, '_>, volume: &str, name: Symbol, is_own: bool) {
    let (namespace, text) = (linted.subject.pod.namespace, linted.tables().text(name));
    let field = format!("spec.volumes[{volume}]");
    match linted.snapshot().volumes().claim(namespace, name) {
        None if is_own => {}
        None => {
            let message = format!(
                "PersistentVolumeClaim {text} does not exist in its namespace, so no node is feasible"
            );
            let meant = nearest(text, names(linted, StorageKind::PersistentVolumeClaim, Some(namespace)));
            let meant = meant.map(str::to_owned);
            linted.add(
                Rule::ClaimMissing,
                &format!("{field}.persistentVolumeClaim.claimName"),
                message,
                meant,
            );
        }
        Some(claim) => {
            let class = linted.tables().text(claim.class);
            if claim.volume.is_some() || class.is_empty() || is_served(linted, claim.class) {
                return;
            }
            let message = class_message(linted, class, &format!("the claim {text} stays pending"));
            let meant = nearest(class, names(linted, StorageKind::StorageClass, None)).map(str::to_owned);
            linted.add(Rule::StorageClassMissing, &field, message, meant);
        }
    }
}

/// Returns whether the class exists, or a free volume of that class.
fn is_served(linted: &Linted<'_, '_>, class: Symbol) -> bool {
    let volumes = linted.snapshot().volumes();
    let is_free = |key: &StorageKey| {
        volumes.volume(key.name).is_some_and(|volume| volume.class == class && volume.claim.is_none())
    };
    volumes.class(class).is_some() || volumes.keys(StorageKind::PersistentVolume).iter().any(is_free)
}

fn class_message(linted: &Linted<'_, '_>, class: &str, consequence: &str) -> String {
    let any = if names(linted, StorageKind::StorageClass, None).is_empty() { " at all" } else { "" };
    let noun = if any.is_empty() {
        format!("no StorageClass {class}")
    } else {
        format!("no StorageClass{any} ({class} is named)")
    };
    format!("there is {noun} and no free volume of that class: {consequence}, and no node is feasible")
}

fn names<'s>(linted: &Linted<'_, 's>, kind: StorageKind, namespace: Option<Symbol>) -> Vec<&'s str> {
    let keys = linted.snapshot().volumes().keys(kind);
    let keys = keys.into_iter().filter(|key| namespace.is_none() || key.namespace == namespace);
    keys.map(|key| linted.tables().text(key.name)).collect()
}
