//! Evaluates a planned expression, and counts its cost.

use super::Evaluation;
use super::attribute::Slot;
use super::cost;
use super::plan::{Node, PlannedEntry, PlannedFold};
use crate::error::{Error, Result};
use crate::value::{List, Map, Work, equal, format_go};
use crate::{Device, Value};

/// Maximum cost of an evaluation.
const COST_LIMIT: u64 = super::COST_MAX;

pub(super) struct Evaluator<'p> {
    pub(super) device: &'p Device,
    /// The comprehensions that are being evaluated, innermost last.
    pub(super) frames: Vec<Frame<'p>>,
    pub(super) work: Work,
    cost: u64,
}

/// A comprehension that is being evaluated.
pub(super) struct Frame<'p> {
    fold: &'p PlannedFold,
    /// The accumulator. Its first value is computed when it is first needed.
    pub(super) accumulator: Option<Result>,
    /// Whether the accumulator started as an empty list or map. Adding to it then changes it in place.
    pub(super) grows: bool,
    first: Value,
    second: Value,
}

pub(super) fn evaluate(root: &Node, device: &Device) -> Evaluation {
    let mut evaluator = Evaluator { device, frames: Vec::new(), work: Work::default(), cost: 0 };
    let result = evaluator.eval(root).and_then(Value::unbroken);
    Evaluation { result, cost: evaluator.cost }
}

/// Evaluates a node that uses no variables.
pub(super) fn constant(node: &Node) -> Result {
    evaluate(node, &Device::builder("").build()).result
}

impl<'p> Evaluator<'p> {
    /// Adds to the cost and checks the limit.
    pub(super) fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.wrapping_add(cost);
        if self.cost > COST_LIMIT { Err(Error::LIMIT) } else { Ok(()) }
    }

    pub(super) fn eval(&mut self, node: &'p Node) -> Result {
        match node {
            Node::Const(value) => Ok(value.clone()),
            _ => crate::deep(|| self.eval_inner(node)),
        }
    }

    fn eval_inner(&mut self, node: &'p Node) -> Result {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Attribute(attribute) => {
                let result = self.resolve(attribute);
                self.unless_fatal(&result)?;
                if !attribute.is_conditional() {
                    self.charge(1)?;
                }
                result
            }
            Node::Test(attribute) => {
                let result = self.resolve(attribute);
                self.unless_fatal(&result)?;
                if attribute.is_conditional() {
                    // Upstream subtracts a unit that it did not charge; the addition wraps.
                    self.charge(u64::MAX)?;
                }
                result
            }
            Node::And(sides) => self.logical(sides, false),
            Node::Or(sides) => self.logical(sides, true),
            Node::Equal { sides, negated } => self.equality(sides, *negated),
            Node::OptionalOr { sides, value } => self.optional_or(sides, *value),
            Node::Member { element, members } => {
                self.eval(element).map(|element| Value::Bool(members.get(&element).is_some()))
            }
            Node::Call(call) => self.call(call),
            Node::List { elements, optional } => {
                let result = self.list(elements, optional);
                self.unless_fatal(&result)?;
                self.charge(cost::LIST)?;
                result
            }
            Node::Map(entries) => {
                let result = self.map(entries);
                self.unless_fatal(&result)?;
                self.charge(cost::MAP)?;
                result
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// Returns a fatal error, which ends the evaluation before anything more is charged.
    fn unless_fatal(&self, result: &Result) -> Result<()> {
        match result {
            Err(error) if error.is_fatal() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Evaluates `&&` or `||`. An operand that decides the result absorbs an error of the other.
    fn logical(&mut self, sides: &'p [Node; 2], deciding: bool) -> Result {
        let mut error = None;
        for side in sides {
            match self.eval(side) {
                Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(Error::NO_OVERLOAD)),
                Err(fatal) if fatal.is_fatal() => return Err(fatal),
                Err(other) => error = error.or(Some(other)),
            }
        }
        error.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn equality(&mut self, sides: &'p [Node; 2], negated: bool) -> Result {
        let [first, second] = sides;
        let first = self.eval(first);
        self.unless_fatal(&first)?;
        let second = self.eval(second);
        self.unless_fatal(&second)?;
        let (result, cost) = match (first, second) {
            (Ok(first), Ok(second)) => {
                let same = equal(&first, &second, &mut self.work);
                // A non-fatal comparison error fails `==`, and makes `!=` true.
                let result = match same {
                    Err(error) if !negated || error.is_fatal() => Err(error),
                    same => Ok(Value::Bool((same == Ok(true)) != negated)),
                };
                (result, cost::equality(&first, &second, negated))
            }
            (first, second) => {
                let size = |side: &Result| side.clone().unwrap_or_else(Value::Broken);
                let cost = cost::equality(&size(&first), &size(&second), negated);
                (first.and(second), cost)
            }
        };
        self.unless_fatal(&result)?;
        self.charge(cost)?;
        result
    }

    fn optional_or(&mut self, sides: &'p [Node; 2], value: bool) -> Result {
        match self.eval(&sides[0])? {
            Value::Optional(None) => self.eval(&sides[1]),
            Value::Optional(Some(inner)) if value => (*inner).clone().unbroken(),
            other => Ok(other),
        }
    }

    fn list(&mut self, elements: &'p [Node], optional: &[bool]) -> Result {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements.iter().zip(optional) {
            let value = self.eval(element)?;
            match value {
                Value::Optional(None) if *optional => {}
                Value::Optional(Some(inner)) if *optional => values.push((*inner).clone().unbroken()?),
                other if *optional => {
                    let text = format_go::plain(&other);
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {text}"
                    )));
                }
                value => values.push(value),
            }
        }
        Ok(Value::List(List::new(values)))
    }

    fn map(&mut self, entries: &'p [PlannedEntry]) -> Result {
        let mut map = Map::default();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            match self.eval(&entry.value)? {
                Value::Optional(None) if entry.optional => map.remove(&key),
                Value::Optional(Some(inner)) if entry.optional => {
                    map.set(&key, (*inner).clone().unbroken()?)?;
                }
                other if entry.optional => {
                    let (key, value) = (format_go::plain(&key), format_go::plain(&other));
                    return Err(Error::new(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {value}"
                    )));
                }
                value => map.set(&key, value)?,
            }
        }
        Ok(Value::Map(map))
    }

    /// Returns the value of a comprehension variable.
    pub(super) fn slot(&mut self, slot: Slot) -> Result {
        let frame = |level: usize| self.frames.get(level).ok_or(Error::fixed("no such variable"));
        match slot {
            Slot::First(level) => frame(level).map(|frame| frame.first.clone()),
            Slot::Second(level) => frame(level).map(|frame| frame.second.clone()),
            Slot::Accumulator(level) => match &frame(level)?.accumulator {
                Some(value) => value.clone(),
                None => self.start(level),
            },
        }
    }

    /// Evaluates the first value of an accumulator, outside of its comprehension.
    fn start(&mut self, level: usize) -> Result {
        let inner = self.frames.split_off(level);
        let Some(fold) = inner.first().map(|frame| frame.fold) else {
            return Err(Error::fixed("no such variable"));
        };
        let value = self.eval(&fold.start);
        self.frames.extend(inner);
        self.unless_fatal(&value)?;
        if let Some(frame) = self.frames.get_mut(level) {
            frame.grows = match &value {
                Ok(Value::List(list)) => list.is_empty(),
                Ok(Value::Map(map)) => map.is_empty(),
                _ => false,
            };
            frame.accumulator = Some(value.clone());
        }
        value
    }

    fn fold(&mut self, fold: &'p PlannedFold) -> Result {
        let range = self.eval(&fold.range)?;
        let level = self.frames.len();
        self.frames.push(Frame {
            fold,
            accumulator: None,
            grows: false,
            first: Value::Null,
            second: Value::Null,
        });
        let result = self.rounds(fold, level, &range).and_then(|()| self.eval(&fold.result));
        self.frames.truncate(level);
        result
    }

    fn rounds(&mut self, fold: &'p PlannedFold, level: usize, range: &Value) -> Result<()> {
        match range {
            Value::List(list) => {
                for (index, element) in (0..).zip(list.iter()) {
                    let (first, second) = if fold.two {
                        (Value::Int(index), element.clone())
                    } else {
                        (element.clone(), Value::Null)
                    };
                    if !self.round(fold, level, first, second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    let second = if fold.two { value.clone() } else { Value::Null };
                    if !self.round(fold, level, key, second)? {
                        break;
                    }
                }
                Ok(())
            }
            other if fold.two => {
                let kind = format_go::type_name(other);
                Err(Error::new(format!("unsupported comprehension range type: {kind}")))
            }
            other => {
                Err(Error::new(format!("got '{}', expected iterable type", format_go::type_name(other))))
            }
        }
    }

    /// Evaluates one iteration. Returns false if the condition ends the loop.
    fn round(&mut self, fold: &'p PlannedFold, level: usize, first: Value, second: Value) -> Result<bool> {
        self.work.add(1)?;
        if let Some(frame) = self.frames.get_mut(level) {
            frame.first = first;
            frame.second = second;
        }
        let condition = self.eval(&fold.condition);
        self.unless_fatal(&condition)?;
        if let Ok(Value::Bool(false)) = condition {
            return Ok(false);
        }
        let step = self.eval(&fold.step);
        self.unless_fatal(&step)?;
        if let Some(frame) = self.frames.get_mut(level) {
            frame.accumulator = Some(step);
        }
        Ok(true)
    }
}
