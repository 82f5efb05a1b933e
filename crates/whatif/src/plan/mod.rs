//! Plans that move pods: which nodes can be emptied, with the new place of every displaced pod decided beforehand.
//!
//! A plan is a list of steps. Each evicts one pod, and the scheduler decides about its replacement before the next one.
//! The planner makes these decisions in the same order in a [`Cluster`](crate::cluster::Cluster), with the nodes to
//! empty cordoned from the start. A step is planned only if its result is certain: either one node is the best, or it
//! is the best while the nodes that tie with it are cordoned. The planner itself moves no pod.

mod answer;
mod candidates;
mod defragment;
mod free_nodes;
mod make_room;
mod movable;
mod passes;
mod rebalance;
mod steps;
mod swap;
#[cfg(test)]
mod tests;

pub use answer::{Blocker, Excess, FreeNodesPlan, KeptNode, MakeRoomPlan, Move, PlannedPod, RebalancePlan};
pub use free_nodes::{Goal, free_nodes};
pub use make_room::{make_room, make_room_for};
pub use movable::Accepted;
pub use rebalance::{Bounds, rebalance};
