//! Plans the evaluation of a checked expression as cel-go's planner does: resolves names, folds constants,
//! and chooses implementations. Folded constants have no cost.

use std::sync::Arc;

use super::attribute::{Attribute, Key, Qualifier, Root, Slot};
use super::call::Call;
use super::evaluate;
use crate::Value;
use crate::error::{Error, Result};
use crate::parse::{Entry, Expr, ExprKind, Fold};
use crate::value::{Map, format_go};

/// A node of the plan.
#[derive(Debug)]
pub(super) enum Node {
    Const(Value),
    Attribute(Box<Attribute>),
    /// `has(x.y)`.
    Test(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equal {
        sides: Box<[Node; 2]>,
        negated: bool,
    },
    /// `x.or(y)`, or `x.orValue(y)` if `value`.
    OptionalOr {
        sides: Box<[Node; 2]>,
        value: bool,
    },
    /// `x in [constants]`.
    Member {
        element: Box<Node>,
        members: Map,
    },
    Call(Box<Call>),
    List {
        elements: Vec<Node>,
        optional: Vec<bool>,
    },
    Map(Vec<PlannedEntry>),
    Fold(Box<PlannedFold>),
}

#[derive(Debug)]
pub(super) struct PlannedEntry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct PlannedFold {
    pub(super) range: Node,
    pub(super) start: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
    /// Whether the comprehension has two iteration variables.
    pub(super) two: bool,
}

pub(super) fn plan(expr: Expr) -> Result<Node> {
    Planner { scopes: Vec::new(), levels: 0 }.node(expr)
}

struct Planner {
    /// Variables of comprehensions, innermost last.
    scopes: Vec<(String, Slot)>,
    /// The number of enclosing comprehensions.
    levels: usize,
}

impl Planner {
    fn node(&mut self, expr: Expr) -> Result<Node> {
        crate::deep(|| self.node_inner(expr))
    }

    fn node_inner(&mut self, expr: Expr) -> Result<Node> {
        match expr.kind {
            ExprKind::Literal(value) | ExprKind::Resolved(value) => Ok(Node::Const(value)),
            ExprKind::Ident(name) => {
                let slot = self.scopes.iter().rev().find(|(known, _)| *known == name).map(|(_, slot)| *slot);
                Ok(Node::Attribute(Box::new(Attribute::new(slot.map_or(Root::Device, Root::Slot)))))
            }
            ExprKind::Select { operand, field, test } => {
                let mut attribute = self.attribute(*operand)?;
                attribute.push(&Arc::new(Qualifier {
                    key: Key::Const(Value::text(field)),
                    optional: false,
                    test,
                }));
                Ok(if test { Node::Test(attribute) } else { Node::Attribute(attribute) })
            }
            ExprKind::Call { function, target, args } => {
                let args = target.map(|target| *target).into_iter().chain(args);
                let args = args.map(|arg| self.node(arg)).collect::<Result<Vec<_>>>()?;
                let overload = if let [overload] = expr.overloads[..] { Some(overload) } else { None };
                self.call(&function, overload, args)
            }
            ExprKind::List { elements, optional } => {
                let elements =
                    elements.into_iter().map(|element| self.node(element)).collect::<Result<Vec<_>>>()?;
                let constant = elements.iter().all(Node::is_const);
                fold_constant(Node::List { elements, optional }, constant)
            }
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Message { name, .. } => Err(Error::new(format!("unknown type: {name}"))),
            ExprKind::Fold(fold) => self.fold(*fold),
        }
    }

    /// Plans a node as an attribute to which qualifiers can be added.
    fn attribute(&mut self, expr: Expr) -> Result<Box<Attribute>> {
        Ok(match self.node(expr)? {
            Node::Attribute(attribute) => attribute,
            operand => Box::new(Attribute::new(Root::Operand(operand))),
        })
    }

    fn call(
        &mut self,
        function: &str,
        overload: Option<&'static crate::check::Overload>,
        args: Vec<Node>,
    ) -> Result<Node> {
        let args = match (function, <[Node; 2]>::try_from(args)) {
            ("_&&_", Ok(sides)) => return Ok(Node::And(Box::new(sides))),
            ("_||_", Ok(sides)) => return Ok(Node::Or(Box::new(sides))),
            ("_==_", Ok(sides)) => return Ok(Node::Equal { sides: Box::new(sides), negated: false }),
            ("_!=_", Ok(sides)) => return Ok(Node::Equal { sides: Box::new(sides), negated: true }),
            ("or", Ok(sides)) => return Ok(Node::OptionalOr { sides: Box::new(sides), value: false }),
            ("orValue", Ok(sides)) => return Ok(Node::OptionalOr { sides: Box::new(sides), value: true }),
            ("_[_]", Ok([operand, index])) => return index_into(operand, index, false),
            ("_[?_]" | "_?._", Ok([operand, index])) => return index_into(operand, index, true),
            (_, Ok(sides)) => sides.into(),
            (_, Err(args)) => args,
        };
        let args = match (function, <[Node; 3]>::try_from(args)) {
            ("_?_:_", Ok([condition, truthy, falsy])) => {
                let branches = [truthy, falsy].map(as_attribute);
                let root = Root::Conditional { condition, branches: Box::new(branches) };
                return Ok(Node::Attribute(Box::new(Attribute::new(root))));
            }
            (_, Ok(args)) => args.into(),
            (_, Err(args)) => args,
        };
        if overload.is_some_and(|overload| overload.id == "in_list")
            && let [_, Node::Const(Value::List(list))] = &args[..]
        {
            if list.is_empty() {
                return Ok(Node::Const(Value::Bool(false)));
            }
            if let Some(members) = members(list)? {
                let Some(element) = args.into_iter().next() else { return Err(Error::NO_OVERLOAD) };
                return Ok(Node::Member { element: Box::new(element), members });
            }
        }
        let conversion = matches!(
            function,
            "bool"
                | "bytes"
                | "double"
                | "duration"
                | "dyn"
                | "int"
                | "string"
                | "timestamp"
                | "type"
                | "uint"
        );
        let constant = conversion && matches!(args[..], [Node::Const(_)]);
        fold_constant(Node::Call(Box::new(Call::plan(function, overload, args)?)), constant)
    }

    fn map(&mut self, entries: Vec<Entry>) -> Result<Node> {
        let mut planned = Vec::with_capacity(entries.len());
        for Entry { key, value, optional } in entries {
            planned.push(PlannedEntry { key: self.node(key)?, value: self.node(value)?, optional });
        }
        let constant = planned.iter().all(|entry| entry.key.is_const() && entry.value.is_const());
        fold_constant(Node::Map(planned), constant)
    }

    fn fold(&mut self, fold: Fold) -> Result<Node> {
        let (range, start) = (self.node(fold.range)?, self.node(fold.start)?);
        let level = self.levels;
        let outer = self.scopes.len();
        self.levels += 1;
        let two = fold.second.is_some();
        self.scopes.push((fold.accumulator, Slot::Accumulator(level)));
        self.scopes.push((fold.variable, Slot::First(level)));
        if let Some(name) = fold.second {
            self.scopes.push((name, Slot::Second(level)));
        }
        let (condition, step) = (self.node(fold.condition)?, self.node(fold.step)?);
        self.scopes.truncate(outer + 1);
        let result = self.node(fold.result)?;
        self.scopes.truncate(outer);
        self.levels = level;
        Ok(Node::Fold(Box::new(PlannedFold { range, start, condition, step, result, two })))
    }
}

impl Node {
    fn is_const(&self) -> bool {
        matches!(self, Self::Const(_))
    }
}

/// Evaluates the node at once if it is constant.
fn fold_constant(node: Node, constant: bool) -> Result<Node> {
    if constant { evaluate::constant(&node).map(Node::Const) } else { Ok(node) }
}

fn as_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        operand => Attribute::new(Root::Operand(operand)),
    }
}

fn index_into(operand: Node, index: Node, optional: bool) -> Result<Node> {
    let mut attribute = as_attribute(operand);
    let key = match index {
        Node::Const(value) => {
            if !is_key(&value) {
                return Err(Error::new(format!("invalid qualifier type: {}", format_go::type_name(&value))));
            }
            Key::Const(value)
        }
        Node::Attribute(attribute) => Key::Attribute(attribute),
        other => Key::Node(other),
    };
    attribute.push(&Arc::new(Qualifier { key, optional, test: false }));
    Ok(Node::Attribute(Box::new(attribute)))
}

/// Returns whether a value can be an index.
pub(super) fn is_key(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
}

/// Returns the elements of a constant list as a lookup table, as in cel-go, or `None` if an element is not a
/// boolean, number or string. Numbers match equal numbers of other types.
fn members(list: &crate::List) -> Result<Option<Map>> {
    let mut members = Map::default();
    for element in list.iter() {
        if !is_key(element) {
            return Ok(None);
        }
        members.set(element, Value::Bool(true))?;
    }
    Ok(Some(members))
}
