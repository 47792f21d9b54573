//! One debug session: where it stands, what led there, and the buttons that move it.

pub(super) mod moves;
mod parts;
mod source;
mod timeline;
mod told;
mod transcript;
mod watch;

use hindcast_core::identity::Scope;
use hindcast_services::Failure;
use http::{Response, StatusCode};
use maud::{Markup, html};
use serde_json::json;

use self::told::{Stack, Standing, Threads, Variables};
pub(super) use self::{transcript::took, watch::Watched};
use super::{
    Body, Turned, Visit, frame,
    sessions::{self, BreakpointRow, SessionRow, Status},
    words,
};

/// So much of the program's output is shown.
const OUTPUT_SHOWN: usize = 8000;
/// So many variables are.
const VARIABLES_SHOWN: u32 = 60;

/// What of a session somebody looks at.
pub(super) struct View {
    pub(super) id: String,
    pub(super) frame: Option<u32>,
    pub(super) thread: Option<u32>,
    /// An expression whose writes are shown.
    pub(super) watch: String,
    /// A moment that was clicked.
    pub(super) at: String,
    /// The part of the timeline that is shown.
    pub(super) since: String,
    pub(super) until: String,
}

impl View {
    fn of(id: &str, fields: &super::Fields) -> Self {
        let text = |name: &str| fields.get(name).unwrap_or_default().to_owned();
        Self {
            id: id.to_owned(),
            frame: fields.number("frame"),
            thread: fields.number("thread"),
            watch: text("watch"),
            at: text("at"),
            since: text("since"),
            until: text("until"),
        }
    }

    fn path(&self) -> String {
        sessions::path(&self.id)
    }

    /// The same view with something else in it.
    fn link(&self, changes: &[(&str, &str)]) -> String {
        let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let (frame, thread) = (number(self.frame), number(self.thread));
        let now = [
            ("watch", self.watch.as_str()),
            ("at", &self.at),
            ("since", &self.since),
            ("until", &self.until),
            ("frame", &frame),
            ("thread", &thread),
        ];
        let changed = |name: &str| changes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let mut fields: Vec<_> =
            now.into_iter().map(|(name, value)| (name, changed(name).unwrap_or(value))).collect();
        fields.extend(changes.iter().filter(|(name, _)| now.iter().all(|(known, _)| known != name)));
        words::link(&self.path(), &fields)
    }

    /// Hidden fields by which a form comes back to this view.
    fn fields(&self) -> Markup {
        html! {
            @for (name, value) in [("watch", &self.watch), ("since", &self.since), ("until", &self.until)] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
        }
    }
}

/// The page.
pub(super) async fn show(visit: &Visit<'_>, id: &str) -> Result<Response<Body>, Turned> {
    let view = View::of(id, &visit.query);
    let desk = &visit.desk;
    let by_id = json!({ "session_id": id });
    let status = match desk.look::<Status>("debugger/status", by_id.clone()).await {
        Ok(status) => status,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let Some(session) = status.sessions.iter().find(|session| session.session_id == id) else {
        return Ok(visit.nowhere());
    };
    let wait = json!({ "session_id": id, "timeout_ms": 0 });
    let standing = match desk.look::<Standing>("debugger/wait", wait).await {
        Ok(standing) => standing,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let looked = Looked::at(visit, &view, (session, &status.breakpoints), &standing).await;
    let content = html! {
        (head(&view, session, &standing))
        (moves::bar(visit, &view, session))
        (looked.timeline)
        div.desk {
            div.main {
                (looked.chosen)
                (looked.source)
                (looked.watch)
                (looked.transcript)
            }
            div.side {
                (looked.stack)
                (looked.variables)
                (looked.threads)
                (parts::breakpoints(visit, &view, &status.breakpoints))
                (looked.output)
            }
        }
    };
    let shell = frame::Shell {
        live: Some(format!("{}/events", view.path())),
        notice: visit.entry.take_notice(),
        ..visit.shell(session.name())
    };
    Ok(frame::page(StatusCode::OK, &shell, content))
}

/// The parts of the page, each as it could be had.
struct Looked {
    timeline: Markup,
    chosen: Markup,
    source: Markup,
    stack: Markup,
    variables: Markup,
    threads: Markup,
    output: Markup,
    watch: Markup,
    transcript: Markup,
}

impl Looked {
    async fn at(
        visit: &Visit<'_>,
        view: &View,
        (session, breakpoints): (&SessionRow, &[BreakpointRow]),
        standing: &Standing,
    ) -> Self {
        let desk = &visit.desk;
        let id = view.id.as_str();
        let output = json!({ "session_id": id, "limit": OUTPUT_SHOWN });
        let output = desk.look("debugger/read_output", output).await;
        let transcript = transcript::show(visit, view).await;
        if session.state == "running" {
            let still =
                parts::panel("Source", html! { p.faint { "The program runs. Pause it to look around." } });
            return Self {
                timeline: html! {},
                chosen: html! {},
                source: still,
                stack: html! {},
                variables: html! {},
                threads: html! {},
                output: parts::output(output),
                watch: html! {},
                transcript,
            };
        }
        let stack = json!({ "session_id": id, "max_frames": 60, "thread_id": view.thread });
        let threads = json!({ "session_id": id, "limit": 200 });
        let (stack, threads) = futures::join!(
            desk.look::<Stack>("debugger/get_stack_trace", stack),
            desk.look::<Threads>("debugger/get_threads", threads),
        );
        let chosen = stack.as_ref().ok().and_then(|stack| stack.chosen(view.frame));
        let variables = json!({
            "session_id": id, "depth": 3, "limit": VARIABLES_SHOWN,
            "frame": chosen.as_ref().map(|frame| frame.index), "thread_id": view.thread,
        });
        let variables = match &chosen {
            Some(_) => Some(desk.look::<Variables>("debugger/get_variables", variables).await),
            None => None,
        };
        let watched = watch::look(visit, view, chosen.as_ref()).await;
        let (timeline, happening) = timeline::show(visit, view, standing, &watched).await;
        Self {
            timeline,
            chosen: watch::chosen(visit, view, standing, &watched, happening.as_ref()),
            source: source::show(visit, view, chosen.as_ref(), standing, breakpoints).await,
            stack: parts::stack(view, &stack, chosen.as_ref()),
            variables: parts::variables(view, variables, standing, chosen.as_ref()),
            threads: parts::threads(view, &threads),
            output: parts::output(output),
            watch: watch::show(view, standing, &watched),
            transcript,
        }
    }
}

fn head(view: &View, session: &SessionRow, standing: &Standing) -> Markup {
    html! {
        div.head {
            p.crumb { a href=(super::SESSIONS) { "Sessions" } }
            h1 { (session.name()) " " (sessions::pill(session)) }
            p.sub {
                @if let Some(program) = &session.program { code.path { (program) } " " }
                @if let Some(pid) = session.pid { span.faint { "process " (pid) " " } }
                span.faint { "session " (view.id) }
            }
            p.why {
                (standing.why())
                @if let Some(moment) = &standing.moment { " " span.moment { "moment " (moment) } }
            }
            @if let Some(exception) = &standing.exception {
                p.exception { strong { (exception.kind()) } " " (exception.message()) }
            }
            // Of a search somebody is told where it was begun.
            @for note in standing.notes.iter().filter(|note| !note.starts_with("search ")) { p.faint { (note) } }
        }
    }
}

/// Whether the caller may move the program.
pub(super) fn may_move(visit: &Visit<'_>) -> bool {
    visit.desk.may(Scope::DebugWrite)
}

/// A part that could not be had.
pub(super) fn missing(title: &str, failure: &Failure) -> Markup {
    parts::panel(title, frame::missing(failure))
}
