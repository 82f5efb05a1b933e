//! Delivers the server's changes to the scheduler: watches, lost connections, resumed watches, relists, and
//! lists of an older state.

use crate::agenda::Due;
use crate::check::Broken;
use crate::fault_rates::draw_delay;
use crate::server::Change;
use crate::sim::Sim;
use std::time::Duration;
use supercargo_core::model::event::Kind;

/// The maximum age of a stale list, in versions.
const STALE_MAX: u64 = 150;

impl Sim {
    /// Sends the server's new changes to the watches.
    pub(crate) fn publish_changes(&mut self) {
        for (kind, change, version) in self.server.take_changes() {
            if self.watches.of(kind).connected {
                let twice = self.draw.percent(self.fault_rates.duplicate);
                if twice {
                    self.fault("duplicate event");
                    self.put_on_watch(kind, change.clone(), version);
                }
                self.put_on_watch(kind, change, version);
            }
        }
    }

    fn put_on_watch(&mut self, kind: Kind, change: Change, version: u64) {
        let due = self.now + draw_delay(&mut self.draw, self.fault_rates.watch_delay);
        let watch = self.watches.of(kind);
        let due = watch.push(change, version, due);
        self.agenda.write(due, Due::Watch(kind, watch.connection));
    }

    pub(crate) fn deliver(&mut self, kind: Kind, connection: u32) -> Result<(), Broken> {
        let watch = self.watches.of(kind);
        if watch.connection != connection {
            return Ok(());
        }
        let Some(change) = watch.deliver() else { return Ok(()) };
        if matches!(change, Change::ListEnded(_)) && !self.watches.know(kind, 0) {
            let version = self.server.last_change(kind);
            self.watches.of(kind).reset_to(version);
        }
        if matches!(change, Change::ListEnded(_)) && kind == Kind::Pod {
            // The scheduler has forgotten those of its own bindings that a list of an older state does not show.
            self.server.note_bindings();
        }
        let (whom, what) = describe(&change);
        self.say("watch", &whom, format_args!("{} {what}", kind.as_str()));
        if let Change::Pod(pod) = &change
            && let Some(decided) = self.process.decided.get(&pod.uid)
        {
            self.server.note_known_change(&pod.uid, &decided.node);
        }
        self.process.deliver(self.now, kind, &change)
    }

    pub(crate) fn disconnect(&mut self, kind: Kind) {
        self.fault("connection lost");
        self.watches.of(kind).disconnect();
        self.say("watch", kind.as_str(), format_args!("connection lost"));
        let connection = self.watches.of(kind).connection;
        let down = draw_delay(&mut self.draw, Duration::from_secs(30));
        self.agenda.write(self.now + down, Due::Reconnect(kind, connection));
    }

    pub(crate) fn reconnect(&mut self, kind: Kind, connection: u32) {
        let watch = self.watches.of(kind);
        if watch.connection != connection || watch.connected {
            return;
        }
        watch.connected = true;
        let resumes_from = watch.resumes_from();
        if let Some(version) = resumes_from.filter(|_| self.draw.percent(self.fault_rates.resume)) {
            self.say("watch", kind.as_str(), format_args!("resumed from {version}"));
            return self.follow(kind, version);
        }
        if resumes_from.is_some() {
            self.fault("watch expired");
        }
        self.list(kind);
    }

    /// Lists a kind again after the changes that are on the way.
    pub(crate) fn list_again(&mut self, kind: Kind) {
        if self.watches.of(kind).connected {
            self.fault("list again");
            self.list_at(kind, self.server.version(), false);
        }
    }

    /// Lists a kind and watches it from there. The list takes effect when it is complete, at the version at
    /// which it was taken.
    fn list(&mut self, kind: Kind) {
        let newest = self.server.version();
        // Lists of claims are never stale, as the API server promises. Otherwise a new scheduler would miss allocations
        // of its predecessor, and allocate the same devices again. Device classes never change in a run, and the
        // reference takes them as given.
        let may_be_stale = !matches!(kind, Kind::ResourceClaim | Kind::DeviceClass);
        let is_stale = self.draw.percent(self.fault_rates.stale_list) && may_be_stale;
        let version = if is_stale {
            self.fault("stale list");
            newest - self.draw.below(newest.min(STALE_MAX))
        } else {
            newest
        };
        self.list_at(kind, version, is_stale);
        if is_stale {
            self.follow(kind, version);
        }
    }

    fn list_at(&mut self, kind: Kind, version: u64, is_stale: bool) {
        self.put_on_watch(kind, Change::ListBegan, if is_stale { version } else { 0 });
        for object in self.server.list_at(kind, version) {
            self.put_on_watch(kind, object, 0);
        }
        self.put_on_watch(kind, Change::ListEnded(version), version);
    }

    fn follow(&mut self, kind: Kind, from: u64) {
        for (version, change) in self.server.since(kind, from) {
            self.put_on_watch(kind, change, version);
        }
        self.put_on_watch(kind, Change::Bookmark, self.server.version());
    }
}

fn describe(change: &Change) -> (String, String) {
    match change {
        Change::ListBegan => ("list".to_owned(), "begins".to_owned()),
        Change::ListEnded(version) => ("list".to_owned(), format!("ends at {version}")),
        Change::Bookmark => ("bookmark".to_owned(), String::new()),
        Change::Pod(pod) => {
            let node = pod.node.as_deref().unwrap_or("-");
            let flags = [(pod.deleting, " deleting"), (pod.gated, " gated")];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
            (pod.uid.clone(), format!("version {} on {node}{flags}", pod.version))
        }
        Change::PodGone(uid) => (uid.clone(), "gone".to_owned()),
        Change::Node(node) => (node.name.clone(), format!("version {}", node.version)),
        Change::NodeGone(name) => (name.clone(), "gone".to_owned()),
        Change::Namespace(name, team) => ((*name).to_owned(), format!("of team {team}")),
        Change::Service(app) => ((*app).to_owned(), "listed".to_owned()),
        Change::Claim(claim) => {
            let (version, volume, selected) = (claim.version, &claim.volume, &claim.selected);
            (claim.key(), format!("version {version}, {volume:?}, for node {selected:?}"))
        }
        Change::Volume(volume) => {
            let claim = volume.claim.as_ref().map(|claim| &claim.uid);
            (volume.name.clone(), format!("version {} for {claim:?}", volume.version))
        }
        Change::ClaimGone(name)
        | Change::VolumeGone(name)
        | Change::CsiNodeGone(name)
        | Change::DeviceClaimGone(name)
        | Change::SliceGone(name)
        | Change::GroupGone(name) => (name.clone(), "gone".to_owned()),
        Change::DeviceClass(kind) => (kind.name().to_owned(), "listed".to_owned()),
        Change::DeviceClaim(claim) => {
            let devices: Vec<String> =
                claim.results().map(|it| format!("{}/{}", it.device.pool.name, it.device.device)).collect();
            let (version, consumers, ready) = (claim.version, &claim.reserved_for, claim.ready);
            (claim.key(), format!("version {version}, {devices:?} for {consumers:?}, ready {ready:?}"))
        }
        Change::Group(group) => (
            group.key(),
            format!("version {}, minCount {:?}, {:?}", group.version, group.min, group.condition),
        ),
        Change::Slice(slice) => (slice.name.clone(), format!("generation {}", slice.generation)),
        Change::Class(class, zone) => (class.name().to_owned(), format!("for {zone:?}")),
        Change::CsiNode(name, limit) => (name.clone(), format!("takes {limit:?} volumes")),
    }
}
