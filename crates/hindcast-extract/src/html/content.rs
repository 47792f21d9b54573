//! What of a page is its content, and what surrounds it.

use super::tree::{Kind, Node, NodeId, Step, Tree};

/// How a part of a page is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// For readers.
    Content,
    /// A table of contents or an index: served, but not searched.
    Contents,
    /// A list of links that is not called anything: served, and searched only where a page has nothing else.
    Links,
    /// Not for readers, or the same on every page.
    Left,
}

/// Elements that readers do not see as text, or that are there to get about.
const LEFT_TAGS: &[&str] = &[
    "annotation",
    "audio",
    "button",
    "canvas",
    "datalist",
    "dialog",
    "embed",
    "head",
    "iframe",
    "input",
    "map",
    "meter",
    "nav",
    "noscript",
    "object",
    "progress",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
    "video",
];

const LEFT_ROLES: &[&str] = &[
    "alertdialog",
    "banner",
    "contentinfo",
    "dialog",
    "menu",
    "menubar",
    "navigation",
    "search",
    "tablist",
    "toolbar",
];

/// Classes of small signs beside the text: links to the heading itself, line numbers, buttons.
const SIGN_CLASSES: &[&str] = &[
    "anchor-link",
    "anchorjs-link",
    "clipboard-button",
    "copy-button",
    "copybutton",
    "hash-link",
    "header-anchor",
    "headerlink",
    "lineno",
    "linenos",
    "mw-editsection",
    "mw-jump-link",
    "noprint",
    "notable-traits",
    "permalink",
    "screen-reader-text",
    "skip-link",
    "sr-only",
    "srclink",
    "test-arrow",
    "viewcode-link",
    "visually-hidden",
];

/// Words in the classes and ids of what stands around the content.
const AROUND_WORDS: &[&str] = &[
    "advert",
    "breadcrumb",
    "breadcrumbs",
    "cookie",
    "cookies",
    "footer",
    "masthead",
    "menu",
    "nav",
    "navbar",
    "navfooter",
    "navheader",
    "navigation",
    "pager",
    "pagination",
    "related",
    "share",
    "sidebar",
    "social",
    "sphinxsidebar",
    "topbar",
];

/// An id of more words is made of a heading, and names no part of a page's layout.
const LONGEST_AROUND_ID: usize = 3;

/// Classes and ids of lists of what is elsewhere.
const LINKS_CLASSES: &[&str] = &[
    "contents",
    "genindextable",
    "index",
    "indextable",
    "list-of-figures",
    "list-of-tables",
    "modindextable",
    "table-of-contents",
    "toc",
    "toctree-wrapper",
];

/// So many links, and so large a share of the text, make a list of links.
const FEWEST_LINKS: usize = 5;
const LINKS_SHARE: f32 = 0.85;

/// How much text is below a node.
#[derive(Clone, Copy, Default)]
struct Measure {
    /// Characters that are not white space.
    text: usize,
    /// Of them in links.
    linked: usize,
    links: usize,
    longest_cell: usize,
    has_blocks: bool,
}

impl Measure {
    fn link_share(self) -> f32 {
        if self.text == 0 { 0.0 } else { self.linked as f32 / self.text as f32 }
    }
}

/// A page with what is known about its parts.
pub(super) struct Content<'a> {
    tree: &'a Tree,
    measures: Vec<Measure>,
    /// The element that has the content.
    pub(super) root: NodeId,
}

impl<'a> Content<'a> {
    pub(super) fn of(tree: &'a Tree) -> Self {
        let measures = measures(tree);
        let root = root(tree, &measures);
        Self { tree, measures, root }
    }

    pub(super) fn part(&self, node: NodeId) -> Part {
        let found = &self.tree[node];
        if !matches!(found.kind, Kind::Element { .. }) {
            return Part::Content;
        }
        if node != self.root && (self.is_left(found) || self.is_around(node)) {
            return Part::Left;
        }
        let measure = self.measures[node];
        let is_named =
            names(found).any(|name| LINKS_CLASSES.contains(&&*name)) && measure.link_share() >= 0.5;
        let is_list = matches!(found.tag(), "ul" | "ol" | "dl" | "table")
            && measure.links >= FEWEST_LINKS
            && measure.link_share() >= LINKS_SHARE;
        match (is_named, is_list) {
            (true, _) => Part::Contents,
            (false, true) => Part::Links,
            (false, false) => Part::Content,
        }
    }

    /// Whether a table shows data, and does not merely lay the page out.
    pub(super) fn is_data_table(&self, node: NodeId) -> bool {
        let measure = self.measures[node];
        !measure.has_blocks && measure.longest_cell <= 400
    }

    fn is_left(&self, node: &Node) -> bool {
        let is_hidden = node.attribute("hidden").is_some()
            || node.attribute("aria-hidden").is_some_and(|value| value == "true");
        let has_role = node.attribute("role").is_some_and(|role| LEFT_ROLES.contains(&role));
        is_hidden
            || has_role
            || LEFT_TAGS.contains(&node.tag())
            || node.classes().any(|class| SIGN_CLASSES.contains(&&*class.to_ascii_lowercase()))
    }

    /// Whether a part only stands around the content. A name alone is not believed where it has most of the text.
    fn is_around(&self, node: NodeId) -> bool {
        let found = &self.tree[node];
        let (measure, whole) = (self.measures[node], self.measures[self.root]);
        let is_small = measure.text * 2 <= whole.text;
        match found.tag() {
            "footer" => return is_small && !self.tree.is_inside(node, |node| node.tag() == "blockquote"),
            "header" | "aside" if measure.link_share() >= 0.5 => return is_small,
            // A heading, a paragraph or a word may be called anything.
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "span" | "a" | "code" | "em" | "strong"
            | "pre" | "li" | "td" | "th" | "dt" | "dd" => {
                return false;
            }
            _ => {}
        }
        let is_linked = measure.link_share() >= 0.3;
        let by_class = found.classes().any(|class| is_around_word(&class.to_ascii_lowercase()));
        if !is_small || !(by_class || self.has_id_around(node, is_linked)) {
            return false;
        }
        is_linked || measure.text <= 200
    }

    /// Whether the id of an element says that it stands around the content. Programs make ids of headings, so the id of a section
    /// tells what it is about: `related-macros`, `the-navigation-bar`.
    fn has_id_around(&self, node: NodeId, is_linked: bool) -> bool {
        let found = &self.tree[node];
        let Some(id) = found.attribute("id").map(str::to_ascii_lowercase) else { return false };
        let is_section = matches!(found.tag(), "section" | "table" | "figure" | "blockquote" | "details")
            || found.classes().any(|class| class == "section");
        if is_section || id.split(['-', '_']).count() > LONGEST_AROUND_ID || !is_around_word(&id) {
            return false;
        }
        is_linked || !self.is_slug(node, &id)
    }

    /// Whether an id is made of the words of the heading that the element has.
    fn is_slug(&self, node: NodeId, id: &str) -> bool {
        let is_heading = |node: &Node| matches!(node.tag(), "h1" | "h2" | "h3" | "h4" | "h5" | "h6");
        let Some(heading) = self.tree.find(node, is_heading) else { return false };
        let heading = self.tree.text(heading).to_lowercase();
        id.split(['-', '_']).all(|word| heading.contains(word))
    }
}

/// Whether a class or an id has a word in it that tells what stands around the content.
fn is_around_word(name: &str) -> bool {
    name.split(['-', '_']).any(|word| AROUND_WORDS.contains(&word))
}

/// The classes and the id of an element, in lower case.
fn names(node: &Node) -> impl Iterator<Item = String> {
    node.classes().chain(node.attribute("id")).map(str::to_ascii_lowercase)
}

fn measures(tree: &Tree) -> Vec<Measure> {
    let mut measures = vec![Measure::default(); tree.len()];
    let mut links = 0_usize;
    tree.walk(super::tree::DOCUMENT, |tree, step| {
        let node = match step {
            Step::Enter(node) => {
                if let Kind::Text(text) = &tree[node].kind {
                    let length = text.chars().filter(|char| !char.is_whitespace()).count();
                    measures[node].text = length;
                    measures[node].linked = if links > 0 { length } else { 0 };
                    add_to_parent(tree, &mut measures, node);
                    return false;
                }
                links += usize::from(tree[node].tag() == "a");
                return !matches!(tree[node].tag(), "script" | "style" | "noscript" | "template" | "head");
            }
            Step::Leave(node) => node,
        };
        match tree[node].tag() {
            "a" => {
                links -= 1;
                measures[node].links += 1;
            }
            "td" | "th" => measures[node].longest_cell = measures[node].text,
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "table" => {
                // Of the parent: a table may have everything but another table.
                if let Some(parent) = tree[node].parent {
                    measures[parent].has_blocks = true;
                }
            }
            _ => {}
        }
        add_to_parent(tree, &mut measures, node);
        true
    });
    measures
}

fn add_to_parent(tree: &Tree, measures: &mut [Measure], node: NodeId) {
    let Some(parent) = tree[node].parent else { return };
    let own = measures[node];
    let sum = &mut measures[parent];
    sum.text += own.text;
    sum.linked += own.linked;
    sum.links += own.links;
    sum.longest_cell = sum.longest_cell.max(own.longest_cell);
    sum.has_blocks |= own.has_blocks && tree[node].tag() != "table";
}

/// The element that says it has the content; else the body.
fn root(tree: &Tree, measures: &[Measure]) -> NodeId {
    let document = super::tree::DOCUMENT;
    let body = tree.find(document, |node| node.tag() == "body").unwrap_or(document);
    let main = tree.find(body, |node| node.tag() == "main" || node.attribute("role") == Some("main"));
    let article = || {
        let first = tree.find(body, |node| node.tag() == "article")?;
        // A page of many articles is a list.
        (measures[first].text * 2 > measures[body].text).then_some(first)
    };
    match main.or_else(article) {
        // One that a script has yet to fill says nothing, or that it is loading.
        Some(found) if measures[found].text >= 40 || measures[found].text * 4 > measures[body].text => found,
        _ => body,
    }
}
