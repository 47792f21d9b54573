//! What commands and environments mean for a reader.

/// What a command does to its text.
pub(super) enum Command {
    Begin,
    End,
    /// Begins a section of this level, 1 being outermost.
    Heading(u8),
    Title,
    /// So many arguments are for the program.
    Discard(usize),
    /// Its first argument is an address.
    Link,
    /// Gives a command a meaning.
    Define,
    /// Its argument stands elsewhere on the page.
    Aside,
    Item,
    /// Its argument is code.
    Verb,
    /// Begins a line.
    Break,
    Paragraph,
    /// Its arguments are text like any other.
    Other,
}

/// Commands whose arguments say nothing to a reader.
const DISCARDED: &[&str] = &[
    "label",
    "index",
    "glossary",
    "nocite",
    "bibliography",
    "bibliographystyle",
    "addbibresource",
    "printbibliography",
    "usepackage",
    "RequirePackage",
    "documentclass",
    "documentstyle",
    "input",
    "include",
    "includeonly",
    "includegraphics",
    "graphicspath",
    "vspace",
    "hspace",
    "vskip",
    "setlength",
    "addtolength",
    "setcounter",
    "addtocounter",
    "stepcounter",
    "newcounter",
    "newlength",
    "pagestyle",
    "thispagestyle",
    "pagenumbering",
    "hypersetup",
    "geometry",
    "definecolor",
    "color",
    "lstset",
    "lstinputlisting",
    "addcontentsline",
    "markboth",
    "markright",
    "bibitem",
    "hyphenation",
    "rule",
    "phantom",
    "hphantom",
    "vphantom",
    "newtheorem",
    "theoremstyle",
    "usetheme",
    "usetikzlibrary",
    "tikzset",
    "pgfplotsset",
    "cline",
    "cmidrule",
    "selectlanguage",
    "setmainfont",
    "captionsetup",
    "hypertarget",
    "linespread",
    "fontsize",
    "ProvidesPackage",
    "PassOptionsToPackage",
    "today",
    "thanks",
    "author",
    "date",
    "institute",
];

/// Commands that give a command or an environment a meaning.
const DEFINITIONS: &[&str] = &[
    "newcommand",
    "renewcommand",
    "providecommand",
    "DeclareMathOperator",
    "DeclareRobustCommand",
    "newenvironment",
    "renewenvironment",
    "def",
    "edef",
    "gdef",
    "let",
    "newif",
];

pub(super) fn of(name: &str) -> Command {
    let levels = ["part", "chapter", "section", "subsection", "subsubsection", "paragraph"];
    if let Some((level, _)) = (1..).zip(levels).find(|(_, known)| *known == name) {
        return Command::Heading(level);
    }
    match name {
        "begin" => Command::Begin,
        "end" => Command::End,
        "subparagraph" | "frametitle" => Command::Heading(6),
        "title" => Command::Title,
        "footnote" | "marginpar" | "footnotetext" => Command::Aside,
        "item" => Command::Item,
        "verb" | "lstinline" | "url" | "path" | "nolinkurl" => Command::Verb,
        "newline" | "linebreak" | "tabularnewline" | "cr" => Command::Break,
        "par" | "newpage" | "clearpage" | "cleardoublepage" | "pagebreak" => Command::Paragraph,
        // Of two arguments the second is text.
        "href" => Command::Link,
        "textcolor" | "colorbox" | "hyperref" | "raisebox" | "parbox" | "mintinline" | "hyperlink" => {
            Command::Discard(1)
        }
        _ if refers(name) || DISCARDED.contains(&name) => Command::Discard(usize::MAX),
        _ if DEFINITIONS.contains(&name) => Command::Define,
        _ => Command::Other,
    }
}

/// Whether a command leads to another place, such as `\citep` or `\autoref`.
fn refers(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("cite")
        || name.ends_with("cite")
        || name.ends_with("cites")
        || name.ends_with("ref") && name != "hyperref"
}

/// The letters and signs that commands without arguments stand for.
pub(super) fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        "ss" => "ß",
        "SS" => "ẞ",
        "ae" => "æ",
        "AE" => "Æ",
        "oe" => "œ",
        "OE" => "Œ",
        "aa" => "å",
        "AA" => "Å",
        "o" => "ø",
        "O" => "Ø",
        "l" => "ł",
        "L" => "Ł",
        "i" => "ı",
        "j" => "ȷ",
        "dh" => "ð",
        "DH" => "Ð",
        "th" => "þ",
        "TH" => "Þ",
        "S" => "§",
        "P" => "¶",
        "copyright" | "textcopyright" => "©",
        "textregistered" => "®",
        "texttrademark" => "™",
        "pounds" => "£",
        "euro" | "texteuro" => "€",
        "ldots" | "dots" | "textellipsis" => "…",
        "textendash" => "–",
        "textemdash" => "—",
        "textbackslash" => "\\",
        "textasciitilde" => "~",
        "textasciicircum" => "^",
        "textunderscore" => "_",
        "textless" => "<",
        "textgreater" => ">",
        "textbar" => "|",
        "textbullet" => "•",
        "textdegree" | "degree" => "°",
        "textquoteleft" => "‘",
        "textquoteright" => "’",
        "quad" | "qquad" | "space" | "enspace" | "thinspace" => " ",
        // Most leave a space behind these that TeX would not see.
        "LaTeX" => "LaTeX ",
        "LaTeXe" => "LaTeX2e ",
        "TeX" => "TeX ",
        "BibTeX" => "BibTeX ",
        _ => return None,
    })
}

/// What an environment is for a reader.
pub(super) enum Environment {
    Document,
    /// Nothing in it is a command.
    Code,
    /// It is a drawing, or not shown.
    Skipped,
    Formula,
    /// Its arguments say how columns look.
    Table,
    /// Its arguments say where it stands.
    Float,
    Other,
}

pub(super) fn environment(name: &str) -> Environment {
    match name.trim_end_matches('*') {
        "document" => Environment::Document,
        "verbatim" | "Verbatim" | "BVerbatim" | "lstlisting" | "minted" | "alltt" | "semiverbatim" => {
            Environment::Code
        }
        "comment" | "tikzpicture" | "filecontents" | "picture" => Environment::Skipped,
        "equation" | "align" | "gather" | "multline" | "eqnarray" | "displaymath" | "math" | "flalign"
        | "alignat" => Environment::Formula,
        "tabular" | "tabularx" | "tabulary" | "longtable" | "array" | "tabu" | "supertabular" => {
            Environment::Table
        }
        "figure" | "table" | "wrapfigure" | "minipage" | "multicols" | "thebibliography" | "list"
        | "adjustbox" => Environment::Float,
        _ => Environment::Other,
    }
}
