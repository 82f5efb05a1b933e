//! Where the pages of the port have their content from.

use super::dump;
use super::lead::Election;
use crate::args::Args;
use crate::census::Census;
use crate::driver::{Clock, Inbox};
use crate::journal::Ring;
use crate::pending;
use crate::reload::{InForce, without_password};
use crate::serve::{Pages, PodSources};
use crate::telemetry::Verbosity;
use crate::watch::Relist;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use supercargo_core::scheduler::Scheduler;
use tokio::sync::Semaphore;

/// What the pages are made from.
pub(super) struct Sources {
    pub(super) census: Arc<Census>,
    pub(super) relist: Relist,
    pub(super) in_force: InForce,
    pub(super) inbox: Inbox<Scheduler>,
    pub(super) ring: Option<Arc<Ring>>,
    pub(super) clock: Clock,
}

impl Sources {
    /// The pages. One that stands by shows no pods, as upstream: the leader's are those of the cluster.
    pub(super) fn pages(self, args: &Args, election: &Election, verbosity: Verbosity) -> Pages {
        let Self { census, relist, in_force, inbox, ring, clock } = self;
        let standing = election.standing.clone();
        let resources = move || {
            let (census, relist) = (Arc::clone(&census), relist.clone());
            let leads = standing.as_ref().is_none_or(|standing| standing.leads());
            async move { if leads { census.render(&relist).await } else { Some(String::new()) } }
        };
        let mut flags = args.values.clone();
        if let Some(master) = flags.get_mut("master") {
            *master = without_password(master);
        }
        let pages = Pages::default().with_resources(resources).with_flags(flags);
        let debugs = in_force.json()["enableProfiling"] != serde_json::Value::Bool(false);
        let pages = pages.with_config(move || in_force.json());
        if !debugs {
            return pages;
        }
        let (cache, queue) = (inbox.clone(), inbox.clone());
        let pages = match ring {
            Some(ring) => pages.with_debug("/debug/decisions", move || ready(Some(ring.to_json()))),
            None => pages,
        };
        pages
            .with_pods(pods(&inbox, clock))
            .with_debug("/debug/cache", move || dump::nodes_of(cache.clone()))
            .with_debug("/debug/queue", move || dump::queue_of(queue.clone()))
            .with_verbosity(move |level| verbosity.set(level))
    }
}

/// What is told of pending pods. The engine is looked at between two decisions; what is found is put into JSON beside it. One question at
/// a time, for anybody whom the API server knows may ask: each takes the engine for as long as a decision or two, or a walk over all pods that wait.
fn pods(inbox: &Inbox<Scheduler>, clock: Clock) -> PodSources {
    let (names, queue, pods) = (inbox.clone(), inbox.clone(), inbox.clone());
    let turn = Arc::new(Semaphore::new(1));
    let one_at_a_time = Arc::clone(&turn);
    PodSources::new(
        move || {
            let inbox = names.clone();
            async move { inbox.ask(pending::namespaces).await.ok() }
        },
        move |question| {
            let (inbox, turn) = (queue.clone(), Arc::clone(&one_at_a_time));
            async move {
                let _turn = turn.acquire().await.ok()?;
                let report =
                    inbox.ask(move |engine| pending::report(engine, clock.now(), &question)).await.ok()?;
                serde_json::to_string(&report).ok()
            }
        },
        move |namespace, name| {
            let (inbox, turn) = (pods.clone(), Arc::clone(&turn));
            async move {
                let _turn = turn.acquire().await.ok()?;
                let ask = move |engine: &Scheduler| {
                    // A plugin that stumbles over the pod stumbles in a decision, too, and is counted there.
                    let explain = || pending::explain(engine, clock.now(), &namespace, &name);
                    catch_unwind(AssertUnwindSafe(explain)).ok()
                };
                let explained = inbox.ask(ask).await.ok()??;
                explained
                    .map(|explained| serde_json::to_string(&explained).ok())
                    .map_or(Some(None), |json| Some(Some(json?)))
            }
        },
    )
}
