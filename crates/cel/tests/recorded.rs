//! Compares with what Kubernetes' own environment made of thousands of expressions: see `tests/upstream/cel`.

mod support;

use std::io::Read as _;

use serde_json::Value as Json;
use supercargo_cel::compile_any;

/// The recording: a JSON object a line.
const RECORDED: &[u8] = include_bytes!("recorded.jsonl.gz");

#[test]
fn recorded_expressions_give_the_same_type_result_error_and_costs() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(RECORDED).read_to_string(&mut text).expect("the recording");
    let lines: Vec<Json> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(lines.len() > 10_000);
    let differences: Vec<String> =
        lines.iter().filter_map(|line| Some(format!("{}: {}", line["e"], compare(line).err()?))).collect();
    let some = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {} differ:\n{some}", differences.len(), lines.len());
}

fn compare(line: &Json) -> Result<(), String> {
    let expression = line["e"].as_str().expect("an expression");
    let refused = line["k"].as_str();
    let program = match (compile_any(expression), refused) {
        (Err(_), Some(_)) => return Ok(()),
        (Err(error), None) => {
            return Err(format!(
                "compiles upstream ({}), here {}",
                line["t"],
                error.to_string().replace('\n', "|")
            ));
        }
        (Ok(program), Some(reason)) => {
            return Err(format!(
                "compiles here to {}, upstream {}",
                program.result_type(),
                reason.replace('\n', "|")
            ));
        }
        (Ok(program), None) => program,
    };
    if program.result_type().to_string() != line["t"].as_str().unwrap_or_default() {
        return Err(format!("type {} upstream {}", program.result_type(), line["t"]));
    }
    let device = support::device(&line["d"]);
    let evaluation = program.evaluate(&device);
    let expected = line["v"].as_str().map(Ok).or(line["x"].as_str().map(Err)).unwrap_or(Ok(""));
    let found = evaluation.result.as_ref().map(support::render).map_err(ToString::to_string);
    if found.as_deref().map_err(String::as_str) != expected {
        return Err(format!("{found:?} upstream {expected:?}"));
    }
    if Some(evaluation.cost) != line["c"].as_u64() && line["c"].is_u64() {
        return Err(format!("cost {} upstream {}", evaluation.cost, line["c"]));
    }
    if let Some(expected) = line["m"].as_str() {
        // The recorder leaves out an estimate without bound.
        let estimate = line["s"].as_u64().unwrap_or(u64::MAX);
        if program.estimated_cost() != estimate {
            return Err(format!("estimated cost {} upstream {estimate}", program.estimated_cost()));
        }
        let found =
            program.matches(&device).map_or_else(|error| error.to_string(), |matches| matches.to_string());
        if found != expected {
            return Err(format!("matches {found} upstream {expected}"));
        }
    }
    Ok(())
}
