//! A simulated extender. For pods that request its managed resource, it filters, scores and processes
//! preemption, with delays, errors and wrong answers according to the current fault rates.
//!
//! It does not bind; the simulated API server handles bindings. Runs without an extender make no draws for it.

use crate::agenda::{Answer, Due};
use crate::check::{Broken, broken};
use crate::fault_rates::draw_delay;
use crate::objects::GPU;
use crate::process::has_large_pods;
use crate::sim::Sim;
use std::time::Duration;
use supercargo_core::model::effect::{ExtenderCall, Question, Victims};
use supercargo_core::model::extender::{self, CandidateAnswer, Extender, ExtenderId, FilterAnswer};
use supercargo_core::scheduler::Scheduler;

/// The maximum number of pods that wait for extenders at a time.
const WAITING_MAX: usize = 64;
/// The maximum duration of a call, in addition to the delay of requests.
const THINKING: Duration = Duration::from_secs(3);

/// A node that does not exist, for wrong answers.
const NOWHERE: &str = "missing-node";

/// Configures the extender of a run. In one of three seeds it is ignorable.
pub(crate) fn install(seed: u64, scheduler: &mut Scheduler) {
    let extender = Extender {
        id: ExtenderId(0),
        url: "http://extender".into(),
        filters: true,
        prioritizes: true,
        preempts: true,
        binds: false,
        weight: 3,
        ignorable: seed.is_multiple_of(3),
        managed: [scheduler.tables().symbol(GPU)].into(),
    };
    scheduler.set_extenders(vec![extender]);
}

impl Sim {
    /// Whether the run's extender handles the pod.
    pub(crate) fn is_managed(&self, uid: &str) -> bool {
        self.extended && self.process.pods.get(uid).is_some_and(|pod| pod.gpus > 0)
    }

    /// Handles a call of the extender.
    pub(crate) fn send_call(&mut self, call: &ExtenderCall) -> Result<(), Broken> {
        let uid = &*call.pod.uid;
        if !self.is_managed(uid) {
            return Err(broken("an extender is called only for its pods", uid.to_owned()));
        }
        let answer = self.draw_answer(&call.question);
        let kind = match &answer {
            Ok(_) => "answers",
            Err(_) => "fails",
        };
        self.say("extender", uid, format_args!("{kind}: {:?}", call.question));
        self.process.calls.insert(uid.to_owned(), call.call);
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay + THINKING);
        let answer = Answer::Extended { uid: uid.to_owned(), call: call.call, answer };
        self.agenda.write(self.now + delay, Due::Answer { incarnation: self.process.incarnation, answer });
        Ok(())
    }

    fn draw_answer(&mut self, question: &Question) -> Result<extender::Answer, String> {
        let honest = self.is_settling();
        if !honest && self.draw.percent(10) {
            self.fault("extender failed");
            return Err("context deadline exceeded".to_owned());
        }
        let lies = !honest && self.draw.percent(5);
        if lies {
            self.fault("wrong extender answer");
        }
        let mut keeps = || honest || self.draw.percent(70);
        Ok(match question {
            Question::Filter { nodes } => {
                let (mut passed, failed): (Vec<String>, Vec<String>) =
                    nodes.iter().cloned().partition(|_| keeps());
                if lies {
                    passed.push(NOWHERE.to_owned());
                }
                let failed = failed.into_iter().map(|node| (node, "no license".to_owned())).collect();
                extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable: Vec::new() })
            }
            Question::Prioritize { nodes } => {
                let score = |(at, node): (usize, &String)| (node.clone(), at as i64 % 11);
                extender::Answer::Scored(nodes.iter().enumerate().map(score).collect())
            }
            Question::Preempt { rooms } => {
                let room = |room: &Victims| CandidateAnswer {
                    node: room.node.clone(),
                    victims: match lies {
                        true => vec!["missing-pod".to_owned()],
                        false => room.pods.iter().map(|pod| pod.uid.to_string()).collect(),
                    },
                    violations: room.violations as i64,
                };
                extender::Answer::Candidates(rooms.iter().filter(|_| keeps()).map(room).collect())
            }
        })
    }

    /// Records what the extender said of nodes in this attempt. All pass if it failed or gave a wrong answer and is
    /// ignorable, also the nominated node that it rejected when it was asked about it alone.
    pub(crate) fn note_passed(&mut self, uid: &str, call: u64, answer: &Result<extender::Answer, String>) {
        if self.process.calls.get(uid) != Some(&call) {
            return;
        }
        let verdicts = self.process.verdicts.entry(uid.to_owned()).or_default();
        match answer {
            Ok(extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable }))
                if !passed.contains(&NOWHERE.to_owned()) =>
            {
                let rejected = failed.iter().chain(unresolvable).map(|(node, _)| (node.clone(), false));
                verdicts.nodes.extend(passed.iter().map(|node| (node.clone(), true)).chain(rejected));
            }
            Ok(extender::Answer::Filtered(_)) | Err(_) => {
                verdicts.all_pass = true;
            }
            Ok(extender::Answer::Scored(_) | extender::Answer::Candidates(_)) => {}
        }
    }

    /// Checks that the chosen node passed the extender.
    pub(crate) fn check_passed(&mut self, uid: &str, node: &str) -> Result<(), Broken> {
        let Some(verdicts) = self.process.verdicts.remove(uid) else { return Ok(()) };
        let passed =
            verdicts.all_pass || verdicts.nodes.is_empty() || verdicts.nodes.get(node) == Some(&true);
        if self.is_managed(uid) && !passed {
            let detail = format!("{uid} on {node}; {verdicts:?}");
            return Err(broken("an extender's pod is placed on a node it accepted", detail));
        }
        Ok(())
    }

    /// Checks that pods that wait for the extender are in no other place, and that their number is limited.
    pub(crate) fn check_asking(&self) -> Result<(), Broken> {
        let scheduler = &self.process.scheduler;
        let asking: Vec<_> = scheduler.waiting_for_extenders().collect();
        if asking.len() > WAITING_MAX {
            return Err(broken(
                "the number of pods that wait for extenders is limited",
                asking.len().to_string(),
            ));
        }
        for pod in asking {
            let uid = &*pod.uid;
            let is_known = self.process.pods.get(uid).is_some_and(|pod| pod.ours && pod.node.is_none());
            // A decision that was withdrawn before its binding was sent remains recorded until the next one.
            let left = self.process.decided.get(uid).is_some_and(|decided| decided.released.is_some());
            if !is_known || scheduler.queue().contains(uid) || left {
                return Err(broken("a pod that waits for an extender is in no queue", uid.to_owned()));
            }
        }
        Ok(())
    }

    /// Checks that no pod without an extender is decided while a pod of higher priority waits for an extender
    /// that is not ignorable. The attempt of a large pod may have begun before.
    pub(crate) fn check_turn(&self, uid: &str) -> Result<(), Broken> {
        let is_exempt = self.seed.is_multiple_of(3) || has_large_pods(self.seed);
        if !self.extended || is_exempt || self.is_managed(uid) {
            return Ok(());
        }
        let Some(pod) = self.process.pods.get(uid) else { return Ok(()) };
        let mut asking = self.process.scheduler.waiting_for_extenders();
        match asking.find(|other| other.priority > pod.priority) {
            Some(other) => {
                let detail = format!("{uid} while {} waits", other.uid);
                Err(broken("no pod overtakes a pod of higher priority that waits for an extender", detail))
            }
            None => Ok(()),
        }
    }
}
