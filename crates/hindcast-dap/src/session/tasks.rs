//! What waits without a thread: tasks of an event loop, shown as threads with a stack of their own.

use hindcast_core::debug::FrameRef;
use serde::Deserialize;
use serde_json::json;

use super::{Session, ask::Refusal};
use crate::{
    protocol::{DapVariable, Source, StackFrame},
    transport::ConnectionId,
};

/// What runs in a program of Python.
const PYTHON: &str = include_str!("../profile/builtin/python_tasks.py");

/// A task that waits.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Task {
    /// Its address in the program.
    id: i64,
    pub(super) name: String,
    frames: Vec<TaskFrame>,
}

#[derive(Debug, Clone, Deserialize)]
struct TaskFrame {
    name: String,
    path: String,
    line: u32,
}

impl Task {
    /// The number that stands for it among the adapter's threads, whose own are not negative.
    pub(super) fn thread(&self) -> i64 {
        -self.id
    }

    /// Its stack. The numbers of its frames are negative, too: the adapter has none for them.
    pub(super) fn stack(&self) -> Vec<StackFrame> {
        let frame = |(at, frame): (i64, &TaskFrame)| StackFrame {
            id: -1 - at,
            name: frame.name.clone(),
            source: Some(Source { path: Some(frame.path.clone()), ..Source::default() }),
            line: frame.line,
            ..StackFrame::default()
        };
        (0..).zip(&self.frames).map(frame).collect()
    }
}

/// A frame of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct InTask {
    /// The task's address.
    task: i64,
    frame: i64,
}

impl InTask {
    /// None where the frame is one of the adapter's.
    pub(super) fn of(thread: i64, frame: &StackFrame) -> Option<Self> {
        (thread < 0 && frame.id < 0).then(|| Self { task: -thread, frame: -1 - frame.id })
    }
}

impl Session {
    /// The tasks of a process that stands.
    pub(super) fn tasks(&mut self, connection: ConnectionId) -> Vec<Task> {
        if !self.profile.has_tasks {
            return Vec::new();
        }
        if let Some(known) = self.seen.tasks.get(&connection) {
            return known.clone();
        }
        let answer = self.ask_about_tasks(connection, &expression(""), "clipboard");
        let answer = answer.map_err(|refusal| refusal.why()).map(|answer| answer.value);
        let tasks: Result<Vec<Task>, String> =
            answer.and_then(|text| read(&text).map_err(|error| format!("{error}: {text}")));
        let tasks = tasks.unwrap_or_else(|why| {
            tracing::debug!(%why, "its tasks are not known");
            Vec::new()
        });
        self.seen.tasks.insert(connection, tasks.clone());
        tasks
    }

    /// The variables of a task's frame.
    pub(super) fn locals_in_task(
        &mut self,
        connection: ConnectionId,
        at: InTask,
    ) -> Result<DapVariable, Refusal> {
        self.ask_about_tasks(connection, &expression(&format!("{}, {}", at.task, at.frame)), "watch")
    }

    /// The value of an expression in a task's frame.
    pub(super) fn value_in_task(
        &mut self,
        connection: ConnectionId,
        at: InTask,
        asked: &str,
    ) -> Result<DapVariable, Refusal> {
        let arguments = format!("{}, {}, {}", at.task, at.frame, literal(asked));
        self.ask_about_tasks(connection, &expression(&arguments), "watch")
    }

    /// The frame of a task, where it is one.
    pub(super) fn in_task(&self, of: FrameRef, frame: &StackFrame) -> Option<InTask> {
        InTask::of(self.threads.of(of.thread)?.1, frame)
    }

    /// Any frame of the adapter's will do to ask in.
    fn ask_about_tasks(
        &mut self,
        connection: ConnectionId,
        expression: &str,
        context: &str,
    ) -> Result<DapVariable, Refusal> {
        let refused = || Refusal::Refused("the process has no frame to ask in".into());
        let thread = *self.standing.get(&connection).ok_or_else(refused)?;
        let thread = self.threads.number(connection, thread);
        let frame = self.top_frame(thread).ok_or_else(refused)?;
        self.ask(
            connection,
            "evaluate",
            json!({ "expression": expression, "frameId": frame.id, "context": context }),
        )
    }
}

/// An expression that defines what is needed in a namespace of its own, and calls it.
fn expression(arguments: &str) -> String {
    format!("(lambda n: (exec({}, n), n['answer']({arguments}))[1])({{}})", literal(PYTHON))
}

/// A text as Python and JSON write it.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The list, with or without the quotes of a text.
fn read(answer: &str) -> Result<Vec<Task>, serde_json::Error> {
    let bare = answer.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    serde_json::from_str(bare.unwrap_or(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_become_threads_with_stacks() {
        let answer =
            r#"'[{"id": 7, "name": "Task-2", "frames": [{"name": "f", "path": "/a.py", "line": 3}]}]'"#;
        let tasks = read(answer).unwrap();
        assert_eq!((tasks[0].thread(), tasks[0].name.as_str()), (-7, "Task-2"));
        let frame = &tasks[0].stack()[0];
        assert_eq!((frame.name.as_str(), frame.line), ("f", 3));
        let at = InTask::of(-7, frame).unwrap();
        assert_eq!((at.task, at.frame), (7, 0));
        assert!(InTask::of(7, &StackFrame { id: 3, ..StackFrame::default() }).is_none());
    }
}
