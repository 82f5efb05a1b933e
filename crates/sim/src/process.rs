//! One life of the scheduler under test, and what it has been told: the mirror its state is checked against.

use crate::objects::{Node, OURS, Pod};
use crate::server::{Change, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::Service;
use supercargo_core::cycle::Framework;
use supercargo_core::effect::Lane;
use supercargo_core::event::{Event, Kind, ObjectKey};
use supercargo_core::pod::PodInfo;
use supercargo_core::queue::QueueConfig;
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler};
use supercargo_core::time::Time;

/// A decision that still stands: its pod is assumed on its node, as far as anyone outside can know.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) node: String,
    /// Numbers the decisions.
    pub(crate) number: u64,
    /// What it was built on, if that was up to date.
    pub(crate) on: Option<Stamp>,
    /// The node's stamp when the binding left first, if that was up to date; `None` before it left.
    pub(crate) released: Option<Option<Stamp>>,
    /// The binding that left last was not answered yet.
    pub(crate) in_flight: bool,
}

/// What the scheduler has said of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// The message of its last failure.
    pub(crate) failure: Option<String>,
    pub(crate) failed_records: u32,
    pub(crate) scheduled_records: u32,
}

pub(crate) struct Process {
    pub(crate) scheduler: Scheduler,
    /// Counts the lives.
    pub(crate) life: u32,
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) decided: BTreeMap<String, Decided>,
    pub(crate) told: BTreeMap<String, Told>,
    /// The numbers of the last decisions about pods.
    pub(crate) numbers: BTreeMap<String, u64>,
    /// Pods that no watch has told the end of, and an answer has.
    pub(crate) known_gone: BTreeSet<String>,
    /// Credits granted and not used up, in the order of `Lane::ALL`.
    pub(crate) credits: [usize; Lane::ALL.len()],
    /// Pods it has sent away, of which no answer says that they stay.
    pub(crate) evicting: BTreeSet<String>,
    /// When it asked to be woken.
    pub(crate) wake: Option<Time>,
    /// Wake-ups in a row that came to nothing, and when the first of them was.
    pub(crate) idle_wakes: (u32, Time),
    listing: BTreeMap<Kind, BTreeSet<String>>,
    converted: BTreeMap<String, (u64, Arc<PodInfo>)>,
}

impl Process {
    pub(crate) fn new(seed: u64, life: u32, now: Time) -> Self {
        let profile = Profile { name: OURS.to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(seed), profiles: vec![profile], queue: QueueConfig::default() };
        Self {
            scheduler: Scheduler::new(config, now),
            life,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            decided: BTreeMap::new(),
            told: BTreeMap::new(),
            numbers: BTreeMap::new(),
            known_gone: BTreeSet::new(),
            credits: [0; Lane::ALL.len()],
            evicting: BTreeSet::new(),
            wake: None,
            idle_wakes: (0, now),
            listing: BTreeMap::new(),
            converted: BTreeMap::new(),
        }
    }

    /// A pod as this life's scheduler is shown it.
    pub(crate) fn info(&mut self, pod: &Pod) -> Arc<PodInfo> {
        match self.converted.get(&pod.uid) {
            Some((version, info)) if *version == pod.version => Arc::clone(info),
            _ => {
                let info = Arc::new(pod.info(self.scheduler.tables()));
                self.converted.insert(pod.uid.clone(), (pod.version, Arc::clone(&info)));
                info
            }
        }
    }

    /// Tells the scheduler of a change, and notes it.
    pub(crate) fn tell(&mut self, now: Time, kind: Kind, change: &Change) {
        let event = match change {
            Change::ListBegan => {
                self.listing.insert(kind, BTreeSet::new());
                Event::ListBegan(kind)
            }
            Change::ListEnded(_) => {
                self.end_list(kind);
                Event::ListEnded(kind)
            }
            Change::Pod(pod) => {
                self.see_pod(pod);
                Event::PodApplied(Box::new(PodInfo::clone(&self.info(pod))))
            }
            Change::PodGone(uid) => {
                self.lose_pod(uid);
                Event::Gone(ObjectKey::Pod(uid.as_str().into()))
            }
            Change::Node(node) => {
                self.name(Kind::Node, &node.name);
                self.nodes.insert(node.name.clone(), Arc::clone(node));
                Event::NodeApplied(Box::new(node.info(self.scheduler.tables())))
            }
            Change::NodeGone(name) => {
                self.nodes.remove(name);
                Event::Gone(ObjectKey::Node(self.scheduler.tables().symbol(name)))
            }
            Change::Namespace(name, team) => {
                let tables = self.scheduler.tables();
                let pair = (tables.symbol("team"), tables.symbol(team));
                Event::NamespaceApplied { name: tables.symbol(name), labels: tables.label_set(vec![pair]) }
            }
            Change::Service(app) => {
                let tables = self.scheduler.tables();
                let pair = (tables.symbol("app"), tables.symbol(app));
                Event::ServiceApplied {
                    namespace: tables.symbol("default"),
                    name: tables.symbol(app),
                    service: Service { selector: Some([pair].into()) },
                }
            }
        };
        self.scheduler.handle(now, event);
    }

    fn name(&mut self, kind: Kind, name: &str) {
        if let Some(named) = self.listing.get_mut(&kind) {
            named.insert(name.to_owned());
        }
    }

    fn end_list(&mut self, kind: Kind) {
        let named = self.listing.remove(&kind).unwrap_or_default();
        match kind {
            Kind::Pod => {
                let unlisted: Vec<_> =
                    self.pods.keys().filter(|uid| !named.contains(*uid)).cloned().collect();
                for uid in unlisted {
                    self.lose_pod(&uid);
                }
            }
            Kind::Node => self.nodes.retain(|name, _| named.contains(name)),
            _ => {}
        }
    }

    fn see_pod(&mut self, pod: &Arc<Pod>) {
        self.name(Kind::Pod, &pod.uid);
        // What the watch says of it settles a decision; a pod that is being deleted is not bound any more.
        if pod.node.is_some() || pod.deleting {
            self.decided.remove(&pod.uid);
        }
        self.pods.insert(pod.uid.clone(), Arc::clone(pod));
    }

    fn lose_pod(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.decided.remove(uid);
        self.told.remove(uid);
        self.numbers.remove(uid);
        self.evicting.remove(uid);
        self.known_gone.remove(uid);
        self.converted.remove(uid);
    }
}
