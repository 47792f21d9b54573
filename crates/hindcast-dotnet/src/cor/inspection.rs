//! Calls that look at values and types, and run code: those whose arguments are more than plain numbers.

use super::{
    com::{Com, Raw, call_method, check},
    error::{CorError, Hresult},
    interfaces::*,
};

impl Com<GenericValue> {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, CorError> {
        let size = self.size()? as usize;
        let mut bytes = vec![0u8; size];
        // SAFETY: slot 7 is GetValue, which fills as many bytes as the value has.
        let code = unsafe { call_method!(self.raw(), 7, *mut u8 = bytes.as_mut_ptr()) };
        check(code, "GenericValue::bytes")?;
        Ok(bytes)
    }

    /// Replaces its bytes; there must be as many as it has.
    pub(crate) fn set_bytes(&self, bytes: &[u8]) -> Result<(), CorError> {
        const CALL: &str = "GenericValue::set_bytes";
        if bytes.len() != self.size()? as usize {
            return Err(CorError { call: CALL, code: Hresult::INVALID_ARGUMENT });
        }
        // SAFETY: slot 8 is SetValue, which reads as many bytes as the value has.
        let code = unsafe { call_method!(self.raw(), 8, *const u8 = bytes.as_ptr()) };
        check(code, CALL)
    }
}

impl Com<StringValue> {
    /// Its first `most` code units, and how many it has.
    pub(crate) fn units(&self, most: u32) -> Result<(Vec<u16>, u32), CorError> {
        let length = self.length()?;
        let wanted = length.min(most);
        let mut buffer = vec![0u16; wanted as usize + 1];
        let mut fetched = 0u32;
        // SAFETY: slot 10 is GetString; the buffer has the room that is told.
        let code = unsafe {
            call_method!(self.raw(), 10, u32 = wanted + 1, *mut u32 = &mut fetched, *mut u16 = buffer.as_mut_ptr())
        };
        check(code, "StringValue::units")?;
        buffer.truncate(wanted as usize);
        Ok((buffer, length))
    }
}

/// `HANDLE_STRONG`.
const STRONG: u32 = 1;

impl Com<ReferenceValue> {
    /// Keeps what it refers to alive, and stays good while the program runs.
    pub(crate) fn hold(&self) -> Option<Com<HandleValue>> {
        self.dereference().ok()?.cast::<HeapValue2>()?.create_handle(STRONG).ok()
    }
}

impl Com<ArrayValue> {
    /// The length of each dimension.
    pub(crate) fn dimensions(&self) -> Result<Vec<u32>, CorError> {
        self.numbers(12, "ArrayValue::dimensions")
    }

    /// The first index of each dimension.
    pub(crate) fn base_indices(&self) -> Result<Vec<u32>, CorError> {
        self.numbers(14, "ArrayValue::base_indices")
    }

    fn numbers(&self, slot: usize, call: &'static str) -> Result<Vec<u32>, CorError> {
        let rank = self.rank()?;
        let mut numbers = vec![0u32; rank as usize];
        // SAFETY: slots 12 and 14 fill one number for each dimension.
        let code = unsafe { call_method!(self.raw(), slot, u32 = rank, *mut u32 = numbers.as_mut_ptr()) };
        check(code, call)?;
        Ok(numbers)
    }
}

impl Com<ObjectValue> {
    /// A field that `class` declares.
    pub(crate) fn field(&self, class: &Com<Class>, token: u32) -> Result<Com<Value>, CorError> {
        const CALL: &str = "ObjectValue::field";
        let mut value: Raw = std::ptr::null_mut();
        // SAFETY: slot 8 is GetFieldValue.
        let code =
            unsafe { call_method!(self.raw(), 8, Raw = class.raw(), u32 = token, *mut Raw = &mut value) };
        check(code, CALL)?;
        // SAFETY: a counted reference.
        unsafe { Com::owned(value) }.ok_or(CorError { call: CALL, code: Hresult::FIELD_NOT_AVAILABLE })
    }
}

impl Com<CorType> {
    /// A static field that the type declares.
    pub(crate) fn static_field(
        &self,
        token: u32,
        frame: Option<&Com<Frame>>,
    ) -> Result<Com<Value>, CorError> {
        const CALL: &str = "CorType::static_field";
        let frame = frame.map_or(std::ptr::null_mut(), Com::raw);
        let mut value: Raw = std::ptr::null_mut();
        // SAFETY: slot 8 is GetStaticFieldValue; the frame may be null.
        let code = unsafe { call_method!(self.raw(), 8, u32 = token, Raw = frame, *mut Raw = &mut value) };
        check(code, CALL)?;
        // SAFETY: a counted reference.
        unsafe { Com::owned(value) }.ok_or(CorError { call: CALL, code: Hresult::STATIC_NOT_AVAILABLE })
    }
}

impl Com<CorType2> {
    /// Where the runtime describes the type: what each of its objects begins with.
    pub(crate) fn method_table(&self) -> Result<u64, CorError> {
        let mut id = [0u64; 2];
        // SAFETY: slot 3 is GetTypeID, which fills a `COR_TYPEID` of two numbers.
        let code = unsafe { call_method!(self.raw(), 3, *mut [u64; 2] = &mut id) };
        check(code, "CorType2::method_table")?;
        Ok(id[0])
    }
}

impl Com<Class2> {
    /// The class with these arguments.
    pub(crate) fn with_arguments(
        &self,
        element_type: u32,
        arguments: &[Com<CorType>],
    ) -> Result<Com<CorType>, CorError> {
        const CALL: &str = "Class2::with_arguments";
        let pointers: Vec<Raw> = arguments.iter().map(Com::raw).collect();
        let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
        let mut made: Raw = std::ptr::null_mut();
        // SAFETY: slot 3 is GetParameterizedType; the types are read during the call.
        let code = unsafe {
            call_method!(self.raw(), 3, u32 = element_type, u32 = count, *const Raw = pointers.as_ptr(), *mut Raw = &mut made)
        };
        check(code, CALL)?;
        // SAFETY: a counted reference.
        unsafe { Com::owned(made) }.ok_or(CorError { call: CALL, code: Hresult::CLASS_NOT_LOADED })
    }
}

impl Com<Eval2> {
    /// Begins to run a function; the event of its end follows when the process goes on.
    pub(crate) fn call(
        &self,
        function: &Com<Function>,
        types: &[Com<CorType>],
        arguments: &[Com<Value>],
    ) -> Result<(), CorError> {
        self.begin_call(3, "Eval2::call", function, types, arguments)
    }

    /// Begins to make an object with a constructor.
    pub(crate) fn new_object(
        &self,
        constructor: &Com<Function>,
        types: &[Com<CorType>],
        arguments: &[Com<Value>],
    ) -> Result<(), CorError> {
        self.begin_call(5, "Eval2::new_object", constructor, types, arguments)
    }

    fn begin_call(
        &self,
        slot: usize,
        name: &'static str,
        function: &Com<Function>,
        types: &[Com<CorType>],
        arguments: &[Com<Value>],
    ) -> Result<(), CorError> {
        let types: Vec<Raw> = types.iter().map(Com::raw).collect();
        let arguments: Vec<Raw> = arguments.iter().map(Com::raw).collect();
        let count = |list: &[Raw]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        // SAFETY: slots 3 and 5 are CallParameterizedFunction and NewParameterizedObject, which read the lists
        // during the call.
        let code = unsafe {
            call_method!(
                self.raw(), slot, Raw = function.raw(), u32 = count(&types), *const Raw = types.as_ptr(),
                u32 = count(&arguments), *const Raw = arguments.as_ptr()
            )
        };
        check(code, name)
    }

    /// Begins to make an object, all zero, without running a constructor.
    pub(crate) fn new_object_without_constructor(
        &self,
        class: &Com<Class>,
        types: &[Com<CorType>],
    ) -> Result<(), CorError> {
        let types: Vec<Raw> = types.iter().map(Com::raw).collect();
        let count = u32::try_from(types.len()).unwrap_or(u32::MAX);
        // SAFETY: slot 6 is NewParameterizedObjectNoConstructor, which reads the list during the call.
        let code = unsafe {
            call_method!(self.raw(), 6, Raw = class.raw(), u32 = count, *const Raw = types.as_ptr())
        };
        check(code, "Eval2::new_object_without_constructor")
    }

    /// Begins to make a string.
    pub(crate) fn new_string(&self, text: &str) -> Result<(), CorError> {
        let text: Vec<u16> = text.encode_utf16().collect();
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: slot 8 is NewStringWithLength, which reads that many code units.
        let code = unsafe { call_method!(self.raw(), 8, *const u16 = text.as_ptr(), u32 = length) };
        check(code, "Eval2::new_string")
    }
}

impl Com<Eval> {
    /// A primitive value, all zero, or a null reference.
    pub(crate) fn primitive(&self, element_type: u32) -> Result<Com<Value>, CorError> {
        const CALL: &str = "Eval::primitive";
        let mut value: Raw = std::ptr::null_mut();
        // SAFETY: slot 12 is CreateValue; primitives have no class.
        let code = unsafe {
            call_method!(self.raw(), 12, u32 = element_type, Raw = std::ptr::null_mut(), *mut Raw = &mut value)
        };
        check(code, CALL)?;
        // SAFETY: a counted reference.
        unsafe { Com::owned(value) }.ok_or(CorError { call: CALL, code: Hresult::INVALID_ARGUMENT })
    }
}

impl Com<HeapValue3> {
    /// The thread that holds the object's monitor, and how often; none where nobody does.
    pub(crate) fn monitor_owner(&self) -> Result<Option<(Com<Thread>, u32)>, CorError> {
        let mut thread: Raw = std::ptr::null_mut();
        let mut count = 0u32;
        // SAFETY: slot 3 is GetThreadOwningMonitorLock.
        let code = unsafe { call_method!(self.raw(), 3, *mut Raw = &mut thread, *mut u32 = &mut count) };
        check(code, "HeapValue3::monitor_owner")?;
        // SAFETY: a counted reference, or null (S_FALSE).
        Ok(unsafe { Com::owned(thread) }.map(|thread| (thread, count)))
    }
}

impl Com<AppDomain2> {
    /// An array of this element type.
    pub(crate) fn array_type(&self, rank: u32, element: &Com<CorType>) -> Result<Com<CorType>, CorError> {
        const CALL: &str = "AppDomain2::array_type";
        // `ELEMENT_TYPE_SZARRAY` and `ELEMENT_TYPE_ARRAY`.
        let kind: u32 = if rank == 1 { 0x1d } else { 0x14 };
        let mut made: Raw = std::ptr::null_mut();
        // SAFETY: slot 3 is GetArrayOrPointerType.
        let code = unsafe {
            call_method!(self.raw(), 3, u32 = kind, u32 = rank, Raw = element.raw(), *mut Raw = &mut made)
        };
        check(code, CALL)?;
        // SAFETY: a counted reference.
        unsafe { Com::owned(made) }.ok_or(CorError { call: CALL, code: Hresult::CLASS_NOT_LOADED })
    }
}

impl Com<Thread3> {
    /// What the runtime itself does on a thread, as it is found in its stack (`CorDebugInternalFrameType`), innermost first.
    pub(crate) fn internal_frames(&self) -> Result<Vec<u32>, CorError> {
        const CALL: &str = "Thread::internal_frames";
        let mut frames: Vec<Raw> = Vec::new();
        loop {
            let room = u32::try_from(frames.len()).unwrap_or(u32::MAX);
            let mut count = 0u32;
            // SAFETY: slot 4 is GetActiveInternalFrames; the buffer has the room that is told.
            let code = unsafe {
                call_method!(self.raw(), 4, u32 = room, *mut u32 = &mut count, *mut Raw = frames.as_mut_ptr())
            };
            // There is room for none at first, which is an error where there are some.
            if !frames.is_empty() {
                check(code, CALL)?;
            }
            if count as usize <= frames.len() {
                frames.truncate(count as usize);
                break;
            }
            frames.resize(count as usize, std::ptr::null_mut());
        }
        // SAFETY: counted references.
        let frames = frames.into_iter().filter_map(|frame| unsafe { Com::<InternalFrame2>::owned(frame) });
        frames.map(|frame| frame.expect::<InternalFrame>(CALL)?.kind()).collect()
    }
}

/// `CorDebugExceptionObjectStackFrame`.
#[repr(C)]
struct RawThrownFrame {
    module: Raw,
    ip: u64,
    method: u32,
    is_last_foreign: i32,
}

/// A frame that an exception has come through.
#[derive(Debug)]
pub(crate) struct ThrownFrame {
    pub(crate) module: Com<Module>,
    /// The machine code that failed, or that is behind the call.
    pub(crate) ip: u64,
    pub(crate) method: u32,
}

impl Com<ExceptionCallStack> {
    /// The innermost frames, `most` of them.
    pub(crate) fn first(&self, most: usize) -> Result<Vec<ThrownFrame>, CorError> {
        let mut found = Vec::new();
        while found.len() < most {
            let mut one =
                RawThrownFrame { module: std::ptr::null_mut(), ip: 0, method: 0, is_last_foreign: 0 };
            let mut fetched = 0u32;
            // SAFETY: slot 7 is Next, which fills at most one.
            let code = unsafe {
                call_method!(self.raw(), 7, u32 = 1, *mut RawThrownFrame = &mut one, *mut u32 = &mut fetched)
            };
            check(code, "ExceptionCallStack::first")?;
            // SAFETY: a counted reference, or null at the end.
            let module = unsafe { Com::owned(one.module) };
            let Some(module) = module.filter(|_| fetched == 1) else { break };
            found.push(ThrownFrame { module, ip: one.ip, method: one.method });
        }
        Ok(found)
    }
}

/// `COR_DEBUG_IL_TO_NATIVE_MAP`: which IL a piece of machine code is for.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CodeRange {
    /// The IL offset; beyond all code for what the compiler adds before and after it.
    pub(crate) il: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Com<Code> {
    /// Which IL the pieces of machine code are for.
    pub(crate) fn ranges(&self) -> Result<Vec<CodeRange>, CorError> {
        let mut ranges: Vec<CodeRange> = Vec::new();
        loop {
            let room = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
            let mut count = 0u32;
            // SAFETY: slot 10 is GetILToNativeMapping; the buffer has the room that is told.
            let code = unsafe {
                call_method!(self.raw(), 10, u32 = room, *mut u32 = &mut count, *mut CodeRange = ranges.as_mut_ptr())
            };
            check(code, "Code::ranges")?;
            if count as usize <= ranges.len() {
                ranges.truncate(count as usize);
                return Ok(ranges);
            }
            ranges.resize(count as usize, CodeRange::default());
        }
    }
}
