//! Extenders in the language of scenarios: configuration, calls and answers.

use std::fmt::Write as _;
use supercargo_core::model::effect::{ExtenderCall, Question};
use supercargo_core::model::extender::{Answer, CandidateAnswer, Extender, ExtenderId, FilterAnswer};
use supercargo_core::model::intern::Tables;

/// Parses an extender, name first: `g filter prioritize=3 bind preempt ignorable managed=example.com/fpga`.
pub(crate) fn extender(tables: &mut Tables, id: u64, words: &[&str]) -> Extender {
    let (name, words) = words.split_first().expect("an extender has a name");
    let mut extender = Extender {
        id: ExtenderId(id),
        url: (*name).into(),
        filters: false,
        prioritizes: false,
        preempts: false,
        binds: false,
        weight: 1,
        ignorable: false,
        managed: [].into(),
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "filter" => extender.filters = true,
            "prioritize" => {
                extender.prioritizes = true;
                extender.weight = value.parse().expect("a weight");
            }
            "preempt" => extender.preempts = true,
            "bind" => extender.binds = true,
            "ignorable" => extender.ignorable = true,
            "managed" => extender.managed = [tables.symbol(value)].into(),
            other => panic!("an extender has no {other}"),
        }
    }
    extender
}

/// Formats a call as a line.
pub(crate) fn describe_call(call: &ExtenderCall, name: &str) -> String {
    let pod = format!("{}/{}", call.pod.namespace, call.pod.name);
    let mut line = format!("ask {name} about {pod}: ");
    line += &match &call.question {
        Question::Filter { nodes } => format!("filter {}", nodes.join(" ")),
        Question::Prioritize { nodes } => format!("prioritize {}", nodes.join(" ")),
        Question::Preempt { rooms } => {
            let mut line = "preempt".to_owned();
            for room in rooms {
                let pods: Vec<&str> = room.pods.iter().map(|pod| pod.name.as_str()).collect();
                let _ = write!(line, " {}:{}", room.node, pods.join(","));
                if room.violations > 0 {
                    let _ = write!(line, " (violations {})", room.violations);
                }
            }
            line
        }
    };
    line
}

/// Parses an answer: `passed a b failed c:why hopeless d:why`, `scores a:3`, `rooms a:v,w`, `error TEXT`.
pub(crate) fn parse_answer(words: &[&str]) -> Result<Answer, String> {
    let (kind, rest) = words.split_first().expect("an answer has a kind");
    let pair = |word: &str| {
        let (name, what) = word.split_once(':').expect("node:what");
        (name.to_owned(), what.replace('_', " "))
    };
    match *kind {
        "error" => Err(rest.join(" ")),
        "scores" => {
            let scores = rest.iter().map(|word| {
                let (node, score) = pair(word);
                (node, score.parse().expect("a score"))
            });
            Ok(Answer::Scored(scores.collect()))
        }
        "rooms" => {
            let room = |word: &&str| {
                let (node, victims) = word.split_once(':').expect("node:victims");
                let victims = victims.split(',').filter(|uid| !uid.is_empty()).map(str::to_owned).collect();
                CandidateAnswer { node: node.to_owned(), victims, violations: 0 }
            };
            Ok(Answer::Candidates(rest.iter().map(room).collect()))
        }
        "passed" => {
            let mut answer = FilterAnswer::default();
            let mut list = "passed";
            for word in rest {
                match (list, *word) {
                    (_, "failed" | "hopeless") => list = word,
                    ("failed", word) => answer.failed.push(pair(word)),
                    ("hopeless", word) => answer.unresolvable.push(pair(word)),
                    (_, node) => answer.passed.push(node.to_owned()),
                }
            }
            Ok(Answer::Filtered(answer))
        }
        other => panic!("unknown answer {other}"),
    }
}
