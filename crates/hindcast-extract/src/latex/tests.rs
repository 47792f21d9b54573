use super::*;
use crate::{Format, chunk};

fn text(source: &str) -> String {
    extract(source).text.unwrap_or_default()
}

#[test]
fn commands_go_and_what_they_say_stays() {
    for (source, expected) in [
        ("An \\emph{old} {\\bf bold} \\textbf{word \\textit{in} it}.", "An old bold word in it."),
        ("See~\\cite[p.~3]{knuth} and \\ref{sec:a}, \\autoref{b}.\\label{c} End", "See and , . End"),
        ("100\\% of \\$5 \\& \\#1 a\\_b \\{x\\}", "100% of $5 & #1 a_b {x}"),
        ("One % not this\ntwo\n% nor this\nthree", "One two\nthree"),
        ("50\\% is % half\n  \nNew", "50% is\n\nNew"),
        ("Words\\footnote{An \\emph{aside}.} go on", "Words (An aside.) go on"),
        ("\\href{https://a.b/c%d}{The page} at \\url{https://a.b/~x_y}", "The page at `https://a.b/~x_y`"),
        ("Type \\verb|ls -l %x| or \\lstinline{a_b}.", "Type `ls -l %x` or `a_b`."),
        ("``Quoted'' -- and --- `so'", "“Quoted” – and — `so'"),
        ("\\textcolor{red}{Red} \\unknown[opt]{kept}{too}", "Red kept too"),
        ("Mass $E = mc^2$ and \\(a_{1}\\), 5\\$", "Mass $E = mc^2$ and $a_{1}$, 5$"),
        ("A price of 5$ and no more", "A price of 5$ and no more"),
        ("\\newcommand{\\x}[1]{\\textbf{#1}}\\def\\y#1{no}Words", "Words"),
        ("\\LaTeX is old, \\TeX{} older \\ldots", "LaTeX is old, TeX older …"),
        ("\\noindent\\hspace{1cm}Text\\\\[2pt]more", "Text\nmore"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn accents_become_letters() {
    for (source, expected) in [
        ("K\\\"ahne und B\\\"{a}ume, Stra\\ss e, Gr\\\"{o}\\ss{}e", "Kähne und Bäume, Straße, Größe"),
        ("\\'el\\`eve, \\c{c}a, na\\\"{\\i}ve, na\\\"\\i ve, \\^ile", "élève, ça, naïve, naïve, île"),
        (
            "\\v{S}koda, \\L{}\\'od\\'z, Erd\\H os, \\AA ngstr\\\"om, \\~nandu",
            "Škoda, Łódź, Erdős, Ångström, ñandu",
        ),
        ("\\\"q \\cite{a}\\vspace{1cm}\\u g", "q\u{308} ğ"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

const BIRDS: &str = r"\documentclass[a4paper]{article}
\usepackage{babel}
\newcommand{\heron}{heron}
\title{Birds of the \emph{lake}}
\author{Nobody}
\begin{document}
\maketitle

\section[Short]{Herons \& \textbf{owls} \label{sec:herons}}
Herons stand % in water
and wait.

They see \emph{fish}.
\begin{itemize}
  \item small ones
  \item[Large] ones
\end{itemize}
\begin{verbatim}
\emph{kept} % as it is

    done
\end{verbatim}
Then they strike.
\subsection*{Their
  legs}
\begin{tabular}{l|r}
Heron & 60\\
Owl & 10
\end{tabular}
\begin{lstlisting}[language=Python, caption=x]
print(1)
\end{lstlisting}
\begin{equation}\label{eq:a}
a = b
\end{equation}
\end{document}
Nobody reads this.
";

#[test]
fn a_document_has_its_title_headings_and_code_and_nothing_else() {
    let extracted = extract(BIRDS);
    assert_eq!(extracted.title.as_deref(), Some("Birds of the lake"));
    assert_eq!(
        extracted.text.unwrap(),
        "### Herons & owls\n\nHerons stand and wait.\n\nThey see fish.\n- small ones\n- Large ones\n\n\
         ```\n\\emph{kept} % as it is\n\n    done\n```\n\nThen they strike.\n\n#### Their legs\n\n\
         Heron | 60\nOwl | 10\n\n```python\nprint(1)\n```\n\n$$\na = b\n$$"
    );
}

#[test]
fn passages_stand_on_the_lines_of_their_source() {
    let extracted = crate::extract(Format::Latex, BIRDS.as_bytes()).unwrap();
    assert_eq!(Format::Latex.served_mime_type(), "text/markdown");
    let text = extracted.text.as_ref().unwrap();
    let line_of = |found: &str| BIRDS.lines().position(|line| line.contains(found)).unwrap() as u64 + 1;
    let chunks = chunk(Format::Latex, text, &extracted).unwrap();
    let told: Vec<_> = chunks.iter().map(|chunk| (chunk.lines, chunk.headings.join("/"))).collect();
    assert_eq!(
        told,
        [
            ((line_of("section[Short]"), line_of("Then they")), "Herons & owls".to_owned()),
            ((line_of("subsection*"), line_of("\\end{equation}")), "Herons & owls/Their legs".to_owned()),
        ]
    );
    // Each line by itself.
    for (said, source) in [
        ("and wait.", "and wait."),
        ("They see", "They see"),
        ("- Large", "item[Large]"),
        ("    done", "    done"),
        ("Owl |", "Owl &"),
        ("print", "print"),
        ("a = b", "a = b"),
    ] {
        let at = text.find(said).unwrap();
        let (_, line) = extracted.lines.iter().rev().find(|(start, _)| *start <= at).unwrap();
        assert_eq!(*line, line_of(source), "{said}");
    }
}

#[test]
fn what_is_not_closed_does_not_take_the_rest() {
    for (source, expected) in [
        ("Words \\emph{open\n\nNext.", "Words open\n\nNext."),
        ("Words \\cite{open\n\nNext.", "Words\n\nNext."),
        ("\\section{Open\n\nNext.", "### Open\n\nNext."),
        ("\\footnote{a\n\nNext.} More", "(a\n\nNext. More"),
        ("Cost $5\n\nand $6 here", "Cost $5\n\nand $6 here"),
        ("\\begin{verbatim}\ncode", "```\ncode\n```"),
        ("}}} \\end{x} \\", "}}} ".trim_start_matches('}')),
    ] {
        assert_eq!(text(source).trim(), expected.trim(), "{source}");
    }
    let macros = "\\newcommand{\\a}{b}\n\\def\\c{d}\n";
    let kept = crate::extract(Format::Latex, macros.as_bytes()).unwrap();
    assert_eq!(kept.text, None, "a file of nothing but commands is served as it is");
}

#[test]
fn reading_takes_no_longer_than_the_source_is() {
    for part in [
        "\\cite{",
        "\\section{",
        "{",
        "$",
        "\\a[",
        "\\verb|",
        "\\begin{verbatim",
        "\\begin{tabular}{",
        "\\item[",
        "\\footnote{",
        "\\\"{",
        "%",
        "\\[",
        "\\def\\x",
    ] {
        let source = part.repeat(20_000);
        let started = std::time::Instant::now();
        let _ = extract(&source);
        assert!(started.elapsed().as_secs() < 30, "{part}: {:?}", started.elapsed());
    }
}
