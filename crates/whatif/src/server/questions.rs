//! Questions about a snapshot or a fork, which change nothing.

use super::answer::{Answer, Problem};
use super::base::{Base, too_many};
use super::messages::{
    ExplainRequest, FeasibleRequest, FreeNodesRequest, MakeRoomRequest, ObjectsRequest, RebalanceRequest,
    ScaleUpRequest, expected, read,
};
use super::{Service, User, not_found};
use crate::cluster::Interrupt;
use crate::plan::{Accepted, free_nodes, make_room_for, rebalance};
use serde_json::Value;

type Ask = Box<dyn FnOnce(&mut Base) -> Result<Answer, Problem>>;

/// Answers a question about the snapshot or fork of this id.
pub(super) fn answer(
    service: &mut Service,
    (user, kind, id): (&User, &str, &str),
    (question, body): (&[&str], &[u8]),
    interrupt: &Interrupt,
) -> Result<Answer, Problem> {
    let added_max = service.limits.added;
    let Some(ask) = ask(question, body, added_max)? else {
        let segments: Vec<&str> = [kind, id].into_iter().chain(question.iter().copied()).collect();
        return Err(not_found(&segments));
    };
    let (of, changes) = service.target(user, kind, id)?;
    service.with_base(user, &of, &changes, interrupt, ask)
}

/// Reads a question; `None` if there is no such question.
fn ask(question: &[&str], body: &[u8], added_max: usize) -> Result<Option<Ask>, Problem> {
    Ok(Some(match question {
        ["fits"] => {
            let ObjectsRequest { objects } = read(body)?;
            bounded(objects, added_max, |base, objects| Ok(Answer::of(200, &base.cluster.fits(objects)?)))
        }
        ["feasible"] => {
            let FeasibleRequest { objects, nodes } = read(body)?;
            bounded(objects, added_max, move |base, objects| {
                Ok(Answer::of(200, &base.cluster.feasible_nodes(objects, nodes.as_deref())?))
            })
        }
        ["explain"] => match read(body)? {
            ExplainRequest { pod: Some(pod), objects: None } => {
                Box::new(move |base| Ok(Answer::of(200, &base.cluster.explain(&pod, false)?)))
            }
            ExplainRequest { pod: None, objects: Some(objects) } => {
                bounded(objects, added_max, |base, objects| {
                    Ok(Answer::of(200, &base.cluster.explain_given(objects)?))
                })
            }
            _ => return Err(Problem::Invalid("expected exactly one of pod and objects".to_owned())),
        },
        ["scaleUp"] => {
            let question = read::<ScaleUpRequest>(body)?.checked()?;
            question.templates()?;
            if question.max_nodes > added_max {
                return Err(Problem::Invalid(format!("maxNodes: expected at most {added_max}")));
            }
            Box::new(move |base| {
                is_within(question.pods.expected(base.cluster.nodes().len()), added_max)?;
                let (templates, pods) = (question.templates()?, question.pods.to_scale_up());
                Ok(Answer::of(200, &base.cluster.scale_up(&templates, pods, question.max_nodes)?))
            })
        }
        ["plan", "freeNodes"] => {
            let (goal, accepted) = read::<FreeNodesRequest>(body)?.goal()?;
            Box::new(move |base| Ok(Answer::of(200, &free_nodes(&mut base.cluster, &goal, accepted)?)))
        }
        ["plan", "makeRoom"] => {
            let MakeRoomRequest { objects, delete_emptydir_data } = read(body)?;
            bounded(objects, added_max, move |base, objects| {
                let accepted = Accepted { local_data: delete_emptydir_data };
                Ok(Answer::of(200, &make_room_for(&mut base.cluster, objects, accepted)?))
            })
        }
        ["plan", "rebalance"] => {
            let (bounds, accepted) = read::<RebalanceRequest>(body)?.bounds()?;
            Box::new(move |base| Ok(Answer::of(200, &rebalance(&mut base.cluster, &bounds, accepted)?)))
        }
        _ => return Ok(None),
    }))
}

/// Returns a question about given objects, whose number of pods is limited.
fn bounded(
    objects: Vec<Value>,
    added_max: usize,
    ask: impl FnOnce(&mut Base, &[Value]) -> Result<Answer, Problem> + 'static,
) -> Ask {
    Box::new(move |base| {
        is_within(expected(&objects, base.cluster.nodes().len()), added_max)?;
        ask(base, &objects)
    })
}

fn is_within(expected: usize, added_max: usize) -> Result<(), Problem> {
    if expected > added_max { Err(too_many(added_max)) } else { Ok(()) }
}
