//! Mutant schemata: source text that contains many mutants at once, each behind a switch read at run time.
//!
//! Only insertions change the text. A mutated branch repeats the original operands; the mutants inside the operands
//! are in the unmutated branch only, since one mutant is active at a time.

use super::mutant::{Genre, Mutant};
use std::collections::HashMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ImplItemFn, ItemFn, Pat, ReturnType, Signature, TraitItemFn, UnOp};

/// A file with its mutants compiled in.
pub(crate) struct Schema {
    pub(crate) text: String,
    /// The text inserted for each mutant.
    pub(crate) inserted: Vec<(Range<usize>, usize)>,
    /// The expressions around which mutants are, with their mutants.
    pub(crate) around: Vec<(Range<usize>, Vec<usize>)>,
    /// Mutants that no compiler accepts: `||` beside `let`, and an iterator over `&mut` instead of `&`.
    pub(crate) unviable: Vec<usize>,
    /// Mutants that a switch cannot express, such as those of a `const fn`.
    pub(crate) single: Vec<usize>,
}

/// What encloses the text that a mutant replaces.
enum Node {
    /// A function's body.
    Body(Returned),
    /// A binary expression; true if it joins a `let`.
    Binary { whole: Range<usize>, left: Range<usize>, right: Range<usize>, joins_let: bool },
    /// A unary expression.
    Unary { whole: Range<usize>, operand: Range<usize> },
    /// A match arm without a guard, by its arrow, and the match.
    Arm { arrow: Range<usize>, whole: Range<usize> },
    /// A guard; true if it contains a `let`.
    Guard { has_let: bool },
    /// A field of a struct literal, and the struct that has its default.
    Field { name: String, value: Range<usize>, base: Range<usize>, is_shorthand: bool },
}

/// What a function returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returned {
    /// A value that a switch can replace.
    Value,
    /// An iterator, whose items a switch can replace.
    Items,
    /// Another `impl` type, or the value of a constant function: no switch can replace it.
    Fixed,
}

/// Text inserted around a range.
struct Wrap {
    range: Range<usize>,
    /// Of wraps with equal ranges, the least opens first: bodies and guards, then expressions, then matches.
    rank: i8,
    pieces: Vec<(Option<usize>, String)>,
    /// Whether the range becomes a block in parentheses.
    is_block: bool,
    /// What follows the block.
    closing: Vec<(usize, String)>,
}

/// Returns the file with the given mutants, each with its number, compiled in.
pub(crate) fn compile_in(text: &str, mutants: &[(usize, &Mutant)]) -> Result<Schema, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, nodes: HashMap::new() };
    finder.visit_file(&file);
    let mut schema = Schema {
        text: String::new(),
        inserted: Vec::new(),
        around: Vec::new(),
        unviable: Vec::new(),
        single: Vec::new(),
    };
    let mut wraps: Vec<Wrap> = Vec::new();
    for &(number, mutant) in mutants {
        let Some(node) = finder.nodes.get(&(kind(mutant.genre), mutant.start)) else {
            schema.single.push(number);
            continue;
        };
        let switch = format!("crate::mutant_switch::on({number})");
        let of = |range: &Range<usize>| &text[range.clone()];
        let (range, piece) = match node {
            Node::Body(Returned::Value) => {
                (mutant.start..mutant.end, format!("if {switch} {{ return {}; }} ", mutant.replacement))
            }
            Node::Body(Returned::Items) => {
                match items(&switch, &mutant.replacement) {
                    Some(closing) => add_items(&mut wraps, mutant.start..mutant.end, number, closing),
                    None => schema.unviable.push(number),
                }
                continue;
            }
            Node::Binary { whole, left, right, joins_let: false } => (
                whole.clone(),
                format!("if {switch} {{ ({}) {} ({}) }} else ", of(left), mutant.replacement, of(right)),
            ),
            Node::Unary { whole, operand } => {
                (whole.clone(), format!("if {switch} {{ ({}) }} else ", of(operand)))
            }
            Node::Arm { arrow, whole } => {
                // Nothing is inserted around the match, but errors of the match concern its arms.
                add(&mut wraps, whole.clone(), 2, number, String::new(), true);
                (arrow.clone(), format!("if !{switch} "))
            }
            Node::Guard { has_let: false } => {
                (mutant.start..mutant.end, format!("if {switch} {{ {} }} else ", mutant.replacement))
            }
            Node::Field { name, value, base, is_shorthand } => {
                if *is_shorthand {
                    add(&mut wraps, value.clone(), 0, number, format!("{name}: "), true);
                }
                (value.clone(), format!("if {switch} {{ ({}).{name} }} else ", of(base)))
            }
            Node::Binary { joins_let: true, .. } => {
                schema.unviable.push(number);
                continue;
            }
            Node::Body(Returned::Fixed) | Node::Guard { .. } => {
                schema.single.push(number);
                continue;
            }
        };
        let is_statement = matches!(node, Node::Body(_) | Node::Arm { .. });
        let rank = if matches!(node, Node::Body(_) | Node::Guard { .. }) { 0 } else { 1 };
        add(&mut wraps, range, rank, number, piece, is_statement);
    }
    insert(text, &wraps, &mut schema);
    Ok(schema)
}

/// Returns what replaces the items of an iterator: by none, or by one. `None` if the item has the wrong type, because a
/// `&mut` inside an iterator does not become a `&`.
fn items(switch: &str, replacement: &str) -> Option<String> {
    let none = format!(".take(if {switch} {{ 0 }} else {{ usize::MAX }})");
    match replacement.strip_prefix("::std::iter::once(").and_then(|item| item.strip_suffix(')')) {
        None => {
            assert_eq!(replacement, "::std::iter::empty()", "cargo-mutants knows two other iterators");
            Some(none)
        }
        Some(item) if item.contains("Box::leak(") => None,
        Some(item) => Some(format!("{none}.chain(if {switch} {{ Some({item}) }} else {{ None }})")),
    }
}

/// Adds a mutant to the wrap of its expression.
fn add(
    wraps: &mut Vec<Wrap>,
    range: Range<usize>,
    rank: i8,
    number: usize,
    piece: String,
    is_statement: bool,
) {
    wrap(wraps, range, rank, !is_statement).pieces.push((Some(number), piece));
}

/// Adds a mutant of a function that returns an iterator.
fn add_items(wraps: &mut Vec<Wrap>, body: Range<usize>, number: usize, closing: String) {
    wrap(wraps, body, 0, true).closing.push((number, closing));
}

/// Returns the wrap of a range, and adds it if there is none.
fn wrap(wraps: &mut Vec<Wrap>, range: Range<usize>, rank: i8, is_block: bool) -> &mut Wrap {
    let at = wraps.iter().position(|wrap| wrap.range == range && wrap.rank == rank).unwrap_or_else(|| {
        let open = if is_block { "(" } else { "" };
        let pieces = vec![(None, open.to_string())];
        wraps.push(Wrap { range, rank, pieces, is_block, closing: Vec::new() });
        wraps.len() - 1
    });
    &mut wraps[at]
}

/// Writes the text with all insertions: outer ones open first and close last.
fn insert(text: &str, wraps: &[Wrap], schema: &mut Schema) {
    let mut events: Vec<(usize, bool, i64, i8, usize)> = Vec::new();
    for (at, wrap) in wraps.iter().enumerate() {
        let (start, end) = (wrap.range.start as i64, wrap.range.end as i64);
        events.push((wrap.range.start, true, -end, wrap.rank, at));
        events.push((wrap.range.end, false, -start, -wrap.rank, at));
    }
    events.sort_unstable();
    let mut done = 0;
    let mut opened: HashMap<usize, usize> = HashMap::new();
    for (offset, opens, _, _, at) in events {
        schema.text.push_str(&text[done..offset]);
        done = offset;
        let wrap = &wraps[at];
        if opens {
            opened.insert(at, schema.text.len());
            for (number, piece) in &wrap.pieces {
                let start = schema.text.len();
                schema.text.push_str(piece);
                if let Some(number) = number {
                    schema.inserted.push((start..schema.text.len(), *number));
                }
            }
            if wrap.is_block {
                schema.text.push('{');
            }
        } else {
            schema.text.push_str(if wrap.is_block { "})" } else { "" });
            for (number, piece) in &wrap.closing {
                let start = schema.text.len();
                schema.text.push_str(piece);
                schema.inserted.push((start..schema.text.len(), *number));
            }
            let opening = wrap.pieces.iter().filter_map(|(number, _)| *number);
            let numbers = opening.chain(wrap.closing.iter().map(|(number, _)| *number)).collect();
            schema.around.push((opened[&at]..schema.text.len(), numbers));
        }
    }
    schema.text.push_str(&text[done..]);
}

/// Several mutants may begin at one place, for example a body and its first operator.
fn kind(genre: Genre) -> u8 {
    match genre {
        Genre::FnValue => 0,
        Genre::BinaryOperator => 1,
        Genre::UnaryOperator => 2,
        Genre::MatchArm => 3,
        Genre::MatchArmGuard => 4,
        Genre::StructField => 5,
    }
}

/// Finds the nodes that a switch can enclose, by genre and by the first byte that a mutant replaces.
struct Finder<'a> {
    text: &'a str,
    nodes: HashMap<(u8, usize), Node>,
}

impl Finder<'_> {
    fn put(&mut self, genre: Genre, at: usize, node: Node) {
        self.nodes.insert((kind(genre), at), node);
    }

    fn function(&mut self, signature: &Signature, block: &syn::Block) -> bool {
        let is_const = signature.constness.is_some();
        if let Some(first) = block.stmts.first() {
            let returned = if is_const { Returned::Fixed } else { self.returned(signature, block) };
            self.put(Genre::FnValue, first.span().byte_range().start, Node::Body(returned));
        }
        !is_const
    }

    fn returned(&self, signature: &Signature, block: &syn::Block) -> Returned {
        let ReturnType::Type(_, of) = &signature.output else { return Returned::Value };
        let of = &self.text[of.span().byte_range()];
        // A `return` would leave out what replaces the items.
        let has_return = self.text[block.span().byte_range()].contains("return");
        match of.contains("impl ") {
            false => Returned::Value,
            true if of.starts_with("impl Iterator<") && !has_return => Returned::Items,
            true => Returned::Fixed,
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, node: &'ast ItemFn) {
        if self.function(&node.sig, &node.block) {
            visit::visit_block(self, &node.block);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast ImplItemFn) {
        if self.function(&node.sig, &node.block) {
            visit::visit_block(self, &node.block);
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast TraitItemFn) {
        if let Some(block) = &node.default
            && self.function(&node.sig, block)
        {
            visit::visit_block(self, block);
        }
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let (left, right) = (node.left.span().byte_range(), node.right.span().byte_range());
        let joins_let = matches!(node.op, BinOp::And(_)) && (has_let(&node.left) || has_let(&node.right));
        let whole = left.start..right.end;
        self.put(
            Genre::BinaryOperator,
            node.op.span().byte_range().start,
            Node::Binary { whole, left, right, joins_let },
        );
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        if matches!(node.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let whole = node.span().byte_range();
            let operand = node.expr.span().byte_range();
            self.put(Genre::UnaryOperator, node.op.span().byte_range().start, Node::Unary { whole, operand });
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        let whole = node.span().byte_range();
        for arm in &node.arms {
            if let Pat::Guard(guarded) = &arm.pat {
                let at = guarded.guard.span().byte_range().start;
                self.put(Genre::MatchArmGuard, at, Node::Guard { has_let: has_let(&guarded.guard) });
            } else {
                let arrow = arm.fat_arrow_token.span().byte_range();
                let at = arm.span().byte_range().start;
                self.put(Genre::MatchArm, at, Node::Arm { arrow, whole: whole.clone() });
            }
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if let Pat::Guard(guarded) = &node.pat {
            self.visit_expr(&guarded.guard);
        }
        self.visit_expr(&node.body);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        if let Some(rest) = &node.rest {
            let base = rest.span().byte_range();
            for field in &node.fields {
                let name = self.text[field.member.span().byte_range()].to_string();
                let (value, base) = (field.expr.span().byte_range(), base.clone());
                let (at, is_shorthand) = (field.span().byte_range().start, field.colon_token.is_none());
                self.put(Genre::StructField, at, Node::Field { name, value, base, is_shorthand });
            }
        }
        visit::visit_expr_struct(self, node);
    }

    // No switch can be read in a constant, a pattern or a type.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }
}

/// Returns whether an operand of `&&` is a `let`.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => {
            matches!(binary.op, BinOp::And(_)) && (has_let(&binary.left) || has_let(&binary.right))
        }
        _ => false,
    }
}

/// Returns the module that is appended to the mutated crate: it reads the active mutant from `MUTANT`, or appends the
/// number of every mutant that is reached to the file `MUTANT_LOG`.
pub(crate) fn switch(mutants: usize) -> String {
    format!(
        r#"
#[doc(hidden)]
pub mod mutant_switch {{
    use std::io::Write;
    use std::sync::atomic::{{AtomicBool, AtomicUsize, Ordering::Relaxed}};

    const UNREAD: usize = usize::MAX;
    const LOGGED: usize = usize::MAX - 1;
    const NONE: usize = usize::MAX - 2;
    static ACTIVE: AtomicUsize = AtomicUsize::new(UNREAD);
    static REACHED: [AtomicBool; {mutants}] = [const {{ AtomicBool::new(false) }}; {mutants}];

    #[inline]
    pub fn on(mutant: usize) -> bool {{
        let active = ACTIVE.load(Relaxed);
        active == mutant || (active >= LOGGED && ask(mutant))
    }}

    #[cold]
    #[inline(never)]
    fn ask(mutant: usize) -> bool {{
        if ACTIVE.load(Relaxed) == UNREAD {{
            let unset = if std::env::var_os("MUTANT_LOG").is_some() {{ LOGGED }} else {{ NONE }};
            let active = std::env::var("MUTANT").map_or(unset, |text| text.parse().expect("MUTANT is a number"));
            ACTIVE.store(active, Relaxed);
            return on(mutant);
        }}
        if !REACHED[mutant].swap(true, Relaxed) {{
            let path = std::env::var_os("MUTANT_LOG").expect("reached mutants are logged");
            let mut log = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the log opens");
            log.write_all(format!("{{mutant}}\n").as_bytes()).expect("the log can be written");
        }}
        false
    }}
}}
"#
    )
}
