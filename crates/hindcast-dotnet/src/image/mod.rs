//! What the files of a .NET program tell: assemblies and portable PDBs. Pure, without unsafe code.
//!
//! Nothing in a file is trusted: whatever it holds, reading it neither panics nor takes memory out of proportion to its size.

mod assembly;
mod attributes;
mod bytes;
mod constant;
mod cursor;
mod debug_directory;
mod error;
mod il;
mod members;
mod metadata;
mod names;
mod opcodes;
pub mod pdb;
mod pe;
mod references;
mod schema;
mod signature;
mod tables;
mod token;
mod type_display;
mod types;
mod walk;

pub use assembly::{Assembly, AssemblyReference, Version};
pub use attributes::{Attribute, AttributeArguments, AttributeValue, NamedArgument};
pub use bytes::{Guid, ImageBytes};
pub use constant::Constant;
pub use debug_directory::{CodeView, MAXIMAL_EMBEDDED_PDB, PdbChecksum};
pub use error::{ImageError, Machine};
pub use il::{ClauseKind, ExceptionClause, Instruction, Instructions, MethodBody, Operand, SwitchTargets};
pub use members::{Event, Field, Method, Parameter, Property};
pub use names::ResolutionScope;
pub use pdb::{Pdb, PdbId};
pub use references::{Member, MemberReference, MemberSig};
pub use signature::{MethodSig, Primitive, TypeSig};
pub use token::{Table, Token};
pub use type_display::{Spelling, TypeNames, csharp_name};
pub use types::{GenericParameter, TypeDef, TypeKind};
#[doc(hidden)]
pub use walk::{Walked, walk_everything};
