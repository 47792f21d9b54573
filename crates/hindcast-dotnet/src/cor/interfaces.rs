//! The interfaces that a session uses, with their slots.

use std::ops::Range;

use super::{
    com::{Com, Guid, Interface, Out, Raw, call_method, check, interface, read_name},
    error::{CorError, Hresult},
};

interface!(
    /// The entry to it all.
    CorDebug "3d6f5f61-7538-11d3-8d5b-00104b35e7ef" {
        3 initialize();
        4 terminate();
        8 debug_active_process(pid: u32, win32_attach: i32) -> Com<Process>;
    }
);
interface!(
    /// The debuggee.
    Process "3d6f5f64-7538-11d3-8d5b-00104b35e7ef" {
        3 stop(timeout_ignored: u32);
        4 go_on(out_of_band: i32);
        7 enumerate_threads() -> Com<ThreadEnum>;
        9 detach();
        6 has_queued_callbacks(thread: Raw) -> bool;
        26 enumerate_app_domains() -> Com<AppDomainEnum>;
    }
);
interface!(Process5 "21e9d9c0-fcb8-11df-8cff-0800200c9a66" {
    10 type_for_id(method_table: u64, zero: u64) -> Com<CorType>;
});
interface!(ThreadEnum "CC7BCB06-8A68-11d2-983C-0000F808342D");
interface!(AppDomainEnum "63ca1b24-4359-4883-bd57-13f815f58744");
interface!(AppDomain "3d6f5f63-7538-11d3-8d5b-00104b35e7ef");
interface!(AppDomain2 "096E81D5-ECDA-4202-83F5-C65980A9EF75");
interface!(
    /// An assembly's file as it is loaded.
    Module "dba2d8c1-e5c5-4069-8c13-10a7c6abf43d" {
        9 function_from_token(token: u32) -> Com<Function>;
        11 class_from_token(token: u32) -> Com<Class>;
    }
);
interface!(Module2 "7FCC5FB5-49C0-41de-9938-3B88B5B9ADD7" {
    5 set_jit_compiler_flags(flags: u32);
    6 jit_compiler_flags() -> u32;
});
interface!(
    /// A managed thread.
    Thread "938c6d66-7fb6-4f69-b389-425b8987329b" {
        4 id() -> u32;
        7 set_debug_state(state: u32);
        9 user_state() -> u32;
        10 current_exception() -> Option<Com<Value>>;
        12 create_stepper() -> Com<Stepper>;
        17 create_eval() -> Com<Eval>;
        18 object() -> Option<Com<Value>>;
    }
);
interface!(InternalFrame "B92CC7F7-9D2D-45c4-BC2B-621FCC9DFBF4" {
    11 kind() -> u32;
});
interface!(InternalFrame2 "C0815BDC-CFAB-447e-A779-C116B454EB5B");
interface!(Thread3 "F8544EC3-5E4E-46c7-8D3E-A52B8405B1F5" {
    3 create_stack_walk() -> Com<StackWalk>;
});
interface!(Thread4 "1A1F204B-1C66-4637-823F-3EE6C744A69C" {
    4 blocking_objects() -> Com<BlockingObjectEnum>;
});
interface!(BlockingObjectEnum "976A6278-134A-4a81-81A3-8F277943F4C3");
interface!(StackWalk "A0647DE9-55DE-4816-929C-385271C64CF7");
interface!(Frame "CC7BCAEF-8A68-11d2-983C-0000F808342D");
interface!(IlFrame "03E26311-4F76-11d3-88C6-006097945418" {
    5 function() -> Com<Function>;
    6 function_token() -> u32;
    14 local_variable(index: u32) -> Com<Value>;
    16 argument(index: u32) -> Com<Value>;
});
interface!(IlFrame2 "5D88A994-6C30-479b-890F-BCEF88B129A5" {
    4 enumerate_type_parameters() -> Com<TypeEnum>;
});
interface!(NativeFrame "03E26314-4F76-11d3-88C6-006097945418" {
    4 code() -> Com<Code>;
    11 offset() -> u32;
});
interface!(NativeFrame2 "35389FF1-3684-4c55-A2EE-210F26C60E5E" {
    3 is_child() -> bool;
});
interface!(Function "CC7BCAF3-8A68-11d2-983C-0000F808342D" {
    3 module() -> Com<Module>;
    5 token() -> u32;
    6 il_code() -> Com<Code>;
    7 native_code() -> Com<Code>;
});
interface!(Function2 "EF0C490B-94C3-4e4d-B629-DDC134C532D8" {
    3 set_just_my_code(is_mine: i32);
});
interface!(Code "CC7BCAF4-8A68-11d2-983C-0000F808342D" {
    5 address() -> u64;
    6 size() -> u32;
    7 create_breakpoint(offset: u32) -> Com<FunctionBreakpoint>;
});
interface!(Code4 "18221fa4-20cb-40fa-b19d-9f91c4fa8c14" {
    3 enumerate_variable_homes() -> Com<VariableHomeEnum>;
});
interface!(VariableHomeEnum "e76b7a57-4f7a-4309-85a7-5d918c3deaf7");
interface!(VariableHome "50847b8d-f43f-41b0-924c-6383a5f2278b" {
    4 slot_index() -> u32;
    5 argument_index() -> u32;
    7 location_type() -> u32;
});
interface!(Breakpoint "CC7BCAE8-8A68-11d2-983C-0000F808342D");
interface!(FunctionBreakpoint "CC7BCAE9-8A68-11d2-983C-0000F808342D" {
    3 activate(active: i32);
});
interface!(Stepper "CC7BCAEC-8A68-11d2-983C-0000F808342D" {
    4 deactivate();
    5 set_intercept_mask(mask: u32);
    6 set_unmapped_stop_mask(mask: u32);
    7 step(step_in: i32);
    9 step_out();
});
interface!(Stepper2 "C5B6E9C3-E7D1-4a8e-873B-7F047F0706F7" {
    3 set_just_my_code(is_on: i32);
});
interface!(Eval "CC7BCAF6-8A68-11d2-983C-0000F808342D" {
    9 abort();
    10 result() -> Option<Com<Value>>;
});
interface!(Eval2 "FB0D9CE7-BE66-4683-9D32-A42A04E2FD91" {
    9 rude_abort();
});
interface!(Class "CC7BCAF5-8A68-11d2-983C-0000F808342D" {
    3 module() -> Com<Module>;
    4 token() -> u32;
});
interface!(Class2 "B008EA8D-7AB1-43f7-BB20-FBB5A04038AE");
interface!(
    /// A type with its arguments.
    CorType "D613F0BB-ACE1-4c19-BD72-E4C08D5DA7F5" {
        3 element_type() -> u32;
        4 class() -> Com<Class>;
        5 enumerate_type_parameters() -> Com<TypeEnum>;
        6 first_type_parameter() -> Com<CorType>;
        7 base() -> Option<Com<CorType>>;
        9 rank() -> u32;
    }
);
interface!(CorType2 "e6e91d79-693d-48bc-b417-8284b4f10fb5");
interface!(TypeEnum "10F27499-9DF2-43ce-8333-A321D7C99CB4");
interface!(Value "CC7BCAF7-8A68-11d2-983C-0000F808342D" {
    3 element_type() -> u32;
    4 size() -> u32;
    5 address() -> u64;
});
interface!(Value2 "5E0B54E7-D88A-4626-9420-A691E0A78B49" {
    3 exact_type() -> Com<CorType>;
});
interface!(GenericValue "CC7BCAF8-8A68-11d2-983C-0000F808342D" {
    4 size() -> u32;
});
interface!(ReferenceValue "CC7BCAF9-8A68-11d2-983C-0000F808342D" {
    7 is_null() -> bool;
    8 value() -> u64;
    9 set_value(address: u64);
    10 dereference() -> Com<Value>;
});
interface!(HeapValue2 "E3AC4D6C-9CB7-43e6-96CC-B21540E5083C" {
    3 create_handle(kind: u32) -> Com<HandleValue>;
});
interface!(HandleValue "029596E8-276B-46a1-9821-732E96BBB00B" {
    8 value() -> u64;
    13 dispose();
});
interface!(DelegateValue "3AF70CC7-6047-47F6-A5C5-090A1A622638" {
    4 function() -> Com<Function>;
});
interface!(ExceptionValue "AE4CA65D-59DD-42A2-83A5-57E8A08D8719" {
    3 call_stack() -> Com<ExceptionCallStack>;
});
interface!(ExceptionCallStack "ED775530-4DC4-41F7-86D0-9E2DEF7DFC66");
interface!(HeapValue3 "A69ACAD8-2374-46e9-9FF8-B1F14120D296");
interface!(ObjectValue "18AD3D6E-B7D2-11d2-BD04-0000F80849BD");
interface!(BoxValue "CC7BCAFC-8A68-11d2-983C-0000F808342D" {
    9 object() -> Com<ObjectValue>;
});
interface!(StringValue "CC7BCAFD-8A68-11d2-983C-0000F808342D" {
    9 length() -> u32;
});
interface!(ArrayValue "0405B0DF-A660-11d2-BD02-0000F80849BD" {
    10 rank() -> u32;
    11 count() -> u32;
    13 has_base_indices() -> bool;
    16 element_at(position: u32) -> Com<Value>;
});

/// Where a frame's IL offset comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstructionPointer {
    /// The IL offset.
    pub(crate) offset: u32,
    /// Flags of `CorDebugMappingResult`.
    pub(crate) mapping: u32,
}

/// A range of IL offsets to step through.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepRange {
    /// The first.
    pub(crate) start: u32,
    /// The first beyond.
    pub(crate) end: u32,
}

/// What a thread waits for.
#[derive(Debug)]
pub(crate) struct Blocking {
    /// The object whose monitor it wants.
    pub(crate) object: Com<Value>,
    /// Whether it waits to be notified, rather than to enter.
    pub(crate) waits_for_pulse: bool,
    /// How long at most, in milliseconds; `u32::MAX` is for ever.
    pub(crate) timeout: u32,
}

impl Com<Process> {
    /// Bytes of the debuggee's memory.
    pub(crate) fn read_memory(&self, address: u64, size: u32) -> Result<Vec<u8>, CorError> {
        let mut bytes = vec![0u8; size as usize];
        let mut read = 0usize;
        // SAFETY: slot 21 is ReadMemory; the buffer has the room that is told.
        let code = unsafe {
            call_method!(self.raw(), 21, u64 = address, u32 = size, *mut u8 = bytes.as_mut_ptr(), *mut usize = &mut read)
        };
        check(code, "Process::read_memory")?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Holds all threads, or lets all of them go, when the process goes on.
    pub(crate) fn hold_threads(&self, held: bool) -> Result<(), CorError> {
        // SAFETY: slot 8 is SetAllThreadsDebugState; the thread to leave out may be null.
        let code = unsafe { call_method!(self.raw(), 8, u32 = held.into(), Raw = std::ptr::null_mut()) };
        check(code, "Process::hold_threads")
    }
}

impl Com<Thread> {
    /// Holds it, or lets it go, when the process goes on.
    pub(crate) fn hold(&self, held: bool) -> Result<(), CorError> {
        self.set_debug_state(held.into())
    }
}

impl Com<StackWalk> {
    /// The frame it is at; none for code that is not managed.
    pub(crate) fn frame(&self) -> Result<Option<Com<Frame>>, CorError> {
        let mut frame: Raw = std::ptr::null_mut();
        // SAFETY: slot 6 is GetFrame.
        let code = unsafe { call_method!(self.raw(), 6, *mut Raw = &mut frame) };
        check(code, "StackWalk::frame")?;
        // SAFETY: a counted reference, or null where a native frame is skipped (S_FALSE).
        Ok(unsafe { Com::owned(frame) })
    }

    /// Goes to the next frame outwards; false at the end.
    pub(crate) fn next(&self) -> Result<bool, CorError> {
        // SAFETY: slot 5 is Next.
        let code = unsafe { call_method!(self.raw(), 5) };
        check(code, "StackWalk::next")?;
        Ok(code == 0)
    }
}

impl Com<NativeFrame2> {
    /// Whether it is a handler of exceptions in the method of another frame.
    pub(crate) fn belongs_to(&self, other: &Self) -> Result<bool, CorError> {
        let mut belongs = 0i32;
        // SAFETY: slot 4 is IsMatchingParentFrame.
        let code = unsafe { call_method!(self.raw(), 4, Raw = other.raw(), *mut i32 = &mut belongs) };
        check(code, "NativeFrame2::belongs_to")?;
        Ok(belongs != 0)
    }
}

impl Com<IlFrame> {
    /// Where its part of the stack begins.
    pub(crate) fn stack_start(&self) -> Result<u64, CorError> {
        let (mut start, mut end) = (0u64, 0u64);
        // SAFETY: slot 7 is GetStackRange.
        let code = unsafe { call_method!(self.raw(), 7, *mut u64 = &mut start, *mut u64 = &mut end) };
        check(code, "IlFrame::stack_start")?;
        Ok(start)
    }

    /// Where it is.
    pub(crate) fn ip(&self) -> Result<InstructionPointer, CorError> {
        let (mut offset, mut mapping) = (0u32, 0u32);
        // SAFETY: slot 11 is GetIP.
        let code = unsafe { call_method!(self.raw(), 11, *mut u32 = &mut offset, *mut u32 = &mut mapping) };
        check(code, "IlFrame::ip")?;
        Ok(InstructionPointer { offset, mapping })
    }
}

impl Com<VariableHome> {
    /// In which part of the machine code the variable is there.
    pub(crate) fn live_range(&self) -> Result<Range<u32>, CorError> {
        let mut range = 0..0;
        // SAFETY: slot 6 is GetLiveRange.
        let code =
            unsafe { call_method!(self.raw(), 6, *mut u32 = &mut range.start, *mut u32 = &mut range.end) };
        check(code, "VariableHome::live_range")?;
        Ok(range)
    }

    /// Whether it is in memory or in one general register.
    pub(crate) fn is_in_memory_or_register(&self) -> Result<bool, CorError> {
        /// `VLT_INVALID`.
        const ELSEWHERE: u32 = 2;
        Ok(self.location_type()? < ELSEWHERE)
    }
}

impl Com<Module> {
    /// Its path.
    pub(crate) fn name(&self) -> Result<String, CorError> {
        // SAFETY: slot 6 is GetName.
        unsafe { read_name(self.raw(), 6, "Module::name") }
    }
}

impl Com<Module2> {
    /// Whether its code is the user's own.
    pub(crate) fn set_just_my_code(&self, is_mine: bool) -> Result<(), CorError> {
        // SAFETY: slot 3 is SetJMCStatus; there are no single methods.
        let code = unsafe {
            call_method!(self.raw(), 3, i32 = is_mine.into(), u32 = 0, *const u32 = std::ptr::null())
        };
        check(code, "Module2::set_just_my_code")
    }
}

impl Com<Stepper> {
    /// Steps through ranges of the current function.
    pub(crate) fn step_range(&self, into: bool, ranges: &[StepRange]) -> Result<(), CorError> {
        let count = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        // SAFETY: slot 8 is StepRange; the ranges are read during the call.
        let code = unsafe {
            call_method!(self.raw(), 8, i32 = into.into(), *const StepRange = ranges.as_ptr(), u32 = count)
        };
        check(code, "Stepper::step_range")
    }
}

/// `CorDebugBlockingObject`.
#[repr(C)]
struct RawBlocking {
    object: Raw,
    timeout: u32,
    reason: u32,
}

impl Com<BlockingObjectEnum> {
    /// All of them.
    pub(crate) fn all(&self) -> Result<Vec<Blocking>, CorError> {
        let mut found = Vec::new();
        loop {
            let mut one = RawBlocking { object: std::ptr::null_mut(), timeout: 0, reason: 0 };
            let mut fetched = 0u32;
            // SAFETY: slot 7 is Next, which fills at most one.
            let code = unsafe {
                call_method!(self.raw(), 7, u32 = 1, *mut RawBlocking = &mut one, *mut u32 = &mut fetched)
            };
            check(code, "BlockingObjectEnum::all")?;
            // SAFETY: a counted reference.
            let object = unsafe { Com::owned(one.object) };
            let Some(object) = object.filter(|_| fetched == 1) else { return Ok(found) };
            found.push(Blocking { object, waits_for_pulse: one.reason == 2, timeout: one.timeout });
        }
    }
}

/// A list that hands out interfaces of one kind: `Next` is in slot 7 of all of them.
macro_rules! lists {
    ($($list:ident of $item:ident;)*) => {
        $(impl Com<$list> {
            /// All of them.
            pub(crate) fn all(&self) -> Result<Vec<Com<$item>>, CorError> {
                let mut found = Vec::new();
                loop {
                    let mut item: Raw = std::ptr::null_mut();
                    let mut fetched = 0u32;
                    // SAFETY: slot 7 is Next, which fills at most one.
                    let code = unsafe {
                        call_method!(self.raw(), 7, u32 = 1, *mut Raw = &mut item, *mut u32 = &mut fetched)
                    };
                    check(code, concat!(stringify!($list), "::all"))?;
                    // SAFETY: a counted reference.
                    let item = unsafe { Com::owned(item) };
                    let Some(item) = item.filter(|_| fetched == 1) else { return Ok(found) };
                    found.push(item);
                }
            }
        })*
    };
}

lists! {
    ThreadEnum of Thread;
    AppDomainEnum of AppDomain;
    TypeEnum of CorType;
    VariableHomeEnum of VariableHome;
}

/// Kinds of types, as the interface numbers them (`CorElementType`).
pub(crate) mod element {
    #![allow(dead_code, reason = "the list is the interface's, not ours")]
    pub(crate) const VOID: u32 = 0x01;
    pub(crate) const BOOLEAN: u32 = 0x02;
    pub(crate) const CHAR: u32 = 0x03;
    pub(crate) const I1: u32 = 0x04;
    pub(crate) const U1: u32 = 0x05;
    pub(crate) const I2: u32 = 0x06;
    pub(crate) const U2: u32 = 0x07;
    pub(crate) const I4: u32 = 0x08;
    pub(crate) const U4: u32 = 0x09;
    pub(crate) const I8: u32 = 0x0a;
    pub(crate) const U8: u32 = 0x0b;
    pub(crate) const R4: u32 = 0x0c;
    pub(crate) const R8: u32 = 0x0d;
    pub(crate) const STRING: u32 = 0x0e;
    pub(crate) const POINTER: u32 = 0x0f;
    pub(crate) const BY_REF: u32 = 0x10;
    pub(crate) const VALUE_TYPE: u32 = 0x11;
    pub(crate) const CLASS: u32 = 0x12;
    pub(crate) const ARRAY: u32 = 0x14;
    pub(crate) const I: u32 = 0x18;
    pub(crate) const U: u32 = 0x19;
    pub(crate) const FUNCTION_POINTER: u32 = 0x1b;
    pub(crate) const OBJECT: u32 = 0x1c;
    pub(crate) const SZ_ARRAY: u32 = 0x1d;
}
