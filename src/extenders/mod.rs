//! HTTP extenders (upstream: `pkg/scheduler/extender.go`): their clients, and the objects they are sent.
//!
//! The engine decides which extender to call for a pod and what to do with its answer.

mod client;
mod connection;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{Client, Failed};

use client::Known;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use supercargo_apiserver::watch::{Pods, RawObjects, Wanted};
use supercargo_config::extenders::known;
use supercargo_config::v1;
use supercargo_core::model::event::Kind;
use supercargo_core::model::extender::{Extender, ExtenderId};
use supercargo_core::model::intern::Tables;

/// The configured extenders. Cheap to clone; clones share all state.
#[derive(Clone, Default)]
pub struct Extenders(Arc<Shared>);

#[derive(Default)]
struct Shared {
    clients: Mutex<BTreeMap<ExtenderId, Arc<Client>>>,
    next: AtomicU64,
    objects: RawObjects,
}

/// The extenders of a configuration, with clients that are ready but not yet active.
pub struct Prepared {
    clients: Vec<Known>,
    written: Vec<v1::Extender>,
}

impl Prepared {
    /// Returns the extenders as the engine knows them.
    pub fn for_engine(&self, tables: &mut Tables) -> Vec<Extender> {
        let written = self.clients.iter().zip(&self.written);
        written.map(|((id, _), written)| known(*id, written, tables)).collect()
    }

    /// Returns the kinds of objects these extenders are sent.
    fn wanted(&self) -> Wanted {
        let asks = |it: &v1::Extender| !it.filter_verb.is_empty() || !it.prioritize_verb.is_empty();
        let preempts = |it: &v1::Extender| !it.preempt_verb.is_empty();
        let any = |of: &dyn Fn(&v1::Extender) -> bool| self.written.iter().any(of);
        let pods = if any(&|it| preempts(it) && !it.node_cache_capable) {
            Pods::All
        } else if any(&|it| asks(it) || preempts(it)) {
            Pods::Pending
        } else {
            Pods::None
        };
        Wanted { pods, nodes: any(&|it| asks(it) && !it.node_cache_capable) }
    }
}

impl Extenders {
    fn clients(&self) -> MutexGuard<'_, BTreeMap<ExtenderId, Arc<Client>>> {
        self.0.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Builds the clients of a configuration.
    ///
    /// # Errors
    /// Returns an error, in upstream's wording, when a client cannot be built.
    pub fn prepare(&self, written: &[v1::Extender]) -> Result<Prepared, String> {
        let known = |extender: &v1::Extender| {
            let client = Client::new(extender).map_err(|why| format!("couldn't build extenders: {why}"))?;
            Ok((ExtenderId(self.0.next.fetch_add(1, Ordering::Relaxed)), Arc::new(client)))
        };
        let clients = written.iter().map(known).collect::<Result<_, String>>()?;
        Ok(Prepared { clients, written: written.to_owned() })
    }

    /// Activates these extenders in addition to the current ones, before the engine learns of them. Returns
    /// the kinds to relist, because extenders need more of their objects.
    pub fn add(&self, prepared: &Prepared) -> Vec<Kind> {
        self.clients().extend(prepared.clients.iter().cloned());
        self.0.objects.want(prepared.wanted())
    }

    /// Deactivates all other extenders, after the engine has dropped them. Calls in flight still complete.
    pub fn keep_only(&self, prepared: &Prepared) {
        self.clients().retain(|id, _| prepared.clients.iter().any(|(kept, _)| kept == id));
    }

    /// Returns the client of the extender with this id.
    pub fn client(&self, id: ExtenderId) -> Option<Arc<Client>> {
        self.clients().get(&id).cloned()
    }

    /// Returns the store of objects sent to extenders.
    pub fn objects(&self) -> &RawObjects {
        &self.0.objects
    }
}
