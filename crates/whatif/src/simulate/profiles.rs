//! The profiles of a configuration, for decisions without an API server.

use crate::load::files::InputError;
use crate::recording::header;
use std::path::Path;
use supercargo_config::{ConfigError, Effective, Flags, Settings};
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::scheduler::{Profile, Trial};

/// A fixed seed, so that the same question has the same answer.
const SEED: Seed = Seed(0);

/// Returns a trial of an empty cluster with the profiles of a configuration, which behaves as a version.
///
/// # Errors
/// As [`profiles`].
pub fn trial(
    config: Option<&Path>,
    version: EmulatedVersion,
    compat: Compat,
    groups: GroupGates,
) -> Result<Trial, InputError> {
    let mut tables = Tables::new();
    tables.set_compat(compat);
    tables.set_group_gates(groups);
    tables.emulate(version);
    let profiles = profiles(config, &mut tables)?;
    Ok(Trial::new(SEED, profiles, tables))
}

/// Returns a trial of an empty cluster with the profiles of recorded settings. The tables know how to behave.
///
/// # Errors
/// Fails if the settings have extenders, which a simulation never calls.
pub fn trial_with(settings: &Settings, mut tables: Tables) -> Result<Trial, InputError> {
    without_extenders(settings)?;
    let profiles = header::profiles(settings, &mut tables);
    Ok(Trial::new(SEED, profiles, tables))
}

/// Returns the profiles of a configuration, or else one profile with the default plugins, of the version that the
/// tables emulate.
///
/// # Errors
/// Fails if the configuration is invalid or lists extenders, which a simulation never calls.
pub fn profiles(config: Option<&Path>, tables: &mut Tables) -> Result<Vec<Profile>, InputError> {
    let flags = flags(tables);
    of_effective(
        match config {
            Some(path) => Effective::load(path, &flags),
            None => Effective::without_file(&flags),
        },
        tables,
    )
}

/// Returns the profiles of a configuration that is given as text, which messages call `name`; of a blank text, as
/// [`profiles`] without a file.
///
/// # Errors
/// As [`profiles`].
pub fn profiles_of_text(name: &str, text: &str, tables: &mut Tables) -> Result<Vec<Profile>, InputError> {
    if text.trim().is_empty() {
        return profiles(None, tables);
    }
    let effective = Effective::parse(Path::new(name), text, &flags(tables));
    of_effective(effective, tables)
}

/// Returns the flags of a simulation, which has no leader election.
fn flags(tables: &Tables) -> Flags {
    let rules = tables.rules();
    Flags { emulated_version: rules.version, groups: rules.groups, ..Flags::without_election() }
}

fn of_effective(
    effective: Result<Effective, ConfigError>,
    tables: &mut Tables,
) -> Result<Vec<Profile>, InputError> {
    let settings = effective.and_then(|effective| Settings::of(&effective));
    let settings = settings.map_err(|error| InputError(advised(&error)))?;
    without_extenders(&settings)?;
    Ok(header::profiles(&settings, tables))
}

/// Returns an error with advice; that of an invalid file says what is expected.
fn advised(error: &ConfigError) -> String {
    match error {
        ConfigError::Read { .. } => format!("{error}; check the path"),
        ConfigError::Invalid { .. } => error.to_string(),
    }
}

fn without_extenders(settings: &Settings) -> Result<(), InputError> {
    if settings.extenders.is_empty() {
        return Ok(());
    }
    let text =
        "extenders: a simulation does not call extenders; remove the field from the file for the simulation";
    Err(InputError(text.to_owned()))
}
