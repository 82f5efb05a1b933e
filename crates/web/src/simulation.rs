//! Simulations of whole scenarios, which the golden vectors are compared with.

use crate::protocol::Simulate;
use crate::session::{known_version, warn};
use serde_json::{Value, json};
use supercargo_core::model::emulation::Compat;
use supercargo_core::model::rng::Seed;
use supercargo_whatif::load::files::{Files, InputError, Item, Origin};
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::simulate::decide::{Detail, PreemptionMode, Rules, TieBreak};
use supercargo_whatif::simulate::run::Simulation;
use supercargo_whatif::simulate::{gates, profiles};

/// Returns the decisions, as the field `decisions` of the report of `supercargo simulate`.
pub(crate) fn simulate(request: Simulate) -> Result<Value, InputError> {
    let Simulate { cluster, pods, config, version, compat_upstream, as_written, feature_gates } = request;
    let compat = if compat_upstream { Compat::Upstream } else { Compat::default() };
    let version = known_version(version.as_deref())?;
    let groups = gates::of_text(&feature_gates, version)?;
    let mut trial = profiles::trial(None, version, compat, groups)?;
    if let Some(config) = config {
        let profiles = profiles::profiles_of_text("config", &config.to_string(), trial.tables_mut())?;
        trial.set_profiles(profiles);
    }
    let rules = Rules {
        tie_break: TieBreak::Name,
        seed: Seed(0),
        preemption: PreemptionMode::Report,
        detail: Detail::Full,
    };
    let items = |values: Vec<Value>| {
        values.into_iter().map(|value| Item::new(value, Origin::default())).collect::<Vec<_>>()
    };
    let files = Files::within(InputLimit::default(), warn);
    let simulation = Simulation::of(&files, (items(cluster), items(pods)), trial, rules, as_written)?;
    Ok(json!({ "decisions": simulation.decisions() }))
}
