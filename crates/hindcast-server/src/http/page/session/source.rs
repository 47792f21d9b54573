//! The source around where the program stands.

use maud::{Markup, html};

use super::{
    View, Visit, may_move, missing, parts,
    told::{StackFrame, Standing},
    words,
};
use crate::http::page::{frame, sessions::BreakpointRow};

/// Lines before and after the one that counts.
const AROUND: u32 = 24;
/// Longer lines are cut.
const LONGEST_LINE: usize = 400;

pub(super) async fn show(
    visit: &Visit<'_>,
    view: &View,
    frame: Option<&StackFrame>,
    standing: &Standing,
    breakpoints: &[BreakpointRow],
) -> Markup {
    let place = frame.map(|frame| &frame.place).or(standing.location.as_ref());
    let Some((file, line)) = place.and_then(|place| Some((place.file.as_deref()?, place.line?))) else {
        return parts::panel(
            "Source",
            html! { p.faint { "No source is known for where the program stands." } },
        );
    };
    let text = match visit.desk.app.read_source(&visit.desk.caller, &view.id, file).await {
        Ok(text) => text,
        Err(failure) => return missing("Source", &failure),
    };
    let middle = visit.query.number("line").unwrap_or(line).max(1);
    let lines: Vec<&str> = text.lines().collect();
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let first = middle.saturating_sub(AROUND).max(1);
    let last = middle.saturating_add(AROUND).min(count);
    let is_top = frame.is_none_or(|frame| frame.index == 0);
    let here = breakpoints_in(file, breakpoints);
    let listing = html! {
        div.scroll tabindex="0" role="region" aria-label={ "Source of " (words::file_name(file)) } {
            table.source {
                tbody {
                    @for number in first..=last {
                        @let text = lines.get(number as usize - 1).copied().unwrap_or_default();
                        (row(visit, number, text, number == line, is_top, here.iter().find(|(at, _)| *at == number)))
                    }
                }
            }
        }
    };
    let listing = if may_move(visit) {
        html! {
            form method="post" action={ (view.path()) "/breakpoint" } {
                (frame::token(&visit.entry.csrf)) (view.fields())
                input type="hidden" name="file" value=(file);
                (listing)
            }
        }
    } else {
        listing
    };
    html! {
        section.panel.code {
            h2 { (words::file_name(file)) ":" (line) span.faint.path { (file) } }
            (listing)
            @if first > 1 || last < count {
                p.more {
                    @if first > 1 { a href=(view.link(&[("line", &first.to_string())])) { "Lines before" } }
                    @if last < count { a href=(view.link(&[("line", &last.to_string())])) { "Lines after" } }
                }
            }
        }
    }
}

fn breakpoints_in<'a>(file: &str, breakpoints: &'a [BreakpointRow]) -> Vec<(u32, &'a BreakpointRow)> {
    let is_here = |other: &str| other == file || file.ends_with(&format!("/{other}"));
    let lines = breakpoints.iter().filter(|breakpoint| breakpoint.file.as_deref().is_some_and(is_here));
    lines.filter_map(|breakpoint| Some((breakpoint.line?, breakpoint))).collect()
}

fn row(
    visit: &Visit<'_>,
    number: u32,
    text: &str,
    is_current: bool,
    is_top: bool,
    breakpoint: Option<&(u32, &BreakpointRow)>,
) -> Markup {
    let is_set = breakpoint.is_some();
    html! {
        tr .current[is_current] .caller[is_current && !is_top] .has-breakpoint[is_set] {
            td.gutter {
                @if may_move(visit) {
                    @match breakpoint {
                        Some((_, breakpoint)) => {
                            button name="remove" value=(breakpoint.id) aria-label={ "Remove the breakpoint of line " (number) } { (number) }
                        }
                        None => {
                            button name="line" value=(number) aria-label={ "Set a breakpoint at line " (number) } { (number) }
                        }
                    }
                } @else { (number) }
            }
            td.text {
                @if is_current { span.unseen { "Current line: " } }
                code { (words::cut(text, LONGEST_LINE)) }
            }
        }
    }
}
