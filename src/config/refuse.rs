//! What a valid configuration may ask for and this version does not do.

use super::effective::Effective;
use super::field::Problem;

/// The fields that cannot be honoured, each with what to do.
pub(super) fn problems(effective: &Effective) -> Vec<Problem> {
    let (written, complete) = (&effective.written, &effective.configuration);
    let mut problems = Vec::new();
    let mut refuse = |path: String, text: String| {
        let place = effective.document.as_ref().and_then(|document| document.find(&path));
        problems.push(Problem { path, text, place });
    };
    let not_built = |what: &str| format!("{what} is not part of this version; remove the field");
    if complete.leader_election.leader_elect == Some(true) {
        refuse(
            "leaderElection.leaderElect".to_owned(),
            "leader election is not part of this version, and true is the default; set it to false and run one \
             replica"
                .to_owned(),
        );
    }
    let sampling = "looking at a part of the nodes";
    if written.percentage_of_nodes_to_score.is_some() {
        refuse("percentageOfNodesToScore".to_owned(), not_built(sampling));
    }
    for (at, profile) in written.profiles.iter().enumerate() {
        if profile.percentage_of_nodes_to_score.is_some() {
            refuse(format!("profiles[{at}].percentageOfNodesToScore"), not_built(sampling));
        }
    }
    if !written.extenders.is_empty() {
        refuse("extenders".to_owned(), not_built("asking extenders"));
    }
    let profiling = [
        ("enableProfiling", written.enable_profiling),
        ("enableContentionProfiling", written.enable_contention_profiling),
    ];
    for (field, _) in profiling.into_iter().filter(|(_, enabled)| *enabled == Some(true)) {
        refuse(field.to_owned(), not_built("serving profiles"));
    }
    if written.delay_cache_until_active {
        refuse("delayCacheUntilActive".to_owned(), not_built("delaying the cache"));
    }
    problems
}
