//! The domains that the members of a run use one after the other.

use super::cycle::RunState;
use super::shared::Rejections;
use crate::model::node_set::NodeSet;

/// The domains of a run. Once a member does not fit, it and those after it go on to the next domain.
///
/// The last one is for members that fit in no other: those after them go on where these began.
#[derive(Clone, Copy, Default)]
pub(super) struct Path<'a> {
    /// The current domain, and those after it.
    left: &'a [NodeSet],
    /// `left` when the current member began.
    began: &'a [NodeSet],
    /// Where other members go on, if the current one has come to the last domain.
    others: Option<&'a [NodeSet]>,
}

impl<'a> Path<'a> {
    /// Begins in the first domain. Without domains, all members use the same nodes.
    pub(super) fn new(domains: &'a [NodeSet]) -> Self {
        Self { left: domains, began: domains, others: None }
    }

    /// Returns the current domain.
    pub(super) fn current(&self) -> Option<&'a NodeSet> {
        self.left.first()
    }

    /// Whether the member before has come to the last domain of several.
    pub(super) fn has_ended(&self) -> bool {
        self.others.is_some()
    }

    /// Begins with another member. One that equals the member before fits where that one did, if anywhere. Returns
    /// whether the domain changes.
    pub(super) fn begin_member(&mut self, is_repeated: bool) -> bool {
        let others = self.others.take_if(|_| !is_repeated);
        self.left = others.unwrap_or(self.left);
        self.began = self.left;
        others.is_some()
    }

    /// Goes on to the next domain, if there is one.
    pub(super) fn enter_next(&mut self) -> bool {
        let [_, left @ ..] = self.left else { return false };
        if left.is_empty() {
            return false;
        }
        self.left = left;
        if left.len() == 1 {
            self.others = Some(self.began);
        }
        true
    }
}

impl RunState<'_> {
    /// Goes on to the next domain of the path, if there is one.
    pub(super) fn enter_next_domain(&mut self) -> bool {
        let has_next = self.path.enter_next();
        if has_next {
            (self.within, self.rejections) = (self.path.current(), Rejections::default());
        }
        has_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::NodeIdx;

    #[test]
    fn only_members_like_the_one_before_stay_in_the_last_domain() {
        let domains = [1, 2, 3].map(|nodes| (0..nodes).map(NodeIdx).collect::<NodeSet>());
        let mut path = Path::new(&domains);
        let nodes = |path: &Path<'_>| path.current().map_or(0, NodeSet::len);
        assert!(!path.begin_member(false) && path.enter_next());
        assert_eq!((nodes(&path), path.has_ended()), (2, false));
        assert!(!path.begin_member(false) && path.enter_next() && !path.enter_next());
        assert_eq!((nodes(&path), path.has_ended()), (3, true));
        assert!(!path.begin_member(true));
        assert_eq!(nodes(&path), 3);
        assert!(path.begin_member(false));
        assert_eq!((nodes(&path), path.has_ended()), (2, false), "where the member before began");
    }

    #[test]
    fn path_of_one_domain_has_no_next_one() {
        let domains = [NodeSet::new()];
        let mut path = Path::new(&domains);
        assert!(!path.begin_member(false) && !path.enter_next() && !path.has_ended());
        assert!(path.current().is_some() && Path::default().current().is_none());
    }
}
