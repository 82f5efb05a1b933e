//! Pod groups in the cluster language, and the feature gates that enable them.

use supercargo_core::cycle::Framework;
use supercargo_core::model::effect::GroupPatch;
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::model::event::{Event, Kind};
use supercargo_core::model::group::{
    DisruptionMode, GroupApi, GroupCondition, GroupKey, GroupPolicy, PodGroup,
};
use supercargo_core::model::group_options::{self, GroupOptions};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::group::{GroupReport, MemberReport, PlacementReport};
use supercargo_core::scheduler::{Profile, Reconfiguration, Scheduler};

/// Parses a PodGroup, name first: `group g ns=default min=3 key=zone priority=5 whole scheduled`. Other words are
/// annotations of ours, without their prefix: `replacements=together`.
/// Without `min`, it is basic. With `scheduled`, its condition says so; with `overwritten`, it says that it is not.
pub(crate) fn group(tables: &mut Tables, words: &[&str]) -> PodGroup {
    let (name, words) = words.split_first().expect("a group has a name");
    let is_new = tables.rules().version >= EmulatedVersion::V1_37;
    let mut group = PodGroup {
        key: GroupKey { namespace: tables.symbol("default"), name: tables.symbol(name) },
        api: if is_new { GroupApi::V1Beta1 } else { GroupApi::V1Alpha2 },
        uid: (*name).into(),
        generation: 1,
        policy: GroupPolicy::Basic,
        topology: None,
        disruption: DisruptionMode::Single,
        priority: 0,
        options: Ok(GroupOptions::default()),
        scheduled: None,
    };
    let mut annotations = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "ns" => group.key.namespace = tables.symbol(value),
            "min" => group.policy = GroupPolicy::Gang(value.parse().expect("a number of members")),
            "key" => group.topology = Some([tables.symbol(value)].into()),
            "priority" => group.priority = value.parse().expect("a priority"),
            "whole" => group.disruption = DisruptionMode::All,
            "scheduled" | "overwritten" => {
                let is_true = key == "scheduled";
                let reason = if is_true { "Scheduled" } else { "Foreign" }.into();
                let condition =
                    GroupCondition { is_true, reason, message: "".into(), observed_generation: 1 };
                group.scheduled = Some(condition);
            }
            _ if group_options::ALL.iter().any(|it| it.ends_with(&format!("/{key}"))) => {
                annotations.push((key, value));
            }
            _ => panic!("a group has no {word:?}"),
        }
    }
    let get = |name: &str| {
        let of = |(key, _): &&(&str, &str)| name.ends_with(&format!("/{key}"));
        annotations.iter().find(of).map(|&(_, value)| value)
    };
    group.options = GroupOptions::parse(get, group.policy, tables);
    group
}

/// Handles an input line about groups.
pub(crate) fn act(scheduler: &mut Scheduler, now: Time, verb: &str, words: &[&str]) {
    if verb == "gates" {
        return set_gates(scheduler, now, words);
    }
    let group = group(scheduler.tables(), words);
    scheduler.handle(now, Event::PodGroupApplied(Box::new(group)));
}

/// Turns feature gates on, with their plugins. With the word `upstream`, upstream's behavior is reproduced.
fn set_gates(scheduler: &mut Scheduler, now: Time, words: &[&str]) {
    let mut gates = GroupGates::OFF;
    for word in words {
        if *word == "upstream" {
            scheduler.tables().set_compat(Compat::Upstream);
        } else {
            assert!(gates.set(word, true), "no gate {word}");
        }
    }
    scheduler.tables().set_group_gates(gates);
    let rules = scheduler.tables().rules();
    let framework = Framework::new(&Plan::of(rules));
    let profiles = vec![Profile { name: "default-scheduler".to_owned(), framework }];
    let QueueConfig { initial_backoff, max_backoff, .. } = QueueConfig::default();
    let (emulated_version, extenders) = (rules.version, Vec::new());
    let to = Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders };
    scheduler.reconfigure(now, to);
    for event in [Event::ListBegan(Kind::PodGroup), Event::ListEnded(Kind::PodGroup)] {
        scheduler.handle(now, event);
    }
}

/// Describes a patch of a group's condition.
pub(crate) fn patch_line(patch: &GroupPatch) -> String {
    let GroupPatch { api, namespace, name, condition, is_transition, .. } = patch;
    let (kind, reason) = (api.condition_type(), &condition.reason);
    let status = if *is_transition {
        condition.is_true.to_string()
    } else {
        format!("{} as before", condition.is_true)
    };
    format!("patch group {namespace}/{name} {kind}={status} {reason}: {}", condition.message)
}

/// Describes the report of a group's cycle, with a line for each member and each placement.
pub(crate) fn describe_report(report: &GroupReport) -> String {
    let GroupReport { namespace, name, outcome, status, chosen, preemption, victims, .. } = report;
    let victims: Vec<&str> = victims.iter().map(|victim| victim.name.as_str()).collect();
    let mut lines = vec![
        format!("report of {namespace}/{name}: {outcome:?} {status:?}"),
        format!("  chosen {chosen:?}, preemption {preemption:?}, victims {victims:?}"),
    ];
    lines.extend(report.members.iter().map(|member| {
        let MemberReport { pod, node, code, message, permit, preempts } = member;
        format!("  {}: {code} {node:?}, permit {permit:?}, preempts {preempts}: {message:?}", pod.name)
    }));
    lines.extend(report.placements.iter().map(|placement| {
        let PlacementReport { name, nodes, code, status, placed: _, members, scores } = placement;
        let members: Vec<String> =
            members.iter().map(|(pod, node)| format!("{} on {node}", pod.name)).collect();
        format!("  placement {name} of {nodes} nodes: {code} {status:?}, {members:?}, {scores:?}")
    }));
    lines.join("\n")
}
