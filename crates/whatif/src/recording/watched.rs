//! Replays an observer's recording with a shadow: compares the observed bindings with a configuration, in the
//! cluster state of that moment.

use crate::recording::entry::{Bad, Entries, What};
use crate::recording::header::{Header, settings};
use crate::recording::replay::{Summary, event_of};
use std::io::BufRead;
use std::time::Duration;
use supercargo_config::{ProfileSettings, Settings};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::shadow::{Judgement, Shadow, Step, Unjudged};

/// Result for an observed binding.
#[derive(Debug)]
pub enum ObservedBinding {
    /// It was compared.
    Judged(Box<Judgement>),
    /// It could not be compared, for this reason.
    Unjudged(Unjudged),
}

/// Replays a recording with the profile `name`, or the only profile. `other` replaces the recorded
/// configuration.
///
/// # Errors
/// Fails at a malformed line.
pub fn judge<R: BufRead>(
    beginning: &Header,
    mut entries: Entries<R>,
    name: &str,
    other: Option<&Settings>,
    mut each: impl FnMut(usize, ObservedBinding),
) -> Result<Summary, Bad> {
    let version = beginning.emulated_version().map_err(|why| Bad::Configuration { line: 1, why })?;
    let recorded = settings(&beginning.configuration, version, beginning.groups())
        .map_err(|error| Bad::Configuration { line: 1, why: error.to_string() })?;
    let settings = other.unwrap_or(&recorded);
    let mut tables = beginning.tables();
    tables.emulate(settings.emulated_version);
    let framework = profile(settings, name)?.framework(&mut tables);
    let began = beginning.began();
    let mut shadow = Shadow::new(name, framework, Seed(beginning.seed), tables, began);
    beginning.unrecorded_lists().for_each(|event| shadow.handle(began, event));
    let mut summary = Summary::default();
    let mut last = began;
    while let Some(entry) = entries.read()? {
        last = began + Duration::from_nanos(entry.at).max(last.since(began));
        wait(&mut shadow, last, &mut |seen| each(entries.line(), seen));
        match entry.what {
            What::Ends(why) => summary.ends = Some(why),
            what => {
                let event = event_of(what, shadow.tables()).map_err(|why| entries.bad(why))?;
                summary.inputs += 1;
                shadow.handle(last, event);
                steps(&mut shadow, last, &mut |seen| each(entries.line(), seen));
                shadow.collect_ids();
            }
        }
    }
    // Evaluate bindings that are still open, with the inputs so far.
    wait(&mut shadow, Time::from_nanos(u64::MAX), &mut |seen| each(entries.line(), seen));
    (summary.lines, summary.took) = (entries.line(), last.since(began));
    Ok(summary)
}

/// Advances the time and performs all steps that become due.
fn wait(shadow: &mut Shadow, until: Time, each: &mut dyn FnMut(ObservedBinding)) {
    let mut now = Time::default();
    while let Some(next) = steps(shadow, now, each).filter(|next| *next <= until) {
        now = next;
    }
}

/// Performs all steps that are due now. Returns the time of the next one.
fn steps(shadow: &mut Shadow, now: Time, each: &mut dyn FnMut(ObservedBinding)) -> Option<Time> {
    loop {
        match shadow.step(now) {
            Step::Judged(judgement) => each(ObservedBinding::Judged(judgement)),
            Step::Unjudged(_, why) => each(ObservedBinding::Unjudged(why)),
            Step::Notice(notice) => tracing::warn!(object = %notice.object, "{}", notice.text),
            Step::Idle { wake_at } => return wake_at,
        }
    }
}

/// Returns the profile with this name, or the only profile.
fn profile<'s>(settings: &'s Settings, name: &str) -> Result<&'s ProfileSettings, Bad> {
    let found = settings.profiles.iter().find(|profile| profile.name == name);
    let only = match settings.profiles.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    found.or(only).ok_or_else(|| Bad::Configuration {
        line: 1,
        why: format!("the configuration has several profiles, and none is named {name}"),
    })
}
