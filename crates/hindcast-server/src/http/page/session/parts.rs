//! Stack, variables, threads, breakpoints and output.

use hindcast_services::Failure;
use maud::{Markup, html};

use super::{
    View, Visit, may_move, missing,
    told::{Output, Stack, StackFrame, Standing, Threads, Variable, Variables},
    words,
};
use crate::http::page::{frame, sessions::BreakpointRow};

/// Longer values are cut.
const LONGEST_VALUE: usize = 300;
/// So many members are shown of one.
const MOST_MEMBERS: usize = 60;

/// A part of the page.
pub(super) fn panel(title: &str, content: Markup) -> Markup {
    html! { section.panel { h2 { (title) } (content) } }
}

pub(super) fn stack(view: &View, stack: &Result<Stack, Failure>, chosen: Option<&StackFrame>) -> Markup {
    let stack = match stack {
        Ok(stack) => stack,
        Err(failure) => return missing("Stack", failure),
    };
    panel(
        "Stack",
        html! {
            ol.frames start="0" {
                @for frame in &stack.frames {
                    @let number = frame.index.to_string();
                    @let is_chosen = chosen.is_some_and(|chosen| chosen.index == frame.index);
                    li .library[frame.place.library] {
                        a href=(view.link(&[("frame", &number)])) aria-current=[is_chosen.then_some("true")] {
                            span.index { (number) }
                            span.function { (frame.place.function.as_deref().unwrap_or("??")) }
                            @if frame.inlined { span.faint { " inlined" } }
                            @if let (Some(file), Some(line)) = (&frame.place.file, frame.place.line) {
                                span.place { (words::file_name(file)) ":" (line) }
                            }
                        }
                    }
                }
            }
            @if stack.more { p.faint { "… more frames" } }
            @if let Some(broken) = &stack.broken { p.faint { "The stack ends early: " (broken) } }
        },
    )
}

pub(super) fn variables(
    view: &View,
    variables: Option<Result<Variables, Failure>>,
    standing: &Standing,
    chosen: Option<&StackFrame>,
) -> Markup {
    let variables = match variables {
        None => return panel("Variables", html! { p.faint { "There is no frame to look into." } }),
        Some(Err(failure)) => return missing("Variables", &failure),
        Some(Ok(variables)) => variables,
    };
    let title = match chosen.and_then(|frame| frame.place.function.as_deref()) {
        Some(function) => format!("Variables of {}", words::cut(function, 60)),
        None => "Variables".to_owned(),
    };
    panel(
        &title,
        html! {
            @if variables.variables.is_empty() { p.faint { "none" } }
            ul.tree {
                @for variable in &variables.variables {
                    (leaf(view, variable, &variable.name, standing.has_changed(&variable.name), 0))
                }
            }
            @let left = variables.total as usize - variables.variables.len().min(variables.total as usize);
            @if left > 0 { p.faint { "… " (left) " more" } }
        },
    )
}

fn leaf(view: &View, variable: &Variable, path: &str, has_changed: bool, depth: usize) -> Markup {
    let line = html! {
        span.name { (variable.name) }
        @if has_changed { span.changed title="It was another at the previous stop" { "changed" } }
        span.value { (words::cut(&variable.value, LONGEST_VALUE)) }
        span.type { (words::cut(&variable.type_name, 80)) }
    };
    let watch = view.link(&[("watch", path), ("at", "")]);
    html! {
        li .is-changed[has_changed] {
            @if variable.children.is_empty() {
                div.leaf { (line) a.ask href=(watch) aria-label={ "Who wrote " (path) "?" } title="Who wrote it?" { "?" } }
            } @else {
                details open[depth == 0 && variable.children.len() <= 8] data-name=(path) {
                    summary { (line) }
                    ul {
                        @for child in variable.children.iter().take(MOST_MEMBERS) {
                            (leaf(view, child, &below(path, variable, &child.name), false, depth + 1))
                        }
                    }
                    @let shown = variable.children.len().min(MOST_MEMBERS) as u64;
                    @let all = variable.child_count.unwrap_or(variable.children.len() as u64);
                    @if all > shown { p.faint { "… " (all - shown) " more" } }
                }
            }
        }
    }
}

/// How an expression names a member.
fn below(path: &str, parent: &Variable, name: &str) -> String {
    match name.as_bytes().first() {
        Some(b'[') => format!("{path}{name}"),
        Some(b'*') => format!("*{path}"),
        _ if parent.type_name.trim_end().ends_with('*') => format!("{path}->{name}"),
        _ => format!("{path}.{name}"),
    }
}

pub(super) fn threads(view: &View, threads: &Result<Threads, Failure>) -> Markup {
    let threads = match threads {
        Ok(threads) => threads,
        Err(failure) => return missing("Threads", failure),
    };
    panel(
        "Threads",
        html! {
            ul.threads {
                @for thread in &threads.threads {
                    @let number = thread.id.to_string();
                    @let looked_at = view.thread.or(threads.current) == Some(thread.id);
                    li {
                        a href=(view.link(&[("thread", &number), ("frame", "")])) aria-current=[looked_at.then_some("true")] {
                            span.index { (number) }
                            @if !thread.name.is_empty() { span.function { (thread.name) } }
                            @if let Some(place) = thread.called_from.as_ref().or(thread.location.as_ref()) {
                                span.place { (place.short()) }
                            }
                        }
                        @if let Some(waits_for) = &thread.waits_for { p.faint { "waits for " (waits_for) } }
                    }
                }
            }
            @if threads.total > threads.threads.len() { p.faint { "… " (threads.total - threads.threads.len()) " more" } }
        },
    )
}

pub(super) fn breakpoints(visit: &Visit<'_>, view: &View, breakpoints: &[BreakpointRow]) -> Markup {
    panel(
        "Breakpoints",
        html! {
            @if breakpoints.is_empty() {
                p.faint { "none" @if may_move(visit) { "; a line's number sets one" } }
            }
            ul.breakpoints {
                @for breakpoint in breakpoints {
                    li .off[!breakpoint.enabled || !breakpoint.verified] {
                        span.what {
                            span.dot {} " "
                            @if let Some(watched) = &breakpoint.watched { code { (watched) } }
                            @else if let (Some(file), Some(line)) = (&breakpoint.file, breakpoint.line) {
                                (words::file_name(file)) ":" (line)
                            } @else { (breakpoint.id) }
                            " " span.faint { (breakpoint.kind.to_lowercase()) ", " (breakpoint.hit_count) "×" }
                            @if let Some(condition) = &breakpoint.condition { " " code { "if " (condition) } }
                            @if let Some(message) = &breakpoint.log_message { " " code { (message) } }
                            @if !breakpoint.verified { " " span.faint { "pending" } }
                        }
                        @if may_move(visit) {
                            form method="post" action={ (view.path()) "/breakpoint" } {
                                (frame::token(&visit.entry.csrf)) (view.fields())
                                button.quiet name="remove" value=(breakpoint.id) aria-label={ "Remove breakpoint " (breakpoint.id) } { "Remove" }
                            }
                        }
                    }
                }
            }
        },
    )
}

pub(super) fn output(output: Result<Output, Failure>) -> Markup {
    let output = match output {
        Ok(output) => output,
        Err(failure) => return missing("Output", &failure),
    };
    let streams =
        [("standard output", output.stdout), ("standard error", output.stderr), ("log", output.log)];
    let said: Vec<_> = streams.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    panel(
        "Output",
        html! {
            @if said.is_empty() { p.faint { "Nothing was printed." } }
            @for (name, text) in said {
                h3 { (name) }
                pre.output tabindex="0" role="region" aria-label=(name) { (text) }
            }
        },
    )
}
