//! Applies hypothetical changes to a cluster: adds and removes nodes, scales workloads.

use crate::cluster::Cluster;
use crate::commands::simulate::what_if::args::{AddNodes, ChangeArgs, Scale, WORKLOADS, means_kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_whatif::explain::claims::{afresh, with_new_ephemeral_claims, with_own_claims};
use supercargo_whatif::explain::device_claims::{release, remove};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::prepare::owners::{EvictionNotes, OwnedPod};
use supercargo_whatif::prepare::scale::{in_deletion_order, new_names};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The pods that need scheduling after the changes.
#[derive(Default)]
pub(crate) struct Changed {
    /// Pods whose node was removed, and new pods.
    pub pods: Vec<Arc<PodInfo>>,
    /// The removed node of each pod that lost one, by uid.
    pub from: BTreeMap<Uid, String>,
}

/// Applies the changes in order: pods that manifests remove, added nodes, removed nodes, scaled workloads.
pub(super) fn make(cluster: &mut Cluster, args: &ChangeArgs) -> Result<Changed, InputError> {
    let mut changed = Changed::default();
    replace(cluster, &mut changed);
    for add in &args.add_nodes {
        add_nodes(cluster, add)?;
    }
    for name in &args.remove_node {
        remove_node(cluster, name, &mut changed)?;
    }
    let namespace = args.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    for scale in &args.scale {
        resize(cluster, &namespace, scale, &mut changed)?;
    }
    cluster.trial.refreshed();
    Ok(changed)
}

/// Removes the pods that the manifests replace or scale away.
fn replace(cluster: &mut Cluster, changed: &mut Changed) {
    let leaving = std::mem::take(&mut cluster.leaving);
    let tables = cluster.trial.tables();
    let keys: BTreeSet<(Option<Symbol>, &str)> =
        leaving.iter().map(|(namespace, name)| (tables.find(namespace), name.as_str())).collect();
    let owners = cluster.owners.as_ref().expect("a cluster to change is loaded with a census");
    let is_leaving = |noted: &&OwnedPod| keys.contains(&(Some(noted.pod.namespace), &*noted.pod.name));
    let pods: Vec<OwnedPod> = owners.pods.iter().filter(is_leaving).cloned().collect();
    forget(cluster, &pods, changed);
}

fn notes(cluster: &mut Cluster) -> &mut Vec<OwnedPod> {
    &mut cluster.owners.as_mut().expect("a cluster to change is loaded with a census").pods
}

fn add_nodes(cluster: &mut Cluster, add: &AddNodes) -> Result<(), InputError> {
    cluster.has_node(&add.template)?;
    let template = cluster.trial.tables_mut().symbol(&add.template);
    let snapshot = cluster.trial.snapshot();
    let node = snapshot.find_node(template).map(|node| snapshot.node_info(node).clone());
    let like =
        node.ok_or_else(|| InputError(format!("--add-nodes: node {} no longer exists", add.template)))?;
    let is_copied = |noted: &&OwnedPod| {
        noted.pod.node_name == Some(template)
            && noted.owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet")
    };
    let of_daemons: Vec<OwnedPod> = notes(cluster).iter().filter(is_copied).cloned().collect();
    let mut number = 0;
    for _ in 0..add.count {
        let name = loop {
            number += 1;
            let name = format!("{}-new-{number}", add.template);
            if !cluster.knows_node(&name) {
                break name;
            }
        };
        let tables = cluster.trial.tables_mut();
        let (hostname, symbol) = (tables.symbol(HOSTNAME), tables.symbol(&name));
        let labels: Vec<(Symbol, Symbol)> = tables.labels(like.labels).iter().collect();
        let labels =
            labels.into_iter().map(|(key, value)| (key, if key == hostname { symbol } else { value }));
        let labels = tables.label_set(labels.collect());
        let node = NodeInfo { name: symbol, labels, ..like.clone() };
        cluster.trial.handle(Event::NodeApplied(Box::new(node)));
        for noted in &of_daemons {
            let pod = renamed(&noted.pod, &name);
            let pod = with_own_claims(&mut cluster.trial, &noted.pod, pod);
            let pod = Arc::new(PodInfo { node_name: Some(symbol), ..pod });
            cluster.trial.place_pod(&pod, symbol);
            notes(cluster).push(OwnedPod { pod, ..noted.clone() });
        }
        cluster.add_node_name(name);
    }
    Ok(())
}

/// Returns a copy of the pod with another name and uid, without a node.
fn renamed(pod: &PodInfo, suffix: &str) -> PodInfo {
    let name = format!("{}-{suffix}", pod.name);
    PodInfo { uid: format!("{}-{suffix}", pod.uid).into(), name: name.into(), ..afresh(pod) }
}

fn remove_node(cluster: &mut Cluster, name: &str, changed: &mut Changed) -> Result<(), InputError> {
    cluster.has_node(name)?;
    cluster.forget_node_name(name);
    let symbol = cluster.trial.tables_mut().symbol(name);
    let (here, elsewhere): (Vec<OwnedPod>, Vec<OwnedPod>) =
        std::mem::take(notes(cluster)).into_iter().partition(|noted| noted.pod.node_name == Some(symbol));
    *notes(cluster) = elsewhere;
    for noted in here {
        cluster.trial.remove_pod(&noted.pod.uid);
        release(&mut cluster.trial, &noted.pod);
        if noted.is_of_its_node() || noted.pod.deleting {
            continue;
        }
        let pod = Arc::new(with_new_ephemeral_claims(&mut cluster.trial, afresh(&noted.pod)));
        changed.from.insert(Arc::clone(&pod.uid), name.to_owned());
        changed.pods.push(Arc::clone(&pod));
        notes(cluster).push(OwnedPod { pod, ..noted });
    }
    cluster.trial.handle(Event::Gone(ObjectKey::Node(symbol)));
    Ok(())
}

fn resize(
    cluster: &mut Cluster,
    namespace: &str,
    scale: &Scale,
    changed: &mut Changed,
) -> Result<(), InputError> {
    let kind = kind_of(cluster, namespace, scale)?;
    if kind == "DaemonSet" {
        let text = "a DaemonSet runs one pod per node; use --add-nodes or --remove-node instead";
        return Err(InputError(format!("--scale {}: {text}", scale.name)));
    }
    reject_given(cluster, namespace, &kind, scale)?;
    let symbol = cluster.trial.tables_mut().symbol(namespace);
    let is_meant = |noted: &&OwnedPod| {
        noted.pod.namespace == symbol
            && !noted.pod.deleting
            && noted.owner.as_ref().is_some_and(|owner| *owner.kind == kind && *owner.name == scale.name)
    };
    let mut pods: Vec<OwnedPod> = notes(cluster).iter().filter(is_meant).cloned().collect();
    if pods.len() > scale.replicas {
        in_deletion_order(&mut pods, &kind);
        pods.truncate(pods.len() - scale.replicas);
        forget(cluster, &pods, changed);
        return Ok(());
    }
    let owners = cluster.owners.as_ref().expect("a cluster to change is loaded with a census");
    let template = owners
        .workloads
        .iter()
        .find(|it| it.kind == kind && it.namespace == namespace && it.name == scale.name);
    let like = pods.first().cloned().or_else(|| {
        let pod = Arc::clone(template?.pod.as_ref()?);
        let owner = Some(supercargo_whatif::prepare::owners::Owner {
            kind: kind.as_str().into(),
            name: scale.name.as_str().into(),
        });
        let created = "".into();
        Some(OwnedPod {
            pod,
            owner,
            created,
            is_mirror: false,
            has_empty_dir: false,
            is_pending: true,
            is_ready: false,
            eviction: EvictionNotes::default(),
        })
    });
    let Some(like) = like else {
        let text =
            format!("{kind} {namespace}/{} has no pods and no pod template to create them from", scale.name);
        return Err(InputError(format!("--scale {}: {text}", scale.name)));
    };
    let first = template.map_or(0, |template| template.first);
    for name in new_names(&pods, (&kind, &scale.name), scale.replicas, first) {
        let uid = format!("{kind}/{namespace}/{name}").into();
        let pod = PodInfo { uid, name: name.into(), ..afresh(&like.pod) };
        let pod = Arc::new(with_own_claims(&mut cluster.trial, &like.pod, pod));
        changed.pods.push(Arc::clone(&pod));
        notes(cluster).push(OwnedPod { pod, created: "~".into(), ..like.clone() });
    }
    Ok(())
}

/// Rejects a workload whose file is among the pods to place: the file and the flag would both set its number of pods.
fn reject_given(cluster: &Cluster, namespace: &str, kind: &str, scale: &Scale) -> Result<(), InputError> {
    let place = (namespace.to_owned(), kind.to_owned(), scale.name.clone());
    if !cluster.given_workloads.contains(&place) {
        return Ok(());
    }
    let field = match kind {
        "Job" => "spec.parallelism",
        "CronJob" => "spec.jobTemplate.spec.parallelism",
        _ => "spec.replicas",
    };
    Err(InputError(format!(
        "--scale {0}: {kind} {namespace}/{0} is among the pods to place; set {field} in its file instead",
        scale.name
    )))
}

/// Returns the kind of the workload with this name.
///
/// # Errors
/// Fails if no workload in the namespace has this name, or if several kinds do.
fn kind_of(cluster: &Cluster, namespace: &str, scale: &Scale) -> Result<String, InputError> {
    let owners = cluster.owners.as_ref().expect("a cluster to change is loaded with a census");
    let text = |symbol: Symbol| cluster.trial.tables().text(symbol);
    let of_pods = owners.pods.iter().filter_map(|noted| {
        let owner = noted.owner.as_ref().filter(|owner| &*owner.kind != "Node")?;
        Some((text(noted.pod.namespace), &*owner.kind, &*owner.name))
    });
    let of_workloads =
        owners.workloads.iter().map(|it| (it.namespace.as_str(), it.kind.as_str(), it.name.as_str()));
    let given = cluster.given_workloads.iter();
    let given = given.map(|(namespace, kind, name)| (namespace.as_str(), kind.as_str(), name.as_str()));
    let all: BTreeSet<(&str, &str, &str)> = of_pods.chain(of_workloads).chain(given).collect();
    let is_kind = |kind: &str| scale.kind.as_ref().is_none_or(|written| means_kind(written, kind));
    let named = all.iter().filter(|&&(_, kind, name)| name == scale.name && is_kind(kind));
    let here: Vec<&str> = named.clone().filter(|it| it.0 == namespace).map(|it| it.1).collect();
    match here.as_slice() {
        [kind] => return Ok((*kind).to_owned()),
        [] => {}
        several => {
            let text = format!("{} share the name {}", several.join(" and "), scale.name);
            return Err(InputError(format!(
                "--scale: {text}; add the kind, for example {}/{}",
                several[0].to_lowercase(),
                scale.name
            )));
        }
    }
    // Owners of other kinds, such as those of an operator, can be scaled, too.
    let known = WORKLOADS.iter().map(|it| it.0).chain(all.iter().map(|it| it.1));
    if let Some(written) = scale.kind.as_ref().filter(|_| !known.into_iter().any(is_kind)) {
        return Err(InputError(format!(
            "--scale {written}/{}: {written} is not a workload; use deployment, statefulset, replicaset, \
             replicationcontroller or job",
            scale.name
        )));
    }
    let elsewhere = named.map(|it| format!("-n {}", it.0)).next();
    let near =
        || nearest(&scale.name, all.iter().filter(|it| it.0 == namespace && is_kind(it.1)).map(|it| it.2));
    let meant = match elsewhere {
        Some(elsewhere) => format!("; it exists with {elsewhere}"),
        None => near()
            .map_or_else(|| "; check the name and -n".to_owned(), |name| format!("; did you mean {name}?")),
    };
    let what = scale.kind.as_deref().unwrap_or("workload");
    Err(InputError(format!("{what} {} not found in namespace {namespace}{meant}", scale.name)))
}

fn forget(cluster: &mut Cluster, pods: &[OwnedPod], changed: &mut Changed) {
    let gone: BTreeSet<&Uid> = pods.iter().map(|noted| &noted.pod.uid).collect();
    let to_come = cluster.templates.iter().map(|pod| Arc::clone(&pod.uid)).collect();
    remove(&mut cluster.trial, pods.iter().map(|noted| &*noted.pod), &to_come);
    cluster.pending.retain(|pod| !gone.contains(&pod.uid));
    changed.pods.retain(|pod| !gone.contains(&pod.uid));
    changed.from.retain(|uid, _| !gone.contains(uid));
    notes(cluster).retain(|noted| !gone.contains(&noted.pod.uid));
}
