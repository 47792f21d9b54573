//! What the files of a .NET program tell: assemblies and portable PDBs. Pure, without unsafe code.
