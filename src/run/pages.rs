//! Where the pages of the port have their content from.

use super::dump;
use super::lead::Election;
use crate::args::Args;
use crate::census::Census;
use crate::driver::Inbox;
use crate::journal::Ring;
use crate::reload::{InForce, without_password};
use crate::serve::Pages;
use crate::telemetry::Verbosity;
use crate::watch::Relist;
use std::future::ready;
use std::sync::Arc;
use supercargo_core::scheduler::Scheduler;

/// What the pages are made from.
pub(super) struct Sources {
    pub(super) census: Arc<Census>,
    pub(super) relist: Relist,
    pub(super) in_force: InForce,
    pub(super) inbox: Inbox<Scheduler>,
    pub(super) ring: Option<Arc<Ring>>,
}

impl Sources {
    /// The pages. One that stands by shows no pods, as upstream: the leader's are those of the cluster.
    pub(super) fn pages(self, args: &Args, election: &Election, verbosity: Verbosity) -> Pages {
        let Self { census, relist, in_force, inbox, ring } = self;
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
        let (cache, queue) = (inbox.clone(), inbox);
        let pages = match ring {
            Some(ring) => pages.with_debug("/debug/decisions", move || ready(Some(ring.to_json()))),
            None => pages,
        };
        pages
            .with_debug("/debug/cache", move || dump::nodes_of(cache.clone()))
            .with_debug("/debug/queue", move || dump::queue_of(queue.clone()))
            .with_verbosity(move |level| verbosity.set(level))
    }
}
