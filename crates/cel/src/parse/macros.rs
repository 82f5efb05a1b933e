//! Expands macros to comprehensions and calls. The expansions are cel-go's, since the cost depends on them.

use super::{Entry, Expr, ExprKind, Fold};
use crate::Value;
use crate::error::Issue;

/// The result of expanding a call.
pub(super) enum Expansion {
    /// The expansion of a macro. It contains `copied` nodes twice.
    Macro { expr: Expr, copied: usize },
    /// The unchanged parts of a call that is not a macro.
    Call { target: Option<Expr>, args: Vec<Expr> },
}

/// Name of the accumulator of a comprehension.
const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
/// Name of the iteration variable of a comprehension over an empty list.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

pub(super) fn expand(
    offset: usize,
    function: &str,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Result<Expansion, Issue> {
    let build = Build { offset };
    let expr = match (function, target, args.len()) {
        ("has", None, 1) => build.has(args.remove(0))?,
        ("all" | "exists" | "exists_one", Some(range), 2 | 3) | ("existsOne", Some(range), 3) => {
            build.quantifier(function, range, args)?
        }
        ("map", Some(range), 2 | 3) => build.map(range, args)?,
        ("filter", Some(range), 2) => build.filter(range, args)?,
        ("transformList", Some(range), 3 | 4) => build.transform_list(range, args)?,
        ("transformMap" | "transformMapEntry", Some(range), 3 | 4) => {
            build.transform_map(function, range, args)?
        }
        ("sortBy", Some(list), 2) => build.sort_by(list, args)?,
        ("optMap" | "optFlatMap", Some(optional), 2) => return build.optional_map(function, optional, args),
        ("bind", Some(target), 3) => {
            if !matches!(&target.kind, ExprKind::Ident(name) if name == "cel") {
                return Ok(Expansion::Call { target: Some(target), args });
            }
            build.bind(args)?
        }
        (_, target, _) => return Ok(Expansion::Call { target, args }),
    };
    Ok(Expansion::Macro { expr, copied: 0 })
}

/// Builds nodes at the position of the macro.
struct Build {
    offset: usize,
}

impl Build {
    fn expr(&self, kind: ExprKind) -> Expr {
        Expr::new(self.offset, kind)
    }

    fn literal(&self, value: Value) -> Expr {
        self.expr(ExprKind::Literal(value))
    }

    fn ident(&self, name: &str) -> Expr {
        self.expr(ExprKind::Ident(name.to_owned()))
    }

    fn accumulator(&self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&self, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { function: function.to_owned(), target: None, args })
    }

    fn method(&self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { function: function.to_owned(), target: Some(Box::new(target)), args })
    }

    fn list(&self, elements: Vec<Expr>) -> Expr {
        let optional = vec![false; elements.len()];
        self.expr(ExprKind::List { elements, optional })
    }

    fn empty_map(&self) -> Expr {
        self.expr(ExprKind::Map(Vec::<Entry>::new()))
    }

    /// Builds a comprehension with the usual accumulator.
    fn fold(
        &self,
        range: Expr,
        variables: (String, Option<String>),
        start: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let (variable, second) = variables;
        let accumulator = ACCUMULATOR.to_owned();
        self.expr(ExprKind::Fold(Box::new(Fold {
            range,
            variable,
            second,
            accumulator,
            start,
            condition,
            step,
            result,
        })))
    }

    /// Binds `name` to `value` in `body`.
    fn let_in(&self, name: &str, value: Expr, step: Expr, body: Expr) -> Expr {
        self.expr(ExprKind::Fold(Box::new(Fold {
            range: self.list(Vec::new()),
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: name.to_owned(),
            start: value,
            condition: self.literal(Value::Bool(false)),
            step,
            result: body,
        })))
    }

    fn has(&self, arg: Expr) -> Result<Expr, Issue> {
        match arg.kind {
            ExprKind::Select { operand, field, .. } => {
                Ok(self.expr(ExprKind::Select { operand, field, test: true }))
            }
            _ => Err(Issue::at(arg.offset, "invalid argument to has() macro")),
        }
    }

    fn quantifier(&self, function: &str, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let Some(predicate) = args.pop() else { return Err(self.missing()) };
        let variables = variables(&args, "argument must be a simple name")?;
        let (start, condition, step, result);
        match function {
            "all" => {
                start = self.literal(Value::Bool(true));
                condition = self.call("@not_strictly_false", vec![self.accumulator()]);
                step = self.call("_&&_", vec![self.accumulator(), predicate]);
                result = self.accumulator();
            }
            "exists" => {
                start = self.literal(Value::Bool(false));
                condition = self.call("@not_strictly_false", vec![self.call("!_", vec![self.accumulator()])]);
                step = self.call("_||_", vec![self.accumulator(), predicate]);
                result = self.accumulator();
            }
            _ => {
                start = self.literal(Value::Int(0));
                condition = self.literal(Value::Bool(true));
                let one_more = self.call("_+_", vec![self.accumulator(), self.literal(Value::Int(1))]);
                step = self.call("_?_:_", vec![predicate, one_more, self.accumulator()]);
                result = self.call("_==_", vec![self.accumulator(), self.literal(Value::Int(1))]);
            }
        }
        Ok(self.fold(range, variables, start, condition, step, result))
    }

    fn map(&self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let Some(transform) = args.pop() else { return Err(self.missing()) };
        let filter = if args.len() == 2 { args.pop() } else { None };
        let variables = variables(&args, "argument is not an identifier")?;
        let step = self.call("_+_", vec![self.accumulator(), self.list(vec![transform])]);
        Ok(self.collect(range, variables, self.list(Vec::new()), step, filter))
    }

    /// Builds a comprehension that adds to a list or map in each iteration in which `filter` is true.
    fn collect(
        &self,
        range: Expr,
        variables: (String, Option<String>),
        start: Expr,
        step: Expr,
        filter: Option<Expr>,
    ) -> Expr {
        let step = match filter {
            Some(filter) => self.call("_?_:_", vec![filter, step, self.accumulator()]),
            None => step,
        };
        self.fold(range, variables, start, self.literal(Value::Bool(true)), step, self.accumulator())
    }

    fn filter(&self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let Some(filter) = args.pop() else { return Err(self.missing()) };
        let variables = variables(&args, "argument is not an identifier")?;
        let step = self.call("_+_", vec![self.accumulator(), self.list(args)]);
        Ok(self.collect(range, variables, self.list(Vec::new()), step, Some(filter)))
    }

    fn transform_list(&self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let Some(transform) = args.pop() else { return Err(self.missing()) };
        let filter = if args.len() == 3 { args.pop() } else { None };
        let variables = variables(&args, "argument must be a simple name")?;
        let step = self.call("_+_", vec![self.accumulator(), self.list(vec![transform])]);
        Ok(self.collect(range, variables, self.list(Vec::new()), step, filter))
    }

    fn transform_map(&self, function: &str, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let Some(transform) = args.pop() else { return Err(self.missing()) };
        let filter = if args.len() == 3 { args.pop() } else { None };
        let variables = variables(&args, "argument must be a simple name")?;
        let arguments = if function == "transformMap" {
            vec![self.accumulator(), self.ident(&variables.0), transform]
        } else {
            vec![self.accumulator(), transform]
        };
        let step = self.call("cel.@mapInsert", arguments);
        Ok(self.collect(range, variables, self.empty_map(), step, filter))
    }

    fn sort_by(&self, list: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        let allowed = matches!(
            list.kind,
            ExprKind::List { .. }
                | ExprKind::Select { .. }
                | ExprKind::Ident(_)
                | ExprKind::Fold(_)
                | ExprKind::Call { .. }
        );
        if !allowed {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(Issue::at(list.offset, message));
        }
        let keys = self.map(self.ident(SORT_INPUT), args)?;
        let body = self.method("@sortByAssociatedKeys", self.ident(SORT_INPUT), vec![keys]);
        Ok(self.let_in(SORT_INPUT, list, self.ident(SORT_INPUT), body))
    }

    fn optional_map(&self, function: &str, target: Expr, mut args: Vec<Expr>) -> Result<Expansion, Issue> {
        let (Some(body), Some(variable)) = (args.pop(), args.pop()) else { return Err(self.missing()) };
        let ExprKind::Ident(name) = &variable.kind else {
            return Err(Issue::at(
                variable.offset,
                format!("{function}() variable name must be a simple identifier"),
            ));
        };
        let mut copied = 0;
        target.walk(&mut |_| {
            copied += 1;
            true
        });
        let value = self.method("value", target.clone(), Vec::new());
        let mapped = self.let_in(name, value, self.ident(name), body);
        let mapped = if function == "optMap" { self.call("optional.of", vec![mapped]) } else { mapped };
        let present = self.method("hasValue", target, Vec::new());
        let expr = self.call("_?_:_", vec![present, mapped, self.call("optional.none", Vec::new())]);
        Ok(Expansion::Macro { expr, copied })
    }

    fn bind(&self, mut args: Vec<Expr>) -> Result<Expr, Issue> {
        let (Some(body), Some(value), Some(variable)) = (args.pop(), args.pop(), args.pop()) else {
            return Err(self.missing());
        };
        let ExprKind::Ident(name) = &variable.kind else {
            return Err(Issue::at(variable.offset, "cel.bind() variable names must be simple identifiers"));
        };
        Ok(self.let_in(name, value, self.ident(name), body))
    }

    fn missing(&self) -> Issue {
        Issue::at(self.offset, "missing argument of a macro")
    }
}

/// Returns the names of one or two iteration variables.
fn variables(args: &[Expr], message: &str) -> Result<(String, Option<String>), Issue> {
    let mut names = Vec::with_capacity(2);
    for arg in args {
        match &arg.kind {
            ExprKind::Ident(name) => names.push(name.clone()),
            _ => return Err(Issue::at(arg.offset, message)),
        }
    }
    if names.len() == 2 && names[0] == names[1] {
        return Err(Issue::at(args[1].offset, format!("duplicate variable name: {}", names[0])));
    }
    if let Some(index) = names.iter().position(|name| name == ACCUMULATOR || name == OLD_ACCUMULATOR) {
        return Err(Issue::at(args[index].offset, "iteration variable overwrites accumulator variable"));
    }
    let second = names.get(1).cloned();
    Ok((names.swap_remove(0), second))
}
