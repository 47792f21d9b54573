//! Who points to something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FrameRef, RuntimeAddr, ThreadId};

/// Who points to something?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerSearch {
    /// An object such as `*node`, a pointer, whose target is meant, or an address.
    pub target: String,
    /// In whose scope.
    pub frame: FrameRef,
    /// How many of the found ones to leave out first.
    pub offset: u64,
    /// How many of them to tell.
    pub limit: u32,
}

/// Who points to something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PointerPage {
    /// What is pointed to: where it begins
    pub address: RuntimeAddr,
    /// How many bytes it has; pointers to all of them count
    pub size: u64,
    /// Whether that is a whole block of the heap
    pub is_block: bool,
    /// Those that were asked for
    pub pointers: Vec<FoundPointer>,
    /// How many were found in all
    pub found: u64,
    /// How many bytes of memory were searched
    pub searched: u64,
}

/// A pointer that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPointer {
    /// What kind of place it is in
    pub kind: PointerKind,
    /// Where it is; absent for registers
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
    /// What it is called there
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The thread whose register or stack it is
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The frame that has the variable
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u32>,
    /// Where the heap block begins that it is in
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<RuntimeAddr>,
    /// How many bytes that block has
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    /// What it points to
    pub to: RuntimeAddr,
}

/// The kinds of places that pointers are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointerKind {
    /// A register of a thread
    Register,
    /// A thread's stack
    Stack,
    /// A variable that is always there
    Global,
    /// A block that the allocator gave
    Heap,
    /// Other memory
    Memory,
}
