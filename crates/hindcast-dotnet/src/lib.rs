//! Debugs .NET programs through the runtime's own debugging interface, ICorDebug.

pub mod image;

// Everything else is about running programs.
macro_rules! on_linux {
    ($($item:item)*) => {
        $(
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            $item
        )*
    };
}

on_linux! {
    mod abandoned;
    mod cor;
    mod engine;
    #[allow(dead_code, unused_imports)]
    mod expression;
    mod installation;
    mod modules;
    mod names;
    mod program;
    mod session;
    mod values;

    pub use abandoned::release_abandoned;
    pub use engine::DotnetEngine;
    pub use installation::{InstalledRuntime, find_dotnet, installed_runtimes};
}
