//! Parses text into the syntax tree, with the parser of the crate `cel`.

use cel::common::ast::{EntryExpr, IdedEntryExpr, IdedExpr, LiteralValue, SourceInfo, operators};
use cel::{ParseErrors, common::ast};

use super::macros::{self, Expansion};
use super::{Entry, Expr, ExprKind};
use crate::Value;
use crate::error::{Issue, Place};

/// Maximum depth of nested expressions, and of nested operators and selections (`maxRecursionDepth` in
/// cel-go's `parser/parser.go`).
const DEPTH_LIMIT: u16 = 250;
/// Maximum number of nodes after the expansion of macros. `optMap` copies its target, so a chain of calls
/// grows exponentially. An expression of 10 KiB without such chains has fewer than 50,000 nodes.
const NODE_LIMIT: usize = 200_000;
/// Maximum length of an expression in characters (`expressionSizeCodePointLimit` in cel-go's
/// `parser/parser.go`). The API server accepts 10 KiB (`CELSelectorExpressionMaxLength`).
const SIZE_LIMIT: usize = 100_000;

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(super) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    let size = source.chars().count();
    if size > SIZE_LIMIT {
        return Err(vec![Issue::general(format!(
            "expression code point size exceeds limit: size: {size}, limit {SIZE_LIMIT}"
        ))]);
    }
    if nesting(source) > usize::from(DEPTH_LIMIT) {
        return Err(vec![Issue::general(format!("expression recursion limit exceeded: {DEPTH_LIMIT}"))]);
    }
    // The parser recurses for each operator of a chain, and so does dropping its tree. Every other byte can
    // be an operator.
    stacker::grow((8 << 20) + STACK_PER_BYTE * source.len(), || parse_and_convert(source))
}

/// Stack in bytes for each byte of the source: twice the need of the generated parser, measured in an
/// unoptimized build.
const STACK_PER_BYTE: usize = 3 << 10;

fn parse_and_convert(source: &str) -> Result<Expr, Vec<Issue>> {
    // The parser allows one level more than this setting.
    let parser =
        cel::Env::default().parser().enable_optional_syntax(true).max_recursion_depth(DEPTH_LIMIT - 1);
    let (tree, positions) = parser.parse_with_source_info(source).map_err(|errors| issues(&errors))?;
    let mut conversion = Conversion { source, positions: &positions, nodes: 0, depth: 0 };
    conversion.expr(tree).map_err(|issue| vec![issue])
}

/// Returns the maximum number of brackets that are open at once.
fn nesting(source: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                most = most.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'"' | b'\'' => return nesting_outside_strings(source),
            _ => {}
        }
    }
    most
}

/// Like [`nesting`], but skips strings, each up to its closing quote or the end of its line. Brackets in
/// later lines of a string count.
fn nesting_outside_strings(source: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut bytes = source.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                most = most.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'"' | b'\'' => {
                while let Some(next) = bytes.next() {
                    match next {
                        b'\\' => drop(bytes.next()),
                        b'\n' => break,
                        _ if next == byte => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    most
}

fn issues(errors: &ParseErrors) -> Vec<Issue> {
    let issue = |error: &cel::ParseError| {
        let place = match (usize::try_from(error.pos.0), usize::try_from(error.pos.1)) {
            (Ok(line @ 1..), Ok(column)) => Place::LineColumn(line, column.max(1)),
            _ => Place::None,
        };
        Issue { place, message: error.msg.clone() }
    };
    errors.errors.iter().map(issue).collect()
}

struct Conversion<'s> {
    source: &'s str,
    positions: &'s SourceInfo,
    nodes: usize,
    depth: u16,
}

impl Conversion<'_> {
    fn offset(&self, id: u64) -> usize {
        let start = self.positions.offset_for(id).map_or(0, |range| range.0 as usize);
        start.min(self.source.len())
    }

    fn expr(&mut self, tree: IdedExpr) -> Result<Expr, Issue> {
        crate::deep(|| self.expr_inner(tree))
    }

    fn expr_inner(&mut self, tree: IdedExpr) -> Result<Expr, Issue> {
        let offset = self.offset(tree.id);
        let deep = counts_as_level(&tree.expr);
        if deep {
            self.depth += 1;
            if self.depth > DEPTH_LIMIT {
                return Err(Issue::general("max recursion depth exceeded"));
            }
        }
        let kind = match tree.expr {
            ast::Expr::Unspecified | ast::Expr::Comprehension(_) => {
                return Err(Issue::at(offset, "Syntax error"));
            }
            ast::Expr::Ident(name) => {
                let bare = name.strip_prefix('.').unwrap_or(&name);
                if RESERVED.contains(&bare) {
                    return Err(Issue::at(offset, format!("reserved identifier: {bare}")));
                }
                ExprKind::Ident(bare.to_owned())
            }
            ast::Expr::Literal(literal) => ExprKind::Literal(constant(literal)),
            ast::Expr::Select(select) => ExprKind::Select {
                operand: Box::new(self.expr(*select.operand)?),
                field: select.field,
                test: select.test,
            },
            ast::Expr::Call(call) => {
                let expr = self.call(offset, call)?;
                self.depth -= u16::from(deep);
                return self.counted(expr);
            }
            ast::Expr::List(list) => {
                let optional =
                    (0..list.elements.len()).map(|index| list.optional_indices.contains(&index)).collect();
                ExprKind::List { elements: self.all(list.elements)?, optional }
            }
            ast::Expr::Map(map) => ExprKind::Map(self.entries(map.entries)?),
            ast::Expr::Struct(message) => {
                ExprKind::Message { name: message.type_name, fields: self.fields(message.entries)? }
            }
        };
        self.depth -= u16::from(deep);
        self.counted(Expr::new(offset, kind))
    }

    fn counted(&mut self, expr: Expr) -> Result<Expr, Issue> {
        self.nodes += 1;
        self.check_size()?;
        Ok(expr)
    }

    fn check_size(&self) -> Result<(), Issue> {
        if self.nodes > NODE_LIMIT {
            return Err(Issue::general("expression is too large after the expansion of its macros"));
        }
        Ok(())
    }

    fn all(&mut self, trees: Vec<IdedExpr>) -> Result<Vec<Expr>, Issue> {
        trees.into_iter().map(|tree| self.expr(tree)).collect()
    }

    fn call(&mut self, offset: usize, call: ast::CallExpr) -> Result<Expr, Issue> {
        let target = call.target.map(|target| self.expr(*target)).transpose()?;
        let args = self.all(call.args)?;
        let function = call.func_name.strip_prefix('.').unwrap_or(&call.func_name).to_owned();
        if target.is_none() && RESERVED.contains(&function.as_str()) {
            return Err(Issue::at(offset, format!("reserved identifier: {function}")));
        }
        match macros::expand(offset, &function, target, args)? {
            Expansion::Macro { expr, copied } => {
                self.nodes += copied;
                self.check_size()?;
                Ok(expr)
            }
            Expansion::Call { target, args } => {
                Ok(Expr::new(offset, ExprKind::Call { function, target: target.map(Box::new), args }))
            }
        }
    }

    fn entries(&mut self, entries: Vec<IdedEntryExpr>) -> Result<Vec<Entry>, Issue> {
        let mut converted = Vec::with_capacity(entries.len());
        for entry in entries {
            if let EntryExpr::MapEntry(entry) = entry.expr {
                converted.push(Entry {
                    key: self.expr(entry.key)?,
                    value: self.expr(entry.value)?,
                    optional: entry.optional,
                });
            }
        }
        Ok(converted)
    }

    fn fields(&mut self, entries: Vec<IdedEntryExpr>) -> Result<Vec<(String, Expr)>, Issue> {
        let mut converted = Vec::with_capacity(entries.len());
        for entry in entries {
            if let EntryExpr::StructField(entry) = entry.expr {
                converted.push((entry.field, self.expr(entry.value)?));
            }
        }
        Ok(converted)
    }
}

/// Returns whether a node counts toward cel-go's depth limit: selections, indexing, methods, conditionals,
/// and arithmetic and comparison operators.
fn counts_as_level(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Select(_) => true,
        ast::Expr::Call(call) => call.target.is_some() || LEVELS.contains(&call.func_name.as_str()),
        _ => false,
    }
}

const LEVELS: [&str; 16] = [
    operators::CONDITIONAL,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::IN,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
];

fn constant(literal: LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(value.into_inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(value.into_inner()),
        LiteralValue::Int(value) => Value::Int(value.into_inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::String(value.inner().into()),
        LiteralValue::UInt(value) => Value::Uint(value.into_inner()),
    }
}
