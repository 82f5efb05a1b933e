//! Determines the plugins at each extension point and their order, by expanding `multiPoint`. Reports what
//! upstream rejects when it builds a profile's framework. Upstream:
//! `pkg/scheduler/framework/runtime/framework.go#NewFramework`.

use crate::v1::plugins::{ALL, POINTS, field_of};
use crate::v1::validate;
use crate::v1::{Args, Plugin, PluginSet, Plugins, Profile};
use crate::yaml::field::Problem;
use std::collections::BTreeMap;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::framework::{MAX_NODE_SCORE, PluginName};
use supercargo_core::model::emulation::VersionRules;
use supercargo_core::registry;

/// Plugins of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Order {
    /// Plugins of each extension point, in order.
    pub(crate) points: Points,
    /// Weights of the Score plugins.
    pub(crate) weights: BTreeMap<PluginName, i64>,
}

type Points = BTreeMap<ExtensionPoint, Vec<PluginName>>;

/// Returns the plugins of a profile with defaults; `written` is the profile without them. `rules` are those of the
/// emulated version.
///
/// # Errors
/// Returns upstream's message and the field.
pub(crate) fn order(
    profile: &Profile,
    written: &Profile,
    rules: VersionRules,
    path: &str,
) -> Result<Order, Problem> {
    let name = profile.scheduler_name.as_deref().unwrap_or_default();
    let wrong = |problem: Problem| Problem {
        path: [path, &problem.path].concat(),
        text: format!("initializing profiles: creating profile for scheduler name {name}: {}", problem.text),
        ..problem
    };
    let plugins = profile.plugins.clone().unwrap_or_default();
    made(profile, &plugins, rules).map_err(wrong)?;
    let mut points = Points::new();
    for point in POINTS {
        let (kind, field) = (format!("{}Plugin", point.as_str()), field_of(point));
        let implements = |name: &str| registry::implements(name, point, rules);
        points.insert(point, listed(&kind, field, plugins.at(point), implements, rules).map_err(wrong)?);
    }
    let of_groups = &plugins.pod_group_post_filter;
    let implements = |name: &str| POD_GROUP_POST_FILTERS.contains(&name);
    listed("PodGroupPostFilterPlugin", "podGroupPostFilter", of_groups, implements, rules).map_err(wrong)?;
    for point in POINTS {
        let explicit = points.get_mut(&point).expect("it was put there");
        expand(point, &plugins, explicit, rules).map_err(|(name, text)| {
            let enabled =
                written.plugins.as_ref().map(|p| p.multi_point.enabled.as_slice()).unwrap_or_default();
            let at = enabled.iter().rposition(|plugin| plugin.name == name).unwrap_or_default();
            let problem = Problem::new(format!(".plugins.multiPoint.enabled[{at}]"), text);
            wrong(if registry::find(name, rules).is_none() {
                problem.meaning(name, registry::names(rules))
            } else {
                problem
            })
        })?;
    }
    complete(&points, name).map_err(wrong)?;
    let weigh = |point, kind: &str| {
        let field = format!(".plugins.{}", field_of(point));
        weights(&plugins, point, rules)
            .map_err(|text| wrong(Problem::new(field, format!("{kind} plugins: {text}"))))
    };
    let weights = weigh(ExtensionPoint::Score, "score")?;
    weigh(ExtensionPoint::PlacementScore, "placement score")?;
    Ok(Order { points, weights })
}

/// Checks that the enabled plugins can be created.
fn made(profile: &Profile, plugins: &Plugins, rules: VersionRules) -> Result<(), Problem> {
    let names = plugins.names();
    for (at, config) in profile.plugin_config.iter().enumerate() {
        let Args::NodeResourcesFit(args) = &config.args else { continue };
        let problems = validate::fit_problems(args, rules);
        let Some(first) = problems.first().filter(|_| names.contains(&config.name)) else { continue };
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let text = supercargo_objects::convert::syntax::aggregate(&messages);
        let field = format!(".pluginConfig[{at}].args.{}", first.path);
        return Err(Problem::new(field, format!("initializing plugin {:?}: {text}", config.name)));
    }
    Ok(())
}

/// Plugins with the extension point `podGroupPostFilter`, which nothing reaches without its feature gate.
const POD_GROUP_POST_FILTERS: [&str; 2] = ["DefaultPreemption", "DynamicResources"];

/// Returns the plugins that an extension point lists itself.
fn listed(
    kind: &str,
    field: &str,
    set: &PluginSet,
    implements: impl Fn(&str) -> bool,
    rules: VersionRules,
) -> Result<Vec<PluginName>, Problem> {
    let mut listed: Vec<PluginName> = Vec::new();
    for (at, Plugin { name, .. }) in set.enabled.iter().enumerate() {
        let field = format!(".plugins.{field}.enabled[{at}]");
        let Some(known) = registry::find(name, rules) else {
            let problem = Problem::new(field, format!("{kind} {name:?} does not exist"));
            return Err(problem.meaning(name, registry::names(rules)));
        };
        if !implements(name) {
            return Err(Problem::new(field, format!("plugin {name:?} does not extend {kind} plugin")));
        }
        if listed.contains(&known) {
            return Err(Problem::new(field, format!("plugin {name:?} already registered as {kind:?}")));
        }
        listed.push(known);
    }
    Ok(listed)
}

/// Inserts the plugins of `multiPoint` into an extension point. Order: plugins listed in both, in the point's
/// order; other plugins of `multiPoint`; other plugins of the point. An error contains the name of the
/// plugin.
fn expand<'p>(
    point: ExtensionPoint,
    plugins: &'p Plugins,
    order: &mut Vec<PluginName>,
    rules: VersionRules,
) -> Result<(), (&'p str, String)> {
    let is_disabled = |name: &str| plugins.at(point).disabled.iter().any(|plugin| plugin.name == name);
    if is_disabled(ALL) {
        return Ok(());
    }
    let kind = format!("{}Plugin", point.as_str());
    let (mut overridden, mut added) = (Vec::new(), Vec::new());
    for Plugin { name, .. } in &plugins.multi_point.enabled {
        let Some(known) = registry::find(name, rules) else {
            return Err((name, format!("{kind} {name:?} does not exist")));
        };
        if !registry::implements(name, point, rules) || is_disabled(name) {
            continue;
        }
        if order.contains(&known) {
            overridden.push(known);
        } else if added.contains(&known) {
            return Err((name, format!("plugin {name:?} already registered as {kind:?}")));
        } else {
            added.push(known);
        }
    }
    let (first, last): (Vec<_>, Vec<_>) = order.iter().partition(|name| overridden.contains(name));
    *order = [first, added, last].concat();
    Ok(())
}

/// Checks that the required plugins are enabled.
fn complete(points: &Points, name: &str) -> Result<(), Problem> {
    let count = |point| points.get(&point).map_or(0, Vec::len);
    let sorters = count(ExtensionPoint::QueueSort);
    if sorters != 1 {
        let text = format!(
            "only one queue sort plugin required for profile with scheduler name {name:?}, but got {sorters}"
        );
        return Err(Problem::new(".plugins.queueSort", text));
    }
    if count(ExtensionPoint::Bind) == 0 {
        let text = format!("at least one bind plugin is needed for profile with scheduler name {name:?}");
        return Err(Problem::new(".plugins.bind", text));
    }
    if count(ExtensionPoint::PlacementGenerate) > 1 {
        let text = format!(
            "at most one placement generate plugin is allowed for profile with scheduler name {name:?}"
        );
        return Err(Problem::new(".plugins.placementGenerate", text));
    }
    Ok(())
}

/// Returns the weights at an extension point: the point's, or else those of `multiPoint`; 0 counts as 1.
///
/// # Errors
/// Fails if the sum of all could overflow by upstream's check, which also fails if a partial sum is negative.
fn weights(
    plugins: &Plugins,
    point: ExtensionPoint,
    rules: VersionRules,
) -> Result<BTreeMap<PluginName, i64>, String> {
    let (mut weights, mut total) = (BTreeMap::new(), 0i64);
    for Plugin { name, weight } in plugins.at(point).enabled.iter().chain(&plugins.multi_point.enabled) {
        let known = registry::find(name, rules).filter(|name| registry::implements(name, point, rules));
        let Some(name) = known.filter(|name| !weights.contains_key(name)) else { continue };
        let weight = if *weight == 0 { 1 } else { i64::from(*weight) };
        let share = weight * MAX_NODE_SCORE;
        if share > i64::MAX.wrapping_sub(total) {
            return Err("total score of Score plugins could overflow".to_owned());
        }
        total += share;
        weights.insert(name, weight);
    }
    Ok(weights)
}
