//! The cluster language.
//!
//! ```text
//! node a zone=z1 cpu=4 mem=8Gi pods=110 eph=10Gi res:example.com/gpu=2 label:k=v taint=key=value:NoSchedule
//!        unschedulable nohost image=nginx:latest@250Mi
//! pod p on=a ns=default label:app=web cpu=1 mem=1Gi eph=1Gi res:example.com/gpu=1 pod-cpu=2 pod-mem=1Gi containers=2
//!       priority=5 group=g started=7 never-preempts preempted gate=g nominated=a deleting owner=ReplicaSet/rs
//!       image=nginx:latest port=80 port=127.0.0.1:80 port=UDP/:53
//!       tolerate=* tolerate=key tolerate=key=value tolerate=level<10 tolerate==value, each with :Effect or without
//!       select:k=v require=zone:in:a,b;disk=ssd;@name:in:a require= require=! prefer=5/zone=a prefer=! prefer=?error
//!       spread=zone/1/DoNotSchedule/app=web[/min=3][/honor-taints][/ignore-affinity]
//!       affinity=zone/app=web[/ns=x,y][/nssel=env=prod] anti=... prefer-affinity=10/zone/app=web prefer-anti=...
//! namespace n label:k=v
//! service s ns=default select:app=web        controller ReplicaSet/rs ns=default app=web
//! device-class c serves=example.com/gpu      (always serves its own name as well)
//! budget b ns=default allowed=1 disrupted=p,q app=web
//! ```
//!
//! Selectors: `k=v`, `k:in:a,b`, `k:notin:a`, `k:exists`, `k:absent`, `k:gt:5`, `k:lt:5`, joined by `;`. `*` selects
//! all, and `-` is an absent selector. `zone`, `region` and `host` are short for the well-known labels; `@name` in a
//! node term is the node's name. The words about storage are in `storage.rs`.

use super::{NodeBuilder, PodBuilder, TestCluster, storage};
use std::sync::Arc;
use supercargo_core::model::device::DeviceClass;
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::model::lookup_objects::{DisruptionBudget, Service};
use supercargo_core::model::node::{NodeInfo, TaintEffect};
use supercargo_core::model::pod::{
    ControllerKind, PodAffinityTerm, PodInfo, PreferredNodeTerm, SpreadConstraint, TolerationOperator,
    WhenUnsatisfiable,
};
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, Requirement, Selector, TermDemands};

/// Applies one line of the language to the world.
pub(crate) fn apply(cluster: &mut TestCluster, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&kind, words) = words.split_first().expect("empty lines are left out");
    match kind {
        "node" => {
            let node = node(&mut cluster.tables, words);
            cluster.add_node(&node);
        }
        "pod" => {
            let pod = pod(&mut cluster.tables, words);
            cluster.place(&pod);
        }
        "nominated" => {
            let pod = pod(&mut cluster.tables, words);
            let node = pod.nominated_node.expect("a nominated pod needs nominated=<node>");
            cluster.cache.nominate(&pod, Some(node));
        }
        "namespace" => {
            let (name, labels) = namespace(&mut cluster.tables, words);
            cluster.cache.lookups_mut().set_namespace(name, labels);
        }
        "emulate" => cluster.tables.emulate(words[0].parse().expect("a version")),
        "service" => service(cluster, words),
        "controller" => controller(cluster, words),
        "device-class" => {
            let (name, class) = device_class(&mut cluster.tables, words);
            cluster.cache.set_device_class(&cluster.tables, name, &class);
        }
        "budget" => {
            let (namespace, name, budget) = budget(&mut cluster.tables, words);
            cluster.cache.lookups_mut().set_disruption_budget(namespace, name, budget);
        }
        other => {
            assert!(storage::apply(cluster, line), "the cluster language has no {other:?}: {line}");
        }
    }
}

/// Parses a node, name first.
pub(crate) fn node(tables: &mut Tables, words: &[&str]) -> Arc<NodeInfo> {
    let (name, words) = words.split_first().expect("a node has a name");
    let mut node = NodeBuilder::new(tables, name);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        node = match key {
            "zone" => node.zone(value),
            "cpu" => node.cpu(milli(value)),
            "mem" => node.memory(bytes(value)),
            "eph" => node.ephemeral_storage(bytes(value)),
            "pods" => node.pods(bytes(value)),
            "taint" => {
                let (taint, effect) = value.rsplit_once(':').expect("taint=key:Effect");
                let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
                let effect = taint_effect(node.tables(), effect);
                node.taint(key, value, effect)
            }
            "unschedulable" => node.unschedulable(),
            "nohost" => node.without_hostname(),
            "declares" => node.declares(value),
            "image" => {
                let (name, size) = value.rsplit_once('@').expect("image=name:tag@size");
                node.image(name, bytes(size))
            }
            other => match other.split_once(':') {
                Some(("label", key)) => node.label(key, value),
                Some(("res", name)) => node.scalar(name, bytes(value)),
                _ => panic!("a node has no {word:?}"),
            },
        };
    }
    node.build()
}

/// Parses a pod, name first.
pub(crate) fn pod(tables: &mut Tables, words: &[&str]) -> Arc<PodInfo> {
    let (name, words) = words.split_first().expect("a pod has a name");
    let mut pod = PodBuilder::new(tables, name);
    let mut about_storage = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if storage::is_of_pod(key) {
            about_storage.push(*word);
            continue;
        }
        pod = match key {
            "on" => pod.on(value),
            "ns" => pod.namespace(value),
            "nominated" => pod.nominated(value),
            "deleting" => pod.deleting(),
            "started" => pod.started(value.parse().expect("a start in seconds")),
            "never-preempts" => pod.never_preempts(),
            "preempted" => pod.preempted(),
            "scheduler" => pod.scheduler(value),
            "said" => pod.said(&value.replace('_', " ")),
            "gate" => pod.gate(value),
            "group" => pod.in_group(value),
            "created" => pod.created(value.parse().expect("seconds")),
            "priority" => pod.priority(value.parse().expect("a priority")),
            "containers" => pod.containers(value.parse().expect("a number of containers")),
            "owner" => {
                let (kind, name) = value.split_once('/').expect("owner=Kind/name");
                pod.owner(controller_kind(kind), name)
            }
            "cpu" => pod.cpu(milli(value)),
            "mem" => pod.memory(bytes(value)),
            "pod-cpu" => pod.pod_cpu(milli(value)),
            "pod-mem" => pod.pod_memory(bytes(value)),
            "eph" => pod.ephemeral_storage(bytes(value)),
            "image" => pod.image(value),
            "port" => host_port(pod, value),
            "tolerate" => toleration(pod, value),
            _ => affinities(pod, key, value),
        };
    }
    let pod = pod.build();
    storage::with_storage(tables, pod, &about_storage)
}

fn affinities<'t>(mut pod: PodBuilder<'t>, key: &str, value: &str) -> PodBuilder<'t> {
    match (key, value) {
        ("require", "!") => pod.require(None),
        ("require", term) => {
            let term = node_term(pod.tables(), term);
            pod.require(Some(term))
        }
        ("prefer", "!") => pod.prefer(None),
        ("prefer", broken) if broken.starts_with('?') => pod.prefer_broken(&broken[1..]),
        ("prefer", term) => {
            let (weight, term) = weighted(term);
            let term = node_term(pod.tables(), term);
            pod.prefer(Some(PreferredNodeTerm { weight, term }))
        }
        ("spread", constraint) => {
            let constraint = spread(pod.tables(), constraint);
            pod.spread(constraint)
        }
        ("affinity", term) => {
            let term = pod_term(&mut pod, term);
            pod.affinity(term)
        }
        ("anti", term) => {
            let term = pod_term(&mut pod, term);
            pod.anti_affinity(term)
        }
        ("prefer-affinity", term) => {
            let (weight, term) = weighted(term);
            let term = pod_term(&mut pod, term);
            pod.prefer_affinity(weight, term)
        }
        ("prefer-anti", term) => {
            let (weight, term) = weighted(term);
            let term = pod_term(&mut pod, term);
            pod.prefer_anti_affinity(weight, term)
        }
        (other, value) => match other.split_once(':') {
            Some(("label", key)) => pod.label(key, value),
            Some(("res", name)) => pod.scalar(name, bytes(value)),
            Some(("select", key)) => pod.select(label_key(key), value),
            _ => panic!("a pod has no {other:?}"),
        },
    }
}

fn weighted(text: &str) -> (i32, &str) {
    let (weight, rest) = text.split_once('/').expect("a weight, then a slash");
    (weight.parse().expect("a weight is a number"), rest)
}

/// Parses `port`, `address:port` or `protocol/address:port`.
fn host_port<'t>(pod: PodBuilder<'t>, text: &str) -> PodBuilder<'t> {
    let (protocol, rest) = text.split_once('/').unwrap_or(("TCP", text));
    let (address, port) = rest.rsplit_once(':').unwrap_or(("", rest));
    let address = if address.is_empty() { "0.0.0.0" } else { address };
    pod.port(protocol, address, port.parse().expect("a port is a number"))
}

fn toleration<'t>(mut pod: PodBuilder<'t>, text: &str) -> PodBuilder<'t> {
    let (text, effect) = match text.rsplit_once(':') {
        Some((rest, effect)) => (rest, Some(taint_effect(pod.tables(), effect))),
        None => (text, None),
    };
    if text == "*" {
        return pod.tolerate("", TolerationOperator::Exists, "", effect);
    }
    if let Some((key, value)) = text.split_once('=') {
        return pod.tolerate(key, TolerationOperator::Equal, value, effect);
    }
    match text.split_once(['<', '>']) {
        Some((key, value)) => pod.tolerate(key, TolerationOperator::Never, value, effect),
        None => pod.tolerate(text, TolerationOperator::Exists, "", effect),
    }
}

fn taint_effect(tables: &mut Tables, text: &str) -> TaintEffect {
    match text {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => TaintEffect::Other(tables.symbol(other)),
    }
}

/// Returns the full key of a label with a short form.
pub(crate) fn label_key(key: &str) -> &str {
    match key {
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "host" => "kubernetes.io/hostname",
        other => other,
    }
}

/// Parses a label selector: requirements joined by `;`, or `*`, or `-`.
pub(crate) fn selector(tables: &mut Tables, text: &str) -> Selector {
    match text {
        "-" => Selector::Nothing,
        "*" => Selector::All([].into()),
        text => Selector::All(text.split(';').map(|part| requirement(tables, part)).collect()),
    }
}

/// Parses a requirement: `k=v` or `k:operator:values`.
pub(crate) fn requirement(tables: &mut Tables, text: &str) -> Requirement {
    if let Some((key, value)) = text.split_once('=') {
        let (key, value) = (tables.symbol(label_key(key)), tables.symbol(value));
        return Requirement { key, operator: Operator::In([value].into()) };
    }
    let mut parts = text.splitn(3, ':');
    let (key, word) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let values = parts.next().unwrap_or("");
    let mut symbols = || values.split(',').map(|v| tables.symbol(v)).collect::<Box<[Symbol]>>();
    let operator = match word {
        "in" => Operator::In(symbols().into()),
        "notin" => Operator::NotIn(symbols().into()),
        "exists" => Operator::Exists,
        "absent" => Operator::DoesNotExist,
        "gt" => Operator::Gt(values.parse().expect("gt takes a number")),
        "lt" => Operator::Lt(values.parse().expect("lt takes a number")),
        _ => panic!("no requirement: {text:?}"),
    };
    Requirement { key: tables.symbol(label_key(key)), operator }
}

/// Parses a node selector term: requirements joined by `;`, of which `@name:in:..` and `@name:notin:..` refer to the
/// node's name. Without requirements it is empty. With several names in one entry it is malformed, but still pins the
/// nodes.
pub(crate) fn node_term(tables: &mut Tables, text: &str) -> NodeSelectorTerm {
    let (mut labels, mut names) = (Vec::new(), Vec::new());
    let (mut pinned, mut broken) = (None::<Vec<Symbol>>, text.is_empty());
    for part in text.split(';').filter(|part| !part.is_empty()) {
        let Some(field) = part.strip_prefix("@name:") else {
            labels.push(requirement(tables, part));
            continue;
        };
        let (operator, values) = field.split_once(':').expect("@name:in:a or @name:notin:a");
        let values: Vec<Symbol> = values.split(',').map(|v| tables.symbol(v)).collect();
        broken |= values.len() != 1;
        names.push((values[0], operator == "notin"));
        if operator == "in" {
            pinned = Some(match pinned {
                None => values,
                Some(so_far) => so_far.into_iter().filter(|name| values.contains(name)).collect(),
            });
        }
    }
    let demands = TermDemands { labels: labels.into(), names: names.into() };
    NodeSelectorTerm { demands: (!broken).then_some(demands), pinned_names: pinned.map(Into::into) }
}

/// Parses `topology/selector`, then `/ns=a,b` and `/nssel=selector` in any order.
fn pod_term(pod: &mut PodBuilder<'_>, text: &str) -> PodAffinityTerm {
    let mut parts = text.split('/');
    let topology = parts.next().expect("a topology key");
    let chosen = parts.next().expect("affinity=topology/selector");
    let own = pod.current_namespace();
    let tables = pod.tables();
    let mut term = PodAffinityTerm {
        namespaces: [].into(),
        namespace_selector: Selector::Nothing,
        selector: selector(tables, chosen),
        topology_key: tables.symbol(label_key(topology)),
    };
    let mut own_only = true;
    for option in parts {
        own_only = false;
        match option.split_once('=') {
            Some(("ns", names)) => term.namespaces = names.split(',').map(|n| tables.symbol(n)).collect(),
            Some(("nssel", chosen)) => term.namespace_selector = selector(tables, chosen),
            _ => panic!("an affinity term has no {option:?}"),
        }
    }
    if own_only {
        term.namespaces = [own].into();
    }
    term
}

/// Parses `topology/maxSkew/whenUnsatisfiable/selector`, then `/min=n`, `/honor-taints` and `/ignore-affinity`.
fn spread(tables: &mut Tables, text: &str) -> SpreadConstraint {
    let parts: Vec<&str> = text.split('/').collect();
    let [topology, skew, when, chosen, options @ ..] = parts.as_slice() else {
        panic!("spread=topology/maxSkew/whenUnsatisfiable/selector, not {text:?}");
    };
    let mut constraint = SpreadConstraint {
        max_skew: skew.parse().expect("maxSkew is a number"),
        topology_key: tables.symbol(label_key(topology)),
        when_unsatisfiable: match *when {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            _ => WhenUnsatisfiable::Unknown,
        },
        selector: match chosen.strip_prefix('?') {
            Some(error) => Err(error.into()),
            None => Ok(selector(tables, chosen)),
        },
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("min", number) => constraint.min_domains = number.parse().expect("minDomains is a number"),
            ("honor-taints", _) => constraint.honor_node_taints = true,
            ("ignore-affinity", _) => constraint.honor_node_affinity = false,
            _ => panic!("a spread constraint has no {option:?}"),
        }
    }
    constraint
}

/// Parses a namespace, name first, and its labels.
pub(crate) fn namespace(tables: &mut Tables, words: &[&str]) -> (Symbol, LabelSetId) {
    let name = tables.symbol(words[0]);
    let pairs = words[1..].iter().map(|word| {
        let (key, value) =
            word.strip_prefix("label:").and_then(|w| w.split_once('=')).expect("label:key=value");
        (tables.symbol(key), tables.symbol(value))
    });
    let pairs = pairs.collect();
    (name, tables.label_set(pairs))
}

/// Splits `words` into the namespace and the other words.
fn namespaced<'w>(tables: &mut Tables, words: &[&'w str]) -> (Symbol, Vec<&'w str>) {
    let (named, rest): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("ns="));
    let namespace = named.first().map_or("default", |word| &word[3..]);
    (tables.symbol(namespace), rest)
}

fn service(cluster: &mut TestCluster, words: &[&str]) {
    let name = cluster.tables.symbol(words[0]);
    let (namespace, words) = namespaced(&mut cluster.tables, &words[1..]);
    let pairs: Box<[(Symbol, Symbol)]> = words
        .iter()
        .map(|word| {
            let (key, value) =
                word.strip_prefix("select:").and_then(|w| w.split_once('=')).expect("select:key=value");
            (cluster.tables.symbol(key), cluster.tables.symbol(value))
        })
        .collect();
    let selector = (!pairs.is_empty()).then_some(pairs);
    cluster.cache.lookups_mut().set_service(namespace, name, Service { selector });
}

/// Parses a disruption budget, name first. The selector is optional.
pub(crate) fn budget(tables: &mut Tables, words: &[&str]) -> (Symbol, Symbol, DisruptionBudget) {
    let name = tables.symbol(words[0]);
    let (namespace, words) = namespaced(tables, &words[1..]);
    let mut budget =
        DisruptionBudget { selector: Selector::Nothing, disruptions_allowed: 0, disrupted_pods: [].into() };
    for word in words {
        match word.split_once('=') {
            Some(("allowed", number)) => budget.disruptions_allowed = number.parse().expect("a number"),
            Some(("disrupted", names)) => budget.disrupted_pods = names.split(',').map(Into::into).collect(),
            _ => budget.selector = selector(tables, word),
        }
    }
    (namespace, name, budget)
}

/// Parses a DeviceClass, name first.
pub(crate) fn device_class(tables: &mut Tables, words: &[&str]) -> (Symbol, Arc<DeviceClass>) {
    let implicit = tables.symbol(&format!("deviceclass.resource.kubernetes.io/{}", words[0]));
    let explicit = words.get(1).map(|word| word.strip_prefix("serves=").expect("serves=resource"));
    let explicit = explicit.map(|name| tables.symbol(name));
    let class = DeviceClass { implicit, explicit, created: None, selectors: [].into(), config: [].into() };
    (tables.symbol(words[0]), Arc::new(class))
}

fn controller(cluster: &mut TestCluster, words: &[&str]) {
    let (kind, name) = words[0].split_once('/').expect("controller Kind/name");
    let (kind, name) = (controller_kind(kind), cluster.tables.symbol(name));
    let (namespace, words) = namespaced(&mut cluster.tables, &words[1..]);
    let demands = words.iter().map(|word| requirement(&mut cluster.tables, word)).collect();
    cluster.cache.lookups_mut().set_controller(kind, namespace, name, demands);
}

fn controller_kind(text: &str) -> ControllerKind {
    match text {
        "ReplicationController" => ControllerKind::ReplicationController,
        "ReplicaSet" => ControllerKind::ReplicaSet,
        "StatefulSet" => ControllerKind::StatefulSet,
        other => panic!("unknown controller kind: {other:?}"),
    }
}

/// Parses cpu: `2` or `500m`.
pub(crate) fn milli(text: &str) -> i64 {
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().expect("cpu is a number of cores or of millis"),
        None => text.parse::<i64>().expect("cpu is a number of cores or of millis") * 1000,
    }
}

/// Parses bytes: `10`, `10Ki`, `10Mi` or `10Gi`.
pub(crate) fn bytes(text: &str) -> i64 {
    let (digits, shift) = match text {
        _ if text.ends_with("Ki") => (&text[..text.len() - 2], 10),
        _ if text.ends_with("Mi") => (&text[..text.len() - 2], 20),
        _ if text.ends_with("Gi") => (&text[..text.len() - 2], 30),
        _ => (text, 0),
    };
    digits.parse::<i64>().expect("an amount is a number, with Ki, Mi or Gi or without") << shift
}
