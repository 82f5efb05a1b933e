//! Explanations equal decisions.

use super::{Change, Law, MANY, WANTED, change};
use proptest::prelude::*;
use supercargo_core::cycle::{Decision, NoProbe, Options};
use supercargo_core::model::node_set::NodeSet;

impl Law {
    /// Checks that the explanation of a pod matches its decision: the feasible nodes, and the first rejection of
    /// every other node.
    fn explain(&mut self, wanted: usize) {
        self.cluster.cache.refresh();
        let (pod, snapshot) = (&self.wanted[wanted], self.cluster.snapshot());
        let findings = self.framework.explain(pod, snapshot);
        let options = Options { ignore_own_nomination: true, always_score: true, walk: None, within: None };
        let decided = self.framework.decide(pod, snapshot, options, &mut NoProbe);
        let filtered = match decided {
            Err(_) => return,
            Ok(Decision::Infeasible(filtered)) => filtered,
            Ok(Decision::Feasible(feasible)) => {
                let nodes = feasible.filtered.feasible();
                let table =
                    self.framework.explain_scores(pod, snapshot, nodes).expect("the decision had no error");
                let scores = feasible.scores.expect("scores were requested");
                assert_eq!(table.totals, scores.totals, "{}", WANTED[wanted]);
                for (full, decided) in table.plugins.iter().zip(&scores.plugins) {
                    assert_eq!((full.plugin, &full.normalized), (decided.plugin, &decided.normalized));
                }
                feasible.filtered
            }
        };
        if let Some((plugin, rejection)) = filtered.prefilter_rejection() {
            assert!(
                findings.before.iter().any(|said| said.plugin == plugin && said.reasons == rejection.reasons)
            );
            return;
        }
        let free = findings.nodes.iter().filter(|of| of.objections.is_empty()).map(|of| of.node);
        assert_eq!(&free.collect::<NodeSet>(), filtered.feasible(), "{}", WANTED[wanted]);
        for verdict in filtered.verdicts(snapshot) {
            let of =
                findings.nodes.iter().find(|of| of.node == verdict.node).expect("every node is explained");
            // Nominated pods are assumed for the first verdict. Each rejection must be among those of the
            // explanation.
            let first =
                of.objections.iter().find(|no| no.plugin == verdict.plugin).expect("the plugin objects");
            let is_first = of.objections[0].plugin == verdict.plugin;
            let are_nominated = !snapshot.nominated_on(verdict.node).is_empty();
            assert!(is_first || are_nominated, "{}: {:?} {verdict:?}", WANTED[wanted], of.objections);
            assert!(first.code == Some(verdict.code) && first.reasons == verdict.reasons || are_nominated);
        }
    }
}

fn explain_after(mut law: Law, changes: &[Change]) {
    for change in changes.iter().filter(|change| !matches!(change, Change::Ask(_))) {
        law.apply(change);
    }
    for wanted in 0..WANTED.len() {
        law.explain(wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn explanation_equals_decision(changes in prop::collection::vec(change(), 1..100)) {
        explain_after(Law::new(), &changes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn explanation_equals_decision_on_many_nodes(
        odd in prop::collection::vec(0..MANY, 0..40),
        changes in prop::collection::vec(change(), 1..40),
    ) {
        explain_after(Law::with_many_nodes(&odd), &changes);
    }
}
