//! What pods ask of storage: claims that nobody has made, and classes that nobody has.

use super::{Rule, Told};
use crate::config::nearest;
use supercargo_core::intern::Symbol;
use supercargo_core::volume::{StorageKey, StorageKind};

/// Without nodes these are manifests and no cluster: what they do not hold may be there.
pub(super) fn judge(told: &mut Told<'_, '_>) {
    if told.snapshot().nodes().is_empty() {
        return;
    }
    let subject = told.subject;
    for volume in &subject.pod.volumes {
        if let Some((name, is_own)) = volume.claim() {
            claim(told, &volume.name, name, is_own);
        }
    }
    for (at, (_, class)) in
        subject.claim_templates.iter().enumerate().filter(|(_, (_, class))| !class.is_empty())
    {
        let symbol = told.tables().find(class);
        if symbol.is_none_or(|class| !is_served(told, class)) {
            let message = class_message(told, class, "claims of this template stay pending");
            let field = format!("spec.volumeClaimTemplates[{at}].spec.storageClassName");
            let meant = nearest(class, names(told, StorageKind::StorageClass, None)).map(str::to_owned);
            let severity = Rule::StorageClassMissing.severity();
            told.add_to_object(Rule::StorageClassMissing, severity, field, message, meant);
        }
    }
}

/// A claim that a pod names; `is_own` where a controller makes it for the pod.
fn claim(told: &mut Told<'_, '_>, volume: &str, name: Symbol, is_own: bool) {
    let (namespace, text) = (told.subject.pod.namespace, told.tables().text(name));
    let field = format!("spec.volumes[{volume}]");
    match told.snapshot().volumes().claim(namespace, name) {
        None if is_own => {}
        None => {
            let message =
                format!("there is no PersistentVolumeClaim {text} in its namespace, so no node will do");
            let meant = nearest(text, names(told, StorageKind::PersistentVolumeClaim, Some(namespace)));
            let meant = meant.map(str::to_owned);
            told.add(Rule::ClaimMissing, &format!("{field}.persistentVolumeClaim.claimName"), message, meant);
        }
        Some(claim) => {
            let class = told.tables().text(claim.class);
            if claim.volume.is_some() || class.is_empty() || is_served(told, claim.class) {
                return;
            }
            let message = class_message(told, class, &format!("the claim {text} stays pending"));
            let meant = nearest(class, names(told, StorageKind::StorageClass, None)).map(str::to_owned);
            told.add(Rule::StorageClassMissing, &field, message, meant);
        }
    }
}

/// Whether there is the class, or a volume that names it and is nobody's.
fn is_served(told: &Told<'_, '_>, class: Symbol) -> bool {
    let volumes = told.snapshot().volumes();
    let is_free = |key: &StorageKey| {
        volumes.volume(key.name).is_some_and(|volume| volume.class == class && volume.claim.is_none())
    };
    volumes.class(class).is_some() || volumes.keys(StorageKind::PersistentVolume).iter().any(is_free)
}

fn class_message(told: &Told<'_, '_>, class: &str, consequence: &str) -> String {
    let any = if names(told, StorageKind::StorageClass, None).is_empty() { " at all" } else { "" };
    let noun = if any.is_empty() {
        format!("no StorageClass {class}")
    } else {
        format!("no StorageClass{any}, and {class} is named")
    };
    format!("there is {noun}, nor a free volume of that class: {consequence}, and no node will do")
}

fn names<'s>(told: &Told<'_, 's>, kind: StorageKind, namespace: Option<Symbol>) -> Vec<&'s str> {
    let keys = told.snapshot().volumes().keys(kind);
    let keys = keys.into_iter().filter(|key| namespace.is_none() || key.namespace == namespace);
    keys.map(|key| told.tables().text(key.name)).collect()
}
