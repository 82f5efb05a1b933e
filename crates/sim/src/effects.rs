//! Carries out the scheduler's effects on the simulated API server, and returns the answers.

use crate::agenda::{Answer, Due, Fate, Request};
use crate::check::{Broken, broken};
use crate::evictions::renominated;
use crate::fault_rates::draw_delay;
use crate::groups::has_groups;
use crate::objects::Pod;
use crate::process::Decided;
use crate::server::{By, Stamp};
use crate::sim::Sim;
use std::time::Duration;
use supercargo_core::model::effect::{
    Effect, EventRecord, GroupPatch, Lane, Nomination, PodRef, StatusPatch,
};
use supercargo_core::model::event::{BindOutcome, BindingState, Event, EvictOutcome, Kind};

/// The time after which a sent binding can no longer be carried out: an API server's `--request-timeout`.
const LATEST: Duration = Duration::from_secs(60);

impl Sim {
    /// Carries out an effect of the scheduler.
    pub(crate) fn carry_out(&mut self, effect: Effect) -> Result<(), Broken> {
        if !self.process.leads {
            return Err(broken("only the leader writes", format!("{effect:?}")));
        }
        let lane = effect.lane();
        let at = Lane::ALL.iter().position(|&l| l == lane).expect("all lanes are listed");
        let left = self.process.credits[at].checked_sub(1);
        self.process.credits[at] =
            left.ok_or_else(|| broken("every effect uses a credit", format!("{effect:?} has none")))?;
        match effect {
            Effect::Bind { pod, node } => self.send_bind(&pod, node),
            Effect::QueryBinding { pod } => self.send_question(&pod),
            Effect::WriteVolume(write) => self.send_write(write),
            Effect::Evict(eviction) => self.send_eviction(&eviction),
            Effect::Patch(patch) => self.send_patch(patch),
            Effect::Record(record) => self.note_record(&record),
            Effect::Extend(call) => self.send_call(&call),
            Effect::PatchGroup(patch) => self.send_group_patch(patch),
            Effect::BindBy { pod, .. } => Err(broken("only the API server binds", pod.uid.to_string())),
        }
    }

    fn send_bind(&mut self, pod: &PodRef, node: String) -> Result<(), Broken> {
        self.check_bind(pod, &node)?;
        self.check_release(&pod.uid, &node)?;
        self.check_first_binding(&pod.uid)?;
        let on_node = self.stamp_if_known(Some((&node, &pod.uid)));
        let decided = self.process.decided.get_mut(&*pod.uid).expect("its decision was checked before");
        decided.in_flight = true;
        self.process.unanswered.insert(pod.uid.to_string());
        let released_on = *decided.released.get_or_insert(on_node);
        let decided_on = decided.on;
        let (fate, sure) = self.draw_fate();
        self.requests += 1;
        let request = Request {
            incarnation: self.process.incarnation,
            fence: self.fence,
            id: self.requests,
            uid: pod.uid.to_string(),
            node,
            decided_on,
            released_on,
            fate,
        };
        self.say("bind", &request.uid, format_args!("sent to {}, {sure}", request.node));
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        match sure {
            "lost" => self.answer_unknown(&request, delay),
            "late" => {
                self.answer_unknown(&request, delay);
                let late = delay + Duration::from_millis(self.draw.between(1, 55_000));
                self.send_request(request, late.min(LATEST));
            }
            "unanswered" => {
                self.answer_unknown(&request, delay * 2);
                self.send_request(request, delay);
            }
            "foreign" => {
                self.answer_unknown(&request, delay / 2);
                if let Some(late) = self.draw_late() {
                    self.send_request(request, (delay + late).min(LATEST));
                }
            }
            _ => self.send_request(request, delay),
        }
        Ok(())
    }

    fn send_request(&mut self, request: Request, delay: Duration) {
        self.in_air.insert(request.id, request.clone());
        self.agenda.write(self.now + delay, Due::Bind(request));
    }

    fn draw_fate(&mut self) -> (Fate, &'static str) {
        let w = self.fault_rates;
        let faults = w.forbidden + w.lost_but_applied + w.lost + w.late + w.foreign;
        let fate = self.draw.weighted(&[
            (100 - faults, (Fate::Answered, "answered")),
            (w.forbidden, (Fate::Forbidden, "rejected")),
            (w.lost_but_applied, (Fate::Unanswered, "unanswered")),
            (w.lost, (Fate::Unanswered, "lost")),
            (w.late, (Fate::Unanswered, "late")),
            (w.foreign, (Fate::Unanswered, "foreign")),
        ]);
        match fate.1 {
            "rejected" => self.fault("binding rejected"),
            "unanswered" => self.fault("binding applied, answer lost"),
            "lost" => self.fault("binding lost"),
            "late" => self.fault("binding applied late, answer lost"),
            "foreign" => self.fault("binding answered by a foreign server"),
            _ => {}
        }
        fate
    }

    /// Draws the delay until a request with a foreign answer is carried out, or `None` if it never is.
    pub(crate) fn draw_late(&mut self) -> Option<Duration> {
        let longest = self.draw.pick(&[None, Some(1), Some(1_000), Some(55_000)])?;
        Some(Duration::from_millis(self.draw.between(0, longest)))
    }

    fn answer_unknown(&mut self, request: &Request, delay: Duration) {
        let outcome = BindOutcome::Unknown { message: "connection reset".to_owned() };
        let answer = Answer::Bind { uid: request.uid.clone(), outcome };
        self.agenda.write(self.now + delay, Due::Answer { incarnation: request.incarnation, answer });
    }

    /// Handles a binding that arrives at the API server.
    pub(crate) fn bind_arrives(&mut self, request: &Request) -> Result<(), Broken> {
        self.in_air.remove(&request.id);
        let is_current = request.incarnation == self.process.incarnation;
        let result = if request.fate == Fate::Forbidden {
            self.server.refuse(&request.uid)
        } else {
            let by = if is_current { By::Scheduler } else { By::Others };
            self.server.bind(&request.uid, &request.node, by, Some(request.incarnation))
        };
        let reported = match &result {
            Ok(()) => format!("bound to {}", request.node),
            Err(error) => error.clone(),
        };
        self.say("server", &request.uid, format_args!("{reported}"));
        if result.is_ok() && request.fence == self.fence {
            self.check_bound(request)?;
        }
        if result.is_ok() {
            self.disturb_start(&request.uid);
        }
        if request.fate != Fate::Unanswered {
            // As the dispatcher interprets the answer.
            let there = self.server.pods.get(&request.uid).map(|pod| pod.node.clone());
            let outcome = match (result, there) {
                (Ok(()), _) => BindOutcome::Accepted,
                (Err(message), _) if request.fate == Fate::Forbidden => BindOutcome::Refused { message },
                (Err(_), None) => BindOutcome::NotNeeded(BindingState::Gone),
                (Err(_), Some(Some(node))) if node == request.node => BindOutcome::Accepted,
                (Err(_), Some(Some(node))) => BindOutcome::NotNeeded(BindingState::Bound(node)),
                (Err(message), Some(None)) => BindOutcome::Refused { message },
            };
            let answer = Answer::Bind { uid: request.uid.clone(), outcome };
            let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
            self.agenda.write(self.now + delay, Due::Answer { incarnation: request.incarnation, answer });
        }
        Ok(())
    }

    fn send_question(&mut self, pod: &PodRef) -> Result<(), Broken> {
        // The query is repeated until it is answered, even if the pod starts terminating.
        let deleting = self.process.pods.get(&*pod.uid).is_some_and(|pod| pod.deleting);
        if !deleting && !self.process.decided.contains_key(&*pod.uid) {
            let detail = format!("query about {}, which has no open binding", pod.uid);
            return Err(broken("only open bindings are queried", detail));
        }
        self.say("ask", &pod.uid, format_args!("query for its binding"));
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        let due = Due::Question { incarnation: self.process.incarnation, uid: pod.uid.to_string() };
        self.agenda.write(self.now + delay, due);
        Ok(())
    }

    /// Handles a query about a binding at the API server.
    pub(crate) fn question_arrives(&mut self, incarnation: u32, uid: String) {
        let unanswered = self.draw.percent(self.fault_rates.no_answer);
        if unanswered {
            self.fault("query unanswered");
        }
        let foreign = self.draw.percent(self.fault_rates.foreign);
        if foreign {
            self.fault("query answered by a foreign server");
        }
        let unanswered = unanswered || foreign;
        let found = match self.server.pods.get(&uid) {
            _ if unanswered => BindingState::NoAnswer,
            None => BindingState::Gone,
            Some(pod) => pod.node.clone().map_or(BindingState::Unbound, BindingState::Bound),
        };
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        let answer = Answer::BindingQueried { uid, found };
        self.agenda.write(self.now + delay, Due::Answer { incarnation, answer });
    }

    /// Handles an answer that arrives at the scheduler.
    pub(crate) fn answer_arrives(&mut self, answer: Answer) {
        let (uid, event) = match answer {
            Answer::Bind { uid, outcome } => {
                self.say("answer", &uid, format_args!("{outcome:?}"));
                let is_refused = matches!(outcome, BindOutcome::Refused { .. });
                if is_refused {
                    self.server.count_refusal();
                }
                if let BindOutcome::NotNeeded(found) = &outcome {
                    self.note_found(&uid, found);
                }
                self.process.unanswered.remove(&uid);
                let is_unlisted = self.process.is_unlisted(&uid);
                if let Some(decided) = self.process.decided.get_mut(&uid) {
                    decided.in_flight = false;
                    decided.may_arrive |= matches!(outcome, BindOutcome::Unknown { .. });
                    // A query follows for a pod that no list contains.
                    if is_refused && !decided.may_arrive && !is_unlisted {
                        // It fails, or waits to be sent once more. Until then its node may become infeasible.
                        decided.released = None;
                    }
                    decided.settled |= outcome == BindOutcome::Accepted && !is_unlisted;
                }
                (uid.clone(), Event::BindFinished { uid: uid.as_str().into(), outcome })
            }
            Answer::BindingQueried { uid, found } => {
                self.say("answer", &uid, format_args!("{found:?}"));
                self.note_found(&uid, &found);
                (uid.clone(), Event::BindingQueried { uid: uid.as_str().into(), found })
            }
            Answer::Written { uid, write, outcome } => {
                self.say("answer", &uid, format_args!("write {write}: {outcome:?}"));
                (uid.clone(), Event::VolumeWritten { uid: uid.as_str().into(), write, outcome })
            }
            Answer::Extended { uid, call, answer } => {
                self.say("answer", &uid, format_args!("of the extender: {answer:?}"));
                self.note_passed(&uid, call, &answer);
                (uid, Event::Extended { call, answer })
            }
            Answer::Evicted { uid, outcome } => {
                self.say("answer", &uid, format_args!("{outcome:?}"));
                if matches!(outcome, EvictOutcome::Failed { .. }) {
                    self.process.evicting.remove(&uid);
                }
                (uid.clone(), Event::EvictFinished { uid: uid.as_str().into(), outcome })
            }
        };
        let lane = match event {
            Event::EvictFinished { .. } => Lane::Evict,
            Event::VolumeWritten { .. } => Lane::Volume,
            Event::Extended { .. } => Lane::Extend,
            _ => Lane::Bind,
        };
        self.process.scheduler.handle(self.now, event);
        let incarnation = self.process.incarnation;
        self.agenda.write(self.now, Due::Credit { incarnation, lane });
        debug_assert!(!uid.is_empty(), "an answer has a pod");
    }

    fn note_found(&mut self, uid: &str, found: &BindingState) {
        match found {
            BindingState::Gone => self.process.found_gone(uid),
            BindingState::Bound(node) => {
                if let Some(decided) = self.process.decided.get_mut(uid) {
                    decided.node.clone_from(node);
                    decided.settled = true;
                }
            }
            BindingState::Unbound | BindingState::NoAnswer => {}
        }
    }

    fn send_patch(&mut self, patch: StatusPatch) -> Result<(), Broken> {
        self.check_may_report(&patch.pod)?;
        if self.process.pods.get(&*patch.pod.uid).is_some_and(|pod| pod.node.is_some()) {
            let detail = format!("{} is bound, patch: {:?}", patch.pod.uid, patch.condition);
            return Err(broken("a pod known to be bound gets no PodScheduled=False", detail));
        }
        if let Nomination::Set(_) = patch.nomination {
            self.process.nominated.insert(patch.pod.uid.to_string());
        }
        let arrives = self.now + draw_delay(&mut self.draw, self.fault_rates.request_delay);
        // Patches arrive in the order in which they were sent.
        self.last_patch = self.last_patch.max(arrives);
        self.agenda.write(self.last_patch, Due::Patch { incarnation: self.process.incarnation, patch });
        Ok(())
    }

    fn send_group_patch(&mut self, patch: GroupPatch) -> Result<(), Broken> {
        if !has_groups(self.seed) {
            return Err(broken("no pod names a group", patch.name));
        }
        let arrives = self.now + draw_delay(&mut self.draw, self.fault_rates.request_delay);
        self.last_patch = self.last_patch.max(arrives);
        self.agenda.write(self.last_patch, Due::GroupPatch { incarnation: self.process.incarnation, patch });
        Ok(())
    }

    /// Handles a status patch that arrives at the API server.
    pub(crate) fn patch_arrives(&mut self, patch: &StatusPatch) {
        let uid = &*patch.pod.uid;
        let incarnation = self.process.incarnation;
        self.agenda.write(self.now, Due::Credit { incarnation, lane: Lane::Status });
        // A quarter of the patches with a foreign answer are lost. The others have their effect, since nothing reads
        // the answer of a patch.
        let lost = self.fault_rates.lost_patch + self.fault_rates.foreign / 4;
        if self.draw.percent(lost) {
            self.fault("patch lost");
            self.lost_patches.insert(uid.to_owned());
            return;
        }
        let said =
            patch.condition.as_ref().map(|reported| (reported.reason.to_owned(), reported.message.clone()));
        if let Some((reason, _)) = &said {
            self.lost_patches.remove(uid);
            self.say("server", uid, format_args!("condition {reason}, nominated: {:?}", patch.nomination));
        } else {
            self.say("server", uid, format_args!("nominated: {:?}", patch.nomination));
        }
        if let Some(pod) = self.server.pods.get(uid) {
            let nominated = renominated(pod, &patch.nomination);
            let condition = said.or_else(|| pod.condition.clone());
            self.server.put_pod(Pod { condition, nominated, ..Pod::clone(pod) }, By::Scheduler);
        }
    }

    fn note_record(&mut self, record: &EventRecord) -> Result<(), Broken> {
        let uid = &*record.pod.uid;
        self.say("record", uid, format_args!("{}", record.reason));
        if record.reason != "Preempted" {
            self.check_may_report(&record.pod)?;
        }
        if self.process.pods.contains_key(uid) {
            // The first event may be sent after a list of an older state took the binding back.
            let is_bound_again = self.process.reset_by_stale_list.contains(uid);
            let reported = self.process.reported.entry(uid.to_owned()).or_default();
            match record.reason {
                "Scheduled" => reported.scheduled_records += 1,
                "Preempted" => {}
                _ => reported.failed_records += 1,
            }
            if reported.scheduled_records > 1 && !is_bound_again {
                return Err(broken("a pod gets one Scheduled event", uid.to_owned()));
            }
        }
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        let due = Due::Credit { incarnation: self.process.incarnation, lane: Lane::Record };
        self.agenda.write(self.now + delay, due);
        Ok(())
    }

    /// Returns the stamp of a node and a pod, or of everything, if the scheduler knows all changes by others
    /// that the stamp covers.
    pub(crate) fn stamp_if_known(&self, node: Option<(&str, &str)>) -> Option<Stamp> {
        let of_node = |(node, uid)| self.server.node_stamp(node, uid);
        let stamp = node.map_or_else(|| self.server.whole_stamp(), of_node);
        let known = |kind, changed| self.watches.know(kind, changed);
        let all = known(Kind::Pod, stamp.pods.max(stamp.own))
            && known(Kind::Node, stamp.nodes)
            && known(Kind::Namespace, stamp.namespaces)
            && known(Kind::PersistentVolumeClaim, stamp.claims)
            && known(Kind::PersistentVolume, stamp.volumes)
            && known(Kind::StorageClass, stamp.classes)
            && known(Kind::CsiNode, stamp.csi_nodes);
        all.then_some(stamp)
    }

    /// Forgets the decision of a pod that is decided again. Decisions whose bindings are on their way may have counted
    /// the pod.
    pub(crate) fn forget_decision(&mut self, uid: &str) {
        if self.process.decided.remove(uid).is_some() {
            self.server.count_refusal();
        }
    }

    /// Records a decision.
    pub(crate) fn note_placed(&mut self, uid: &str, node: &str) {
        if self.process.decided.get(uid).is_some_and(|before| before.node != node) {
            self.forget_decision(uid);
        }
        let decided = Decided {
            node: node.to_owned(),
            on: self.stamp_if_known(None),
            number: self.placed,
            released: None,
            in_flight: false,
            may_arrive: false,
            settled: false,
        };
        self.process.numbers.insert(uid.to_owned(), decided.number);
        self.process.decided.insert(uid.to_owned(), decided);
    }
}
