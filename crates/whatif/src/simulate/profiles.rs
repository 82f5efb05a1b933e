//! The profiles of a configuration, for decisions without a scheduler.

use crate::load::files::InputError;
use std::path::Path;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::cycle::Framework;
use supercargo_core::intern::Tables;

/// Returns the profiles of a configuration by name; without a configuration, one profile with the default plugins.
///
/// # Errors
/// Fails if the configuration is invalid or lists extenders, which a simulation never calls.
pub fn profiles(config: Option<&Path>, tables: &mut Tables) -> Result<Vec<(String, Framework)>, InputError> {
    // A simulation has no leader election.
    let flags = Flags::without_election();
    let settings = match config {
        Some(path) => Effective::load(path, &flags).and_then(|effective| Settings::of(&effective)),
        None => Ok(Settings::default()),
    };
    let settings = settings.map_err(|error| InputError(error.to_string()))?;
    if !settings.extenders.is_empty() {
        let text = "extenders: a simulation does not call extenders; remove the field from the file for the simulation";
        return Err(InputError(text.to_owned()));
    }
    let named = settings.profiles.iter().map(|profile| (profile.name.clone(), profile.framework(tables)));
    Ok(named.collect())
}
