//! The profiles of a configuration, for decisions without an API server.

use crate::load::files::InputError;
use crate::recording::header;
use std::path::Path;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::scheduler::{Profile, Trial};

/// A fixed seed, so that the same question has the same answer.
const SEED: Seed = Seed(0);

/// Returns a trial of an empty cluster with the profiles of a configuration.
///
/// # Errors
/// As [`profiles`].
pub fn trial(config: Option<&Path>) -> Result<Trial, InputError> {
    let mut tables = Tables::new();
    let profiles = profiles(config, &mut tables)?;
    Ok(Trial::new(SEED, profiles, tables))
}

/// Returns the profiles of a configuration; without a configuration, one profile with the default plugins.
///
/// # Errors
/// Fails if the configuration is invalid or lists extenders, which a simulation never calls.
pub fn profiles(config: Option<&Path>, tables: &mut Tables) -> Result<Vec<Profile>, InputError> {
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
    Ok(header::profiles(&settings, tables))
}
