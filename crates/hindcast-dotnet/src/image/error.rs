//! What a file is when it is not what was asked for.

/// Why a file cannot be read as an assembly or a portable PDB.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Nothing is in the file.
    #[error("the file is empty")]
    Empty,
    /// A native Linux program or library; also what starts a .NET program (the apphost) and a single-file bundle.
    #[error("the file is an ELF file, not a .NET assembly")]
    Elf,
    /// A native macOS program or library.
    #[error("the file is a Mach-O file, not a .NET assembly")]
    MachO,
    /// A PE file that the operating system runs without .NET.
    #[error("the file is a native Windows program without .NET metadata (no CLI header)")]
    Native {
        /// The machine that the file is compiled for.
        machine: Machine,
    },
    /// A portable PDB where an assembly was asked for.
    #[error("the file is a portable PDB, not a .NET assembly")]
    PortablePdb,
    /// A PDB in the format of Windows, which portable readers cannot read.
    #[error("the file is a Windows PDB, not a portable one")]
    WindowsPdb,
    /// An assembly where a portable PDB was asked for.
    #[error("the file is a PE file, not a portable PDB")]
    Pe,
    /// None of the above.
    #[error("the file is neither a PE file nor a portable PDB")]
    Unknown,
    /// The assembly runs in 32-bit processes only.
    #[error("the assembly runs in 32-bit processes only ({machine})")]
    Requires32Bit {
        /// The machine that the file is compiled for.
        machine: Machine,
    },
    /// The file ends before something that it declares.
    #[error("the file ends within {what}")]
    Truncated {
        /// What is cut off.
        what: &'static str,
    },
    /// Something contradicts the format.
    #[error("{what} is malformed")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Something compressed grows larger than is allowed, or than it declares.
    #[error("{what} inflates to more than {limit} bytes")]
    TooLarge {
        /// What is compressed.
        what: &'static str,
        /// The largest size that is allowed.
        limit: usize,
    },
}

/// The machine a PE file is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// 32-bit x86, and also what assemblies for any machine declare.
    X86,
    /// 64-bit x86.
    X64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit ARM.
    Arm64,
    /// Another one, by its number.
    Other(u16),
}

impl Machine {
    /// Precompiled assemblies for another system than Windows hide the machine behind the system's number.
    const SYSTEMS: [u16; 6] = [0, 0x7b79, 0x4644, 0xadc4, 0x1993, 0x1992];

    pub(crate) fn from_header(number: u16) -> Self {
        let known = |number| match number {
            0x014c => Some(Self::X86),
            0x8664 => Some(Self::X64),
            0x01c0 | 0x01c4 => Some(Self::Arm),
            0xaa64 => Some(Self::Arm64),
            _ => None,
        };
        Self::SYSTEMS.iter().find_map(|system| known(number ^ system)).unwrap_or(Self::Other(number))
    }

    /// Whether programs of the machine have 32-bit addresses.
    pub fn is_32_bit(self) -> bool {
        matches!(self, Self::X86 | Self::Arm)
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::X86 => formatter.write_str("x86"),
            Self::X64 => formatter.write_str("x64"),
            Self::Arm => formatter.write_str("arm"),
            Self::Arm64 => formatter.write_str("arm64"),
            Self::Other(number) => write!(formatter, "machine {number:#06x}"),
        }
    }
}

/// Says what a file is that has no PE header.
pub(crate) fn what_else(bytes: &[u8]) -> ImageError {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if bytes.is_empty() {
        ImageError::Empty
    } else if starts(b"\x7fELF") {
        ImageError::Elf
    } else if starts(&[0xcf, 0xfa, 0xed, 0xfe])
        || starts(&[0xce, 0xfa, 0xed, 0xfe])
        || starts(&[0xca, 0xfe, 0xba, 0xbe])
    {
        ImageError::MachO
    } else if starts(b"BSJB") {
        ImageError::PortablePdb
    } else if starts(b"Microsoft C/C++ MSF 7.00") {
        ImageError::WindowsPdb
    } else if starts(b"MZ") {
        ImageError::Pe
    } else {
        ImageError::Unknown
    }
}
