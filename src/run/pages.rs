//! Data sources of the pages on the HTTPS port.

use super::dump;
use super::lead::Election;
use super::questions::Questions;
use crate::args::Args;
use crate::engine::recording::Ring;
use crate::engine::reload::InForce;
use crate::engine::{Clock, Inbox};
use crate::serve::{Pages, PodSources};
use crate::telemetry::log::Verbosity;
use crate::telemetry::resource_usage::ResourceUsage;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use supercargo_apiserver::watch::Relist;
use supercargo_config::redacted::without_password;
use supercargo_core::scheduler::Scheduler;
use supercargo_whatif::pending::{self, Explaining, Reporting};

/// The components that pages read from.
pub(super) struct Sources {
    pub(super) resource_usage: Arc<ResourceUsage>,
    pub(super) relist: Relist,
    pub(super) in_force: InForce,
    pub(super) inbox: Inbox<Scheduler>,
    pub(super) ring: Option<Arc<Ring>>,
    pub(super) clock: Clock,
}

impl Sources {
    /// Builds the pages. A standby replica lists no pods in `/metrics/resources`, as upstream: the leader does.
    pub(super) fn pages(self, args: &Args, election: &Election, verbosity: Verbosity) -> Pages {
        let Self { resource_usage, relist, in_force, inbox, ring, clock } = self;
        let standing = election.standing.clone();
        let resources = move || {
            let (resource_usage, relist) = (Arc::clone(&resource_usage), relist.clone());
            let leads = standing.as_ref().is_none_or(|standing| standing.leads());
            async move { if leads { resource_usage.render(&relist).await } else { Some(String::new()) } }
        };
        let mut flags = args.values.clone();
        if let Some(master) = flags.get_mut("master") {
            *master = without_password(master);
        }
        let pages = Pages::default().with_resources(resources).with_flags(flags);
        let debugs = in_force.json()["enableProfiling"] != serde_json::Value::Bool(false);
        let version = in_force.clone();
        let pages = pages
            .with_config(move || in_force.json())
            .with_emulated_version(move || version.emulated_version(), args.upstream.gates());
        if !debugs {
            return pages;
        }
        let questions = Questions::new(inbox);
        let (cache, queue) = (questions.clone(), questions.clone());
        let pages = match ring {
            Some(ring) => pages.with_debug("/debug/decisions", move || ready(Some(ring.to_json()))),
            None => pages,
        };
        pages
            .with_pods(pods(questions, clock))
            .with_debug("/debug/cache", move || dump::nodes_of(cache.clone()))
            .with_debug("/debug/queue", move || dump::queue_of(queue.clone()))
            .with_verbosity(move |level| verbosity.set(level))
    }
}

/// Sources of the pending-pods pages. The engine is read in short slices between decisions, however many pods and
/// nodes there are. Sorting and encoding happen outside the scheduling thread. Every user with access to the port may
/// query them.
fn pods(questions: Questions, clock: Clock) -> PodSources {
    let (names, queue) = (questions.clone(), questions.clone());
    PodSources::new(
        move || {
            let questions = names.clone();
            async move { questions.ask(pending::namespaces).await }
        },
        move |question| {
            let questions = queue.clone();
            async move {
                let mut report = Reporting::new(question);
                while !report.is_done() {
                    let part = move |engine: &Scheduler| {
                        report.go_on(engine, clock.now());
                        report
                    };
                    report = questions.ask(part).await?;
                }
                serde_json::to_string(&report.done()?).ok()
            }
        },
        move |namespace, name| {
            let questions = questions.clone();
            async move {
                let mut explaining = Explaining::new(namespace, name);
                while !explaining.is_done() {
                    let part = move |engine: &Scheduler| {
                        // A plugin that panics here also panics in the pod's decision, and is counted there.
                        let look = || explaining.go_on(engine, clock.now());
                        catch_unwind(AssertUnwindSafe(look)).ok().map(|()| explaining)
                    };
                    explaining = questions.ask(part).await??;
                }
                match explaining.done() {
                    Some(explained) => serde_json::to_string(&explained).ok().map(Some),
                    None => Some(None),
                }
            }
        },
    )
}
