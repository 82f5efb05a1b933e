//! Composition of shadow mode: watches, the comparing thread and the port. No component here writes to the cluster.

use super::server_version::Origin;
use super::serving::{Serving, exposition};
use super::{Configuration, Failure, ShutdownBudget, Start, Step, checks_of, fill_of};
use crate::args::Args;
use crate::engine::reload::{InForce, ShadowReload, profile_of};
use crate::engine::shadow::{Judging, Listening, Nowhere, Results};
use crate::engine::{Clock, End, Heartbeat, Inbox, Item, Mailbox};
use crate::serve::{Pages, Routes};
use crate::signals::StopSignals;
use crate::telemetry::log::{Log, Verbosity};
use crate::telemetry::metrics::Metrics;
use anyhow::{Context as _, anyhow};
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::watch::{RawObjects, Watches, Watching};
use supercargo_config::redacted::without_password;
use supercargo_config::{ProfileSettings, Settings};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::shadow::Shadow;
use supercargo_whatif::shadow_report::PAGE;

/// How long the start waits for the API server's version: the report is about one version, so it has to be known. An
/// API server that restarts is back sooner.
const VERSION_WITHIN: Duration = Duration::from_secs(60);

/// Runs shadow mode for the scheduler named `shadow_of` until a signal stops it.
// long because: startup in order, each step needs the one before
pub(super) async fn run(
    args: Args,
    shadow_of: &str,
    configuration: Configuration,
    log: Log,
    mut signals: StopSignals,
) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::new());
    let start = Start::prepare(&args, configuration, &metrics, VERSION_WITHIN, &mut signals).await?;
    let Some(Start { client, server_url, configuration, origin, port, gate }) = start else { return Ok(()) };
    if let Origin::Provisional(error) = origin {
        let cause = anyhow!(
            "cannot read the API server's version: {error}; set --emulated-version to start without it"
        );
        return Err(cause.into());
    }
    let Configuration { flags, effective, settings } = configuration;
    metrics.emulates(settings.emulated_version);
    let profile = profile(&settings, shadow_of, args.config.is_some())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), server = %server_url, shadow_of, "starting in shadow mode; nothing is written to the cluster");
    if !settings.extenders.is_empty() {
        tracing::warn!("extenders are not called in shadow mode; decisions that depend on them will differ");
    }

    let book = Arc::new(Results::new(shadow_of));
    let mailbox = Mailbox::<Judging>::new();
    let inbox = mailbox.inbox();
    let clock = Clock::start();
    let mut tables = Tables::seeded(super::recording::hash_seed());
    tables.emulate(settings.emulated_version);
    tables.set_compat(args.compat);
    let framework = profile.framework(&mut tables);
    let shadow = Shadow::new(shadow_of, framework, Seed(u64::from(std::process::id())), tables, clock.now());
    let judging = Judging::new(shadow, Arc::clone(&book), Arc::clone(&metrics));
    let mut end =
        mailbox.start(judging, clock, Nowhere, Listening::default()).context("cannot start a thread")?;
    let (intake, objects) = (Arc::new(inbox.clone()), RawObjects::default());
    let watching = Watching { encoding: settings.encoding, groups: false };
    let watches = Watches::start(&client, intake, &metrics.watches(), watching, None, &objects);

    let checks = checks_of(&watches, Heartbeat::of(inbox.clone()));
    let reloads = Arc::clone(&metrics);
    let in_force = InForce::new(&effective);
    let exposition = exposition(&args, &in_force, metrics)
        .with_event_channel(fill_of(inbox.clone()))
        .with_log_lines_lost(move || log.lines.lost());
    let pages = pages(&args, in_force.clone(), book, log.verbosity);
    let routes = Routes::new(Arc::new(checks), exposition, gate).with_pages(pages);
    let follow = args.config.clone().map(|file| {
        let of = (flags, effective);
        ShadowReload::new(file, of, profile, inbox.clone(), reloads, in_force).run()
    });
    let (stop_serving, serving) = Serving::start(port, routes);

    let dumps = tokio::spawn(dump_on_signal(inbox.clone()));
    let follow = follow.map(tokio::spawn);
    let outcome = tokio::select! {
        signal = signals.received() => {
            tracing::info!(signal, "stopping");
            Ok(())
        }
        end = &mut end => Err(match end {
            Ok(End::Panicked(text)) => anyhow!("the comparing thread panicked: {text}"),
            _ => anyhow!("the comparing thread ended"),
        }),
    };
    let ending = ShutdownBudget::begin();
    drop(watches);
    dumps.abort();
    if let Some(follow) = follow {
        follow.abort();
    }
    // If the thread has ended already, the send fails.
    ending.take(Step::Bindings, inbox.send(Item::Stop { within: Duration::ZERO })).await;
    let _ = stop_serving.send(());
    ending.take(Step::Rest, serving).await.transpose().context("serving panicked")?;
    Ok(outcome?)
}

/// Logs sizes on SIGUSR2, which would end a process that does not handle it.
async fn dump_on_signal(inbox: Inbox<Judging>) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut asked = signal(SignalKind::user_defined2())?;
    while asked.recv().await.is_some() {
        let Ok(held) = inbox.ask(Judging::held).await else { break };
        tracing::info!(?held, "Dump of the shadow scheduler");
    }
    Ok(())
}

/// Returns the profile to compare with: the file's profile of that name, or the default profile without a file.
fn profile(settings: &Settings, name: &str, is_file: bool) -> Result<ProfileSettings, Failure> {
    let of_none = || settings.profiles.first().ok_or_else(|| "no default profile".to_owned());
    let found = if is_file { profile_of(settings, name) } else { of_none() };
    found.cloned().map_err(|why| Failure { cause: anyhow!(why), code: 2 })
}

/// Builds the pages: those of a scheduler, and the shadow report.
fn pages(args: &Args, in_force: InForce, book: Arc<Results>, verbosity: Verbosity) -> Pages {
    let mut flags = args.values.clone();
    if let Some(master) = flags.get_mut("master") {
        *master = without_password(master);
    }
    let debugs = in_force.json()["enableProfiling"] != serde_json::Value::Bool(false);
    let version = in_force.clone();
    let pages = Pages::default()
        .with_flags(flags)
        .with_config(move || in_force.json())
        .with_emulated_version(move || version.emulated_version(), args.upstream.gates());
    if !debugs {
        return pages;
    }
    let report = move || std::future::ready(Some(book.to_json()));
    pages.with_debug(PAGE, report).with_verbosity(move |level| verbosity.set(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_file_must_have_the_shadowed_profile() {
        let settings = Settings::default();
        let name = |is_file, name: &str| profile(&settings, name, is_file).map(|it| it.name);
        assert_eq!(
            name(false, "default-scheduler").ok().as_deref(),
            Some("supercargo"),
            "the default plugins"
        );
        assert_eq!(name(true, "supercargo").ok().as_deref(), Some("supercargo"));
        let Err(Failure { cause, code }) = name(true, "default-scheduler") else { panic!("no such profile") };
        assert_eq!(code, 2);
        let expected = "--shadow-of default-scheduler: the configuration has no profile with this name; its profiles are supercargo";
        assert_eq!(cause.to_string(), expected);
    }
}
