//! Assemblies and PDBs that the C# compiler wrote, compared with what their sources say (`tests/data/README.md`).

mod damage;
mod lines;
mod locals;
mod members;
mod program;
mod traps;
mod types;

use std::path::Path;

use hindcast_dotnet::image::{Assembly, Pdb, Token, TypeDef};

pub(crate) const SAMPLE: &[u8] = include_bytes!("../../data/sample.dll");
pub(crate) const SAMPLE_PDB: &[u8] = include_bytes!("../../data/sample.pdb");
pub(crate) const EMBEDDED: &[u8] = include_bytes!("../../data/embedded.dll");

/// The line of `sample.cs` that carries a mark.
fn mark(name: &str) -> u32 {
    hindcast_fixtures::mark_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample.cs"), name)
}

/// The sample with its PDB.
struct Sample {
    assembly: Assembly,
    pdb: Pdb,
}

impl Sample {
    fn open() -> Self {
        Self {
            assembly: Assembly::parse(SAMPLE).expect("an assembly"),
            pdb: Pdb::parse(SAMPLE_PDB).expect("a PDB"),
        }
    }

    fn type_named(&self, name: &str) -> TypeDef<'_> {
        self.assembly.type_named(name).unwrap_or_else(|| panic!("no type {name}"))
    }

    /// The only method of a type with a name.
    fn method(&self, type_name: &str, name: &str) -> Token {
        let methods: Vec<_> = self.type_named(type_name).methods_named(name).collect();
        assert_eq!(methods.len(), 1, "{type_name}.{name}: {methods:?}");
        methods[0].token()
    }

    /// A method of `Sample.Program`.
    fn program(&self, name: &str) -> Token {
        self.method("Sample.Program", name)
    }
}
