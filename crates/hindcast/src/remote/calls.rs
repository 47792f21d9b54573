//! The table of calls that go from the server to a worker. A method of the seam is added here, and nowhere else in this folder.
//!
//! Each row is a variant of [`Call`](super::wire::Call), and the method that it calls; types that are borrowed stand in
//! parentheses. `moved` are those after which the program may be another; the others are grouped by facet.

/// Gives the table to a macro.
macro_rules! seam {
    ($then:ident) => {
        $then! {
            moved {
                Run: fn run(movement: Movement) -> Outcome;
                Pause: fn pause() -> Stop;
                EndedMeanwhile: fn ended_meanwhile() -> Option<Stop>;
            }
            session {
                End: fn end(how: Ending) -> ();
                WriteInput: fn write_input(#[serde(with = "as_base64")] text: (&[u8]), eof: bool) -> ();
                AddBreakpoint: fn add_breakpoint(trigger: Trigger) -> Breakpoint;
                ChangeBreakpoint: fn change_breakpoint(id: BreakpointId, change: BreakpointChange) -> Breakpoint;
                RemoveBreakpoint: fn remove_breakpoint(id: BreakpointId) -> ();
                Breakpoints: fn breakpoints() -> Vec<Breakpoint>;
                Threads: fn threads() -> Vec<Thread>;
                Stack: fn stack(thread: ThreadId, max_frames: u32) -> Stack;
                StackIn: fn stack_in(view: View, thread: ThreadId, max_frames: u32) -> Stack;
                Variables: fn variables(query: (&VariableQuery)) -> VariablePage;
                Evaluate: fn evaluate(evaluation: (&Evaluation)) -> Variable;
                Modules: fn modules() -> Vec<Module>;
                SourceFile: fn source_file(path: (&str)) -> Option<SourceFile>;
                Complete: fn complete(kind: CompletionKind, prefix: (&str), limit: usize) -> Vec<String>;
            }
            facets {
                raw_memory: RawMemory, "memory" {
                    ReadMemory: fn read(address: RuntimeAddr, size: usize) -> MemoryBlock;
                    RegionsAround: fn regions_around(address: RuntimeAddr) -> Vec<Region>;
                }
                registers: Registers, "registers" {
                    Registers: fn registers(frame: FrameRef, set: RegisterSet) -> Vec<Register>;
                }
                disassembly: Disassembly, "machine code" {
                    Disassemble: fn disassemble(place: (&Place), before: usize, count: usize) -> Vec<Instruction>;
                }
                data_search: DataSearch, "a search in its data" {
                    Find: fn find(search: (&ElementSearch)) -> ElementPage;
                    Pointers: fn pointers(search: (&PointerSearch)) -> PointerPage;
                }
                time_travel: TimeTravel, "its past" {
                    Recording: fn recording() -> Recording;
                    Record: fn record(record: bool) -> ();
                    Now: fn now() -> Option<When>;
                    Prepare: fn prepare() -> bool;
                    Ask: fn ask(question: (&Question)) -> Finding;
                    Timeline: fn timeline(query: (&TimelineQuery)) -> TimelinePage;
                }
            }
        }
    };
}

/// The type of a parameter as the seam's method has it.
macro_rules! lent_type {
    ((& $type:ty)) => {
        &$type
    };
    ($type:ty) => {
        $type
    };
}

/// The type of a parameter as it is sent.
macro_rules! sent_type {
    ((& $type:ty)) => {
        <$type as ToOwned>::Owned
    };
    ($type:ty) => {
        $type
    };
}

/// A parameter of the seam's method, to be sent.
macro_rules! sent {
    ((& $type:ty), $value:ident) => {
        $value.to_owned()
    };
    ($type:ty, $value:ident) => {
        $value
    };
}

/// A parameter that was sent, for the seam's method.
macro_rules! lent {
    ((& $type:ty), $value:ident) => {
        &$value
    };
    ($type:ty, $value:ident) => {
        $value
    };
}
