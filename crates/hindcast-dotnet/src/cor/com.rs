//! Owned COM pointers, and how methods are called through them.

use std::{ffi::c_void, marker::PhantomData, ptr::NonNull};

use super::error::{CorError, Hresult};

/// Calls the method in a slot. The caller vouches for pointer, slot and argument types.
macro_rules! call_method {
    ($this:expr, $slot:expr $(, $type:ty = $argument:expr)*) => {{
        let this: $crate::cor::com::Raw = $this;
        let table = *this.cast::<*const usize>();
        let method: unsafe extern "C" fn($crate::cor::com::Raw $(, $type)*) -> i32 =
            std::mem::transmute::<usize, _>(*table.add($slot));
        method(this $(, $argument)*)
    }};
}
pub(super) use call_method;

/// A pointer as it goes over the interface.
pub(crate) type Raw = *mut c_void;

/// The name of an interface.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guid(u32, u16, u16, [u8; 8]);

impl Guid {
    /// Reads `938c6d66-7fb6-4f69-b389-425b8987329b`, at compile time.
    pub(crate) const fn new(text: &str) -> Self {
        let text = text.as_bytes();
        assert!(text.len() == 36);
        let mut digits = [0u8; 32];
        let (mut from, mut to) = (0, 0);
        while from < 36 {
            let digit = match text[from] {
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'f' => digit - b'a' + 10,
                digit @ b'A'..=b'F' => digit - b'A' + 10,
                _ => 16,
            };
            if digit < 16 {
                digits[to] = digit;
                to += 1;
            }
            from += 1;
        }
        assert!(to == 32);
        let mut bytes = [0u8; 16];
        let mut at = 0;
        while at < 16 {
            bytes[at] = digits[2 * at] << 4 | digits[2 * at + 1];
            at += 1;
        }
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        Self(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h]), rest)
    }
}

/// A COM interface of ICorDebug.
///
/// # Safety
/// The table of functions behind a pointer to `IID` has the slots that the type's methods call.
pub(crate) unsafe trait Interface {
    const IID: Guid;
}

/// An owned reference to a COM object, seen through one of its interfaces.
pub(crate) struct Com<T: Interface> {
    pointer: NonNull<c_void>,
    interface: PhantomData<*const T>,
}

// SAFETY: the objects of ICorDebug are thread-safe; events are handed from the runtime's thread to ours.
unsafe impl<T: Interface> Send for Com<T> {}

impl<T: Interface> Com<T> {
    /// Takes over a reference that a call returned; none for a null pointer.
    ///
    /// # Safety
    /// The pointer is null, or a counted reference to a live object seen as `T`.
    pub(super) unsafe fn owned(pointer: Raw) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self { pointer, interface: PhantomData })
    }

    /// Takes a reference of its own to what a caller lends.
    ///
    /// # Safety
    /// The pointer is null, or refers to a live object seen as `T`.
    pub(super) unsafe fn lent(pointer: Raw) -> Option<Self> {
        let pointer = NonNull::new(pointer)?;
        // SAFETY: slot 1 of every interface counts one reference more.
        unsafe { call_method!(pointer.as_ptr(), 1) };
        Some(Self { pointer, interface: PhantomData })
    }

    pub(super) fn raw(&self) -> Raw {
        self.pointer.as_ptr()
    }

    /// What makes two references to one object equal.
    pub(crate) fn identity(&self) -> usize {
        self.pointer.as_ptr() as usize
    }

    /// The same object through another interface; none where it does not have that.
    pub(crate) fn cast<U: Interface>(&self) -> Option<Com<U>> {
        let mut other: Raw = std::ptr::null_mut();
        // SAFETY: slot 0 is QueryInterface, which returns a counted reference to `U` or fails.
        let code = unsafe { call_method!(self.raw(), 0, *const Guid = &U::IID, *mut Raw = &mut other) };
        // SAFETY: see above.
        if code < 0 { None } else { unsafe { Com::owned(other) } }
    }

    /// As [`cast`](Self::cast), where the interface must be there.
    pub(crate) fn expect<U: Interface>(&self, call: &'static str) -> Result<Com<U>, CorError> {
        self.cast().ok_or(CorError { call, code: Hresult::NO_INTERFACE })
    }
}

impl<T: Interface> Clone for Com<T> {
    fn clone(&self) -> Self {
        // SAFETY: slot 1 of every interface counts one reference more.
        unsafe { call_method!(self.raw(), 1) };
        Self { pointer: self.pointer, interface: PhantomData }
    }
}

impl<T: Interface> Drop for Com<T> {
    fn drop(&mut self) {
        // SAFETY: slot 2 of every interface gives one reference back, and this one is ours.
        unsafe { call_method!(self.raw(), 2) };
    }
}

impl<T: Interface> std::fmt::Debug for Com<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:p})", std::any::type_name::<T>().rsplit(':').next().unwrap_or_default(), self.pointer)
    }
}

/// What a method puts behind a pointer.
pub(crate) trait Out: Sized {
    type Raw;
    const EMPTY: Self::Raw;

    /// # Safety
    /// A successful call has filled `raw`.
    unsafe fn from_raw(raw: Self::Raw) -> Option<Self>;
}

impl<T: Interface> Out for Com<T> {
    type Raw = Raw;
    const EMPTY: Raw = std::ptr::null_mut();

    unsafe fn from_raw(raw: Raw) -> Option<Self> {
        // SAFETY: methods return counted references.
        unsafe { Self::owned(raw) }
    }
}

impl<T: Interface> Out for Option<Com<T>> {
    type Raw = Raw;
    const EMPTY: Raw = std::ptr::null_mut();

    unsafe fn from_raw(raw: Raw) -> Option<Self> {
        // SAFETY: as above.
        Some(unsafe { Com::owned(raw) })
    }
}

macro_rules! plain_outs {
    ($($type:ty),*) => {
        $(impl Out for $type {
            type Raw = Self;
            const EMPTY: Self = 0;

            unsafe fn from_raw(raw: Self) -> Option<Self> {
                Some(raw)
            }
        })*
    };
}
plain_outs!(u32, u64);

impl Out for bool {
    type Raw = i32;
    const EMPTY: i32 = 0;

    unsafe fn from_raw(raw: i32) -> Option<Self> {
        Some(raw != 0)
    }
}

/// A failed call's error.
pub(super) fn check(code: i32, call: &'static str) -> Result<(), CorError> {
    if code < 0 { Err(CorError { call, code: Hresult(code.cast_unsigned()) }) } else { Ok(()) }
}

/// Declares an interface: its name, and the methods that take only plain arguments, by slot.
macro_rules! interface {
    ($(#[$doc:meta])* $name:ident $iid:literal $({
        $($slot:literal $method:ident($($argument:ident: $type:ty),*) $(-> $out:ty)?;)*
    })?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        // SAFETY: the slots are those of the runtime's interface definition.
        unsafe impl Interface for $name {
            const IID: Guid = Guid::new($iid);
        }

        impl Com<$name> {
            $($(interface!(@method $name $slot $method($($argument: $type),*) $(-> $out)?);)*)?
        }
    };
    (@method $name:ident $slot:literal $method:ident($($argument:ident: $type:ty),*)) => {
        pub(crate) fn $method(&self $(, $argument: $type)*) -> Result<(), CorError> {
            // SAFETY: the interface's definition says slot and types.
            let code = unsafe { call_method!(self.raw(), $slot $(, $type = $argument)*) };
            check(code, concat!(stringify!($name), "::", stringify!($method)))
        }
    };
    (@method $name:ident $slot:literal $method:ident($($argument:ident: $type:ty),*) -> $out:ty) => {
        pub(crate) fn $method(&self $(, $argument: $type)*) -> Result<$out, CorError> {
            const CALL: &str = concat!(stringify!($name), "::", stringify!($method));
            let mut out = <$out as Out>::EMPTY;
            // SAFETY: the interface's definition says slot and types; the last argument is filled on success.
            unsafe {
                let code = call_method!(
                    self.raw(), $slot $(, $type = $argument)*, *mut <$out as Out>::Raw = &mut out
                );
                check(code, CALL)?;
                Out::from_raw(out).ok_or(CorError { call: CALL, code: Hresult::NO_INTERFACE })
            }
        }
    };
}
pub(super) use interface;

/// Reads a text by a method that takes a length, tells the length and fills a buffer.
///
/// # Safety
/// Slot `slot` is such a method.
pub(super) unsafe fn read_name(this: Raw, slot: usize, call: &'static str) -> Result<String, CorError> {
    let mut buffer = vec![0u16; 512];
    loop {
        let mut needed = 0u32;
        let room = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        // SAFETY: by contract; the buffer has the room that is told.
        let code = unsafe {
            call_method!(this, slot, u32 = room, *mut u32 = &mut needed, *mut u16 = buffer.as_mut_ptr())
        };
        check(code, call)?;
        let needed = needed as usize;
        if needed <= buffer.len() {
            // With a zero at its end.
            return Ok(String::from_utf16_lossy(&buffer[..needed.saturating_sub(1)]));
        }
        buffer.resize(needed, 0);
    }
}
