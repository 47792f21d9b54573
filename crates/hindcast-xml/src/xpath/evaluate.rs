//! What a query means for a document.

use std::{borrow::Cow, cell::OnceCell, collections::HashSet};

use super::{
    axes::Matcher,
    budget::Budget,
    error::XPathError,
    nodes::NodeRef,
    syntax::{Axis, Expression, Operator, Start, Step},
    value::Value,
};
use crate::tree::{Document, NodeId};

/// The node that is looked at, and its place among those that are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) node: NodeRef,
    pub(super) position: usize,
    pub(super) size: usize,
}

pub(super) struct Evaluator<'d> {
    pub(super) document: &'d Document,
    pub(super) budget: Budget,
    matchers: Vec<OnceCell<Matcher>>,
}

/// So many nodes are gathered before those that were found twice are dropped.
const TIDY: usize = 1 << 20;

impl<'d> Evaluator<'d> {
    pub(super) fn new(document: &'d Document, budget: Budget, steps: usize) -> Self {
        Self { document, budget, matchers: (0..steps).map(|_| OnceCell::new()).collect() }
    }

    pub(super) fn matcher(&self, step: &Step) -> &Matcher {
        self.matchers[step.number].get_or_init(|| Matcher::new(self.document, &step.test))
    }

    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        context: Context,
    ) -> Result<Value<'d>, XPathError> {
        self.budget.charge(1)?;
        Ok(match expression {
            Expression::Number(number) => Value::Number(*number),
            Expression::Literal(text) => Value::Text(Cow::Owned(text.clone())),
            Expression::Negate(inner) => Value::Number(-self.evaluate(inner, context)?.number(self.document)),
            Expression::Binary(operator, left, right) => self.binary(*operator, left, right, context)?,
            Expression::Call(function, arguments) => self.call(*function, arguments, context)?,
            Expression::Filter(inner, predicates) => {
                let mut nodes = self.nodes(inner, context, "what has predicates")?;
                for predicate in predicates {
                    self.keep(predicate, &mut nodes, 0)?;
                }
                Value::Nodes(nodes)
            }
            Expression::Path(start, steps) => Value::Nodes(self.path(start, steps, context)?),
        })
    }

    fn nodes(
        &self,
        expression: &Expression,
        context: Context,
        what: &'static str,
    ) -> Result<Vec<NodeRef>, XPathError> {
        match self.evaluate(expression, context)? {
            Value::Nodes(nodes) => Ok(nodes),
            _ => Err(XPathError::NotNodes(what)),
        }
    }

    fn path(&self, start: &Start, steps: &[Step], context: Context) -> Result<Vec<NodeRef>, XPathError> {
        let mut nodes = match start {
            Start::Root => vec![NodeRef::node(NodeId::DOCUMENT)],
            Start::Context => vec![context.node],
            Start::Nodes(inner) => self.nodes(inner, context, "what stands before `/`")?,
        };
        for step in steps {
            nodes = self.step(step, &nodes)?;
        }
        Ok(nodes)
    }

    /// One step from all nodes; the result is in document order, each node once.
    fn step(&self, step: &Step, from: &[NodeRef]) -> Result<Vec<NodeRef>, XPathError> {
        let mut found: Vec<NodeRef> = Vec::new();
        let positional = step.predicates.iter().any(Expression::is_positional);
        let mut covered = 0;
        let mut tidy_at = TIDY;
        for node in from {
            // What is below a node that has been walked has been found already.
            let is_descent = matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf);
            if is_descent && !positional && node.owner().0 < covered {
                continue;
            }
            let first = found.len();
            self.walk(step, *node, &mut found)?;
            for predicate in &step.predicates {
                self.keep(predicate, &mut found, first)?;
            }
            if step.axis.is_backwards() {
                found[first..].reverse();
            }
            if is_descent {
                covered = covered.max(self.document.node(node.owner()).end);
            }
            if found.len() > tidy_at {
                in_order(&mut found);
                self.budget.charge(found.len())?;
                tidy_at = TIDY.max(2 * found.len());
            }
            self.budget.check_memory(found.len() * size_of::<NodeRef>())?;
        }
        in_order(&mut found);
        Ok(found)
    }

    /// Keeps the nodes from `first` on for which the predicate holds.
    fn keep(&self, predicate: &Expression, nodes: &mut Vec<NodeRef>, first: usize) -> Result<(), XPathError> {
        let size = nodes.len() - first;
        if let Expression::Number(wanted) = predicate {
            let chosen = nodes[first..].iter().enumerate().find(|(index, _)| (index + 1) as f64 == *wanted);
            let chosen = chosen.map(|(_, node)| *node);
            nodes.truncate(first);
            nodes.extend(chosen);
            return Ok(());
        }
        let mut kept = first;
        for index in first..nodes.len() {
            let position = index - first + 1;
            let value = self.evaluate(predicate, Context { node: nodes[index], position, size })?;
            let holds = match value {
                Value::Number(number) => number == position as f64,
                value => value.boolean(),
            };
            if holds {
                nodes[kept] = nodes[index];
                kept += 1;
            }
        }
        nodes.truncate(kept);
        Ok(())
    }

    fn binary(
        &self,
        operator: Operator,
        left: &Expression,
        right: &Expression,
        context: Context,
    ) -> Result<Value<'d>, XPathError> {
        let number = |expression: &Expression| -> Result<f64, XPathError> {
            Ok(self.evaluate(expression, context)?.number(self.document))
        };
        Ok(match operator {
            Operator::Or => Value::Boolean(
                self.evaluate(left, context)?.boolean() || self.evaluate(right, context)?.boolean(),
            ),
            Operator::And => Value::Boolean(
                self.evaluate(left, context)?.boolean() && self.evaluate(right, context)?.boolean(),
            ),
            Operator::Add => Value::Number(number(left)? + number(right)?),
            Operator::Subtract => Value::Number(number(left)? - number(right)?),
            Operator::Multiply => Value::Number(number(left)? * number(right)?),
            Operator::Divide => Value::Number(number(left)? / number(right)?),
            Operator::Remainder => Value::Number(number(left)? % number(right)?),
            Operator::Union => {
                let mut all = self.nodes(left, context, "an operand of `|`")?;
                all.extend(self.nodes(right, context, "an operand of `|`")?);
                self.budget.charge(all.len())?;
                in_order(&mut all);
                Value::Nodes(all)
            }
            comparison => {
                let (left, right) = (self.evaluate(left, context)?, self.evaluate(right, context)?);
                Value::Boolean(self.compare(comparison, left, right)?)
            }
        })
    }

    /// XPath 1.0, 3.4: a node-set compares as any of its nodes does.
    fn compare(&self, operator: Operator, left: Value<'d>, right: Value<'d>) -> Result<bool, XPathError> {
        match (left, right) {
            (Value::Nodes(left), Value::Nodes(right)) => self.compare_sets(operator, &left, &right),
            (Value::Nodes(nodes), Value::Boolean(boolean)) => Ok(compare_atoms(
                operator,
                &Value::Boolean(!nodes.is_empty()),
                &Value::Boolean(boolean),
                self.document,
            )),
            (Value::Boolean(boolean), Value::Nodes(nodes)) => Ok(compare_atoms(
                operator,
                &Value::Boolean(boolean),
                &Value::Boolean(!nodes.is_empty()),
                self.document,
            )),
            (Value::Nodes(nodes), atom) => {
                self.any(&nodes, |node| compare_atoms(operator, &node, &atom, self.document))
            }
            (atom, Value::Nodes(nodes)) => {
                self.any(&nodes, |node| compare_atoms(operator, &atom, &node, self.document))
            }
            (left, right) => Ok(compare_atoms(operator, &left, &right, self.document)),
        }
    }

    fn any(&self, nodes: &[NodeRef], holds: impl Fn(Value<'d>) -> bool) -> Result<bool, XPathError> {
        for node in nodes {
            let text = node.text(self.document);
            self.budget.charge(1 + text.len() / 16)?;
            if holds(Value::Text(text)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn compare_sets(
        &self,
        operator: Operator,
        left: &[NodeRef],
        right: &[NodeRef],
    ) -> Result<bool, XPathError> {
        match operator {
            Operator::Equal => {
                let (few, many) = if left.len() < right.len() { (left, right) } else { (right, left) };
                let known = self.texts(few)?.into_iter().collect::<HashSet<_>>();
                self.any(many, |text| matches!(text, Value::Text(text) if known.contains(&text)))
            }
            Operator::NotEqual => {
                let mut texts = self.texts(left)?;
                texts.extend(self.texts(right)?);
                // Unless all texts are one and the same, some pair across the sets differs.
                let both = !left.is_empty() && !right.is_empty();
                Ok(both && texts.iter().any(|text| *text != texts[0]))
            }
            _ => {
                // The extremes decide.
                let (left, right) = (self.extremes(left)?, self.extremes(right)?);
                let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
                Ok(match operator {
                    Operator::Less => left.0 < right.1,
                    Operator::LessOrEqual => left.0 <= right.1,
                    Operator::Greater => left.1 > right.0,
                    _ => left.1 >= right.0,
                })
            }
        }
    }

    fn texts(&self, nodes: &[NodeRef]) -> Result<Vec<Cow<'d, str>>, XPathError> {
        let mut held = 0;
        let mut texts = Vec::with_capacity(nodes.len());
        for node in nodes {
            let text = node.text(self.document);
            self.budget.charge(1 + text.len() / 16)?;
            held += size_of_val(&text) + if let Cow::Owned(text) = &text { text.len() } else { 0 };
            self.budget.check_memory(held)?;
            texts.push(text);
        }
        Ok(texts)
    }

    /// The least and the greatest number among the nodes.
    fn extremes(&self, nodes: &[NodeRef]) -> Result<Option<(f64, f64)>, XPathError> {
        let mut extremes: Option<(f64, f64)> = None;
        for node in nodes {
            let text = node.text(self.document);
            self.budget.charge(1 + text.len() / 16)?;
            let number = super::number::from_text(&text);
            if !number.is_nan() {
                let (least, greatest) = extremes.unwrap_or((number, number));
                extremes = Some((least.min(number), greatest.max(number)));
            }
        }
        Ok(extremes)
    }
}

fn compare_atoms<'d>(
    operator: Operator,
    left: &Value<'d>,
    right: &Value<'d>,
    document: &'d Document,
) -> bool {
    let numbers = || (left.number(document), right.number(document));
    let equal = || match (left, right) {
        (Value::Boolean(_), _) | (_, Value::Boolean(_)) => left.boolean() == right.boolean(),
        (Value::Text(left), Value::Text(right)) => left == right,
        _ => left.number(document) == right.number(document),
    };
    match operator {
        Operator::Equal => equal(),
        Operator::NotEqual => match (left, right) {
            (Value::Number(_), _) | (_, Value::Number(_))
                if !matches!(left, Value::Boolean(_)) && !matches!(right, Value::Boolean(_)) =>
            {
                let (left, right) = numbers();
                left != right
            }
            _ => !equal(),
        },
        Operator::Less => numbers().0 < numbers().1,
        Operator::LessOrEqual => numbers().0 <= numbers().1,
        Operator::Greater => numbers().0 > numbers().1,
        _ => numbers().0 >= numbers().1,
    }
}

/// Sorts unless it is sorted already, which it mostly is.
fn in_order(nodes: &mut Vec<NodeRef>) {
    if !nodes.is_sorted_by(|left, right| left < right) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}
