//! The syntax tree, and the function that parses text into it. Only this module depends on the underlying
//! parser.

mod macros;
mod syntax;

use crate::Value;
use crate::check::Overload;
use crate::error::Issue;
use crate::types::Type;

/// Parses an expression and expands its macros.
pub(crate) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    syntax::parse(source)
}

/// A node of the syntax tree. The checker sets `ty` and `overloads`.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Offset in bytes from the start of the source.
    pub(crate) offset: usize,
    pub(crate) kind: ExprKind,
    pub(crate) ty: Type,
    /// The overloads that a call may resolve to.
    pub(crate) overloads: Vec<&'static Overload>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Value),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Expr>,
        optional: Vec<bool>,
    },
    Map(Vec<Entry>),
    Message {
        name: String,
        fields: Vec<(String, Expr)>,
    },
    Fold(Box<Fold>),
    /// The value of a type name or a constant of a package, with which the checker replaces the name.
    Resolved(Value),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension: the expansion of a macro over a range.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) start: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn new(offset: usize, kind: ExprKind) -> Self {
        Self { offset, kind, ty: Type::ERROR, overloads: Vec::new() }
    }

    /// Returns the name that an expression such as `a.b.c` denotes.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        let mut parts = Vec::new();
        let mut expr = self;
        loop {
            match &expr.kind {
                ExprKind::Ident(name) => {
                    parts.push(name.as_str());
                    parts.reverse();
                    return Some(parts.join("."));
                }
                ExprKind::Select { operand, field, test: false } => {
                    parts.push(field);
                    expr = operand;
                }
                _ => return None,
            }
        }
    }

    /// Calls `visit` with this node and then all descendants, until it returns false.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Self) -> bool) -> bool {
        crate::deep(|| visit(self) && self.children().into_iter().all(|child| child.walk(visit)))
    }

    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Resolved(_) => Vec::new(),
            ExprKind::Select { operand, .. } => vec![operand],
            ExprKind::Call { target, args, .. } => target.iter().map(|t| &**t).chain(args).collect(),
            ExprKind::List { elements, .. } => elements.iter().collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            ExprKind::Message { fields, .. } => fields.iter().map(|field| &field.1).collect(),
            ExprKind::Fold(fold) => vec![&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result],
        }
    }
}
