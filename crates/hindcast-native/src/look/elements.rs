//! A search among the elements of containers, lists and trees.

use std::{collections::HashMap, ops::ControlFlow};

use hindcast_core::debug::{
    DebugError, ElementPage, ElementSearch, FoundElement, NumberFormat, Reason, RuntimeAddr, Variable,
};
use hindcast_symbols::{
    expression::{
        Bounded, Evaluated, Expression, ExpressionError, Found, Position, Rank, Scope, SortKey, on_element,
    },
    value::{Inspector, Placed},
};

use super::FrameScope;

/// No more elements are ordered or compared with each other.
const MOST_KEPT: usize = 4 << 20;
const EACH: &str = "[*]";

/// An element that was found.
struct Hit {
    key: Option<Placed>,
    value: Placed,
    positions: Vec<Position>,
    order: Option<Rank>,
    /// What it may share with others.
    same: Option<Rank>,
}

/// The expressions of a search.
struct Wanted {
    elements: Expression,
    condition: Option<Expression>,
    show: Vec<Expression>,
    order: Option<SortKey>,
    same: Option<Expression>,
}

impl Wanted {
    fn parse(search: &ElementSearch) -> Result<Self, ExpressionError> {
        let parse = |text: &str| reads_only(text, Expression::parse(text)?);
        let order = search.order.as_deref().map(|text| {
            let SortKey { key, is_descending } = SortKey::parse(text)?;
            Ok(SortKey { key: reads_only(text, key)?, is_descending })
        });
        Ok(Self {
            elements: parse(&search.elements)?,
            condition: search.condition.as_deref().map(parse).transpose()?,
            show: search.show.iter().map(|text| parse(text)).collect::<Result<_, _>>()?,
            order: order.transpose()?,
            same: search.duplicates_of.as_deref().map(parse).transpose()?,
        })
    }
}

/// Nothing is changed by looking for it.
fn reads_only(text: &str, expression: Expression) -> Result<Expression, ExpressionError> {
    match expression.writes() {
        true => Err(ExpressionError::Syntax { column: 1, expected: "no assignment", found: text.into() }),
        false => Ok(expression),
    }
}

/// The elements for which the condition of a search holds. Where the program's data is broken, those before.
pub(crate) fn find(scope: &FrameScope<'_>, search: &ElementSearch) -> Result<ElementPage, DebugError> {
    let failed = |error: ExpressionError| DebugError::Expression(error.into());
    let wanted = Wanted::parse(search).map_err(failed)?;
    // All that a search evaluates: the elements, the conditions on them, and what is shown.
    let scope = &Bounded::new(scope);
    let mut finding = Finding::new(search, &wanted);
    let visited = wanted.elements.each(scope, &mut |found| finding.visit(found));
    match visited {
        Ok(()) => {}
        Err(error) if error.is_by_data() && finding.page.searched > 0 => {
            finding.page.broken = Some(error.to_string());
        }
        Err(error) => return Err(failed(error)),
    }
    if finding.is_too_many {
        let what = format!("more than {MOST_KEPT} elements are found, too many to order or compare");
        return Err(DebugError::Expression(Reason::new(what).advise("give a stricter condition")));
    }
    let (mut page, hits) = finding.ordered();
    page.elements = hits.iter().map(|hit| tell(scope, search, &wanted, hit)).collect();
    Ok(page)
}

/// A search under way.
struct Finding<'s> {
    search: &'s ElementSearch,
    wanted: &'s Wanted,
    page: ElementPage,
    hits: Vec<Hit>,
    is_too_many: bool,
}

impl<'s> Finding<'s> {
    fn new(search: &'s ElementSearch, wanted: &'s Wanted) -> Self {
        let page = ElementPage { elements: Vec::new(), found: 0, searched: 0, unknown: 0, broken: None };
        Self { search, wanted, page, hits: Vec::new(), is_too_many: false }
    }

    /// Whether all that is found must be known before any of it can be told.
    fn keeps_all(&self) -> bool {
        self.wanted.order.is_some() || self.wanted.same.is_some()
    }

    fn visit(&mut self, found: &Found<'_>) -> Result<ControlFlow<()>, ExpressionError> {
        self.page.searched += 1;
        match self.take(found) {
            Err(error) if error.is_by_data() => self.page.unknown += 1,
            other => other?,
        }
        self.is_too_many = self.hits.len() > MOST_KEPT;
        Ok(if self.is_too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Keeps an element that is wanted, if it may have to be told.
    fn take(&mut self, found: &Found<'_>) -> Result<(), ExpressionError> {
        if let Some(condition) = &self.wanted.condition
            && !condition.is_true(found.scope)?
        {
            return Ok(());
        }
        let rank = |by: Option<&Expression>| by.map(|by| by.rank(found.scope)).transpose();
        let order = rank(self.wanted.order.as_ref().map(|order| &order.key))?;
        let same = rank(self.wanted.same.as_ref())?;
        let index = self.page.found;
        self.page.found += 1;
        let is_in_page =
            index >= self.search.offset && index - self.search.offset < u64::from(self.search.limit);
        if self.keeps_all() || is_in_page {
            self.hits.push(Hit {
                key: found.key.cloned(),
                value: found.value.clone(),
                positions: (found.positions)(),
                order,
                same,
            });
        }
        Ok(())
    }

    /// What is to be told, in order.
    fn ordered(mut self) -> (ElementPage, Vec<Hit>) {
        if self.wanted.same.is_some() {
            let mut counts: HashMap<Option<Rank>, u64> = HashMap::new();
            for hit in &self.hits {
                *counts.entry(hit.same.clone()).or_default() += 1;
            }
            self.hits.retain(|hit| counts.get(&hit.same).is_some_and(|count| *count > 1));
            self.hits.sort_by(|one, other| one.same.cmp(&other.same));
            self.page.found = self.hits.len() as u64;
        }
        match &self.wanted.order {
            Some(order) if order.is_descending => self.hits.sort_by(|one, other| other.order.cmp(&one.order)),
            Some(_) => self.hits.sort_by(|one, other| one.order.cmp(&other.order)),
            None => {}
        }
        if self.keeps_all() {
            let skipped = usize::try_from(self.search.offset).unwrap_or(usize::MAX);
            self.hits = self.hits.into_iter().skip(skipped).take(self.search.limit as usize).collect();
        }
        (self.page, self.hits)
    }
}

/// What is told of an element.
fn tell(scope: &dyn Scope, search: &ElementSearch, wanted: &Wanted, hit: &Hit) -> FoundElement {
    let inspector = Inspector::new(scope.types(), scope.memory(), search.limits, NumberFormat::Auto);
    let shown = search.show.iter().zip(&wanted.show).map(|(text, expression)| {
        let evaluated = on_element(scope, (hit.key.as_ref(), &hit.value), |scope| expression.evaluate(scope));
        match evaluated {
            Ok(Evaluated::Value(value) | Evaluated::Assignment { value, .. }) => inspector.show(text, &value),
            Err(error) => Variable { name: text.clone(), value: format!("<{error}>"), ..Variable::default() },
        }
    });
    let mut values: Vec<_> = shown.collect();
    if values.is_empty() {
        values.push(inspector.show("it", &hit.value));
    }
    let expression = by_position(search, hit).or_else(|| by_address(scope, hit));
    let key = hit.key.as_ref().map(|key| inspector.show("key", key));
    FoundElement { expression, address: hit.value.address().map(RuntimeAddr), key, values }
}

/// The elements' expression with the element's indexes in it; nothing where that could mean something else.
fn by_position(search: &ElementSearch, hit: &Hit) -> Option<String> {
    let text = search.elements.trim();
    let is_path = |letter: char| letter.is_alphanumeric() || "_.*[]:->".contains(letter);
    if !text.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        || !text.chars().all(is_path)
    {
        return None;
    }
    let indexes: Option<Vec<_>> = hit
        .positions
        .iter()
        .map(|position| match position {
            Position::Index(index) => Some(format!("[{index}]")),
            Position::Other => None,
        })
        .collect();
    let indexes = indexes?;
    match text.matches(EACH).count() {
        0 => Some(format!("{text}{}", indexes.last()?)),
        count if count == indexes.len() => {
            Some(indexes.iter().fold(text.to_owned(), |text, index| text.replacen(EACH, index, 1)))
        }
        _ => None,
    }
}

fn by_address(scope: &dyn Scope, hit: &Hit) -> Option<String> {
    let address = hit.value.address()?;
    Some(format!("(*({}*){address:#x})", scope.types().name_of(hit.value.type_ref)))
}
