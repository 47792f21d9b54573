//! Members that IL names: defined here, referenced elsewhere, or a generic method with its arguments.

use super::assembly::Assembly;
use super::error::ImageError;
use super::signature::{MethodSig, TypeSig};
use super::token::{Table, Token};

/// A method or field of a type that is defined elsewhere, or of a generic instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReference<'a> {
    /// What it belongs to: a `TypeDef`, `TypeRef`, `TypeSpec`, `ModuleRef` or `MethodDef`.
    pub parent: Token,
    /// Its name.
    pub name: &'a str,
    signature: &'a [u8],
}

/// What a member's signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberSig {
    /// A field of a type.
    Field(TypeSig),
    /// A method.
    Method(MethodSig),
}

/// A member that an instruction names, as far as this assembly tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The type that it belongs to: `TypeDef`, `TypeRef` or `TypeSpec`.
    pub declaring_type: Option<Token>,
    /// Its name.
    pub name: String,
    /// What its signature says.
    pub signature: MemberSig,
    /// What stands for the parameters of a generic method.
    pub arguments: Vec<TypeSig>,
}

impl<'a> MemberReference<'a> {
    /// What its signature says.
    pub fn signature(self) -> Result<MemberSig, ImageError> {
        match self.signature.first() {
            Some(head) if head & 0x0f == 0x06 => TypeSig::parse_field(self.signature).map(MemberSig::Field),
            _ => MethodSig::parse(self.signature).map(MemberSig::Method),
        }
    }
}

impl Assembly {
    /// The member of a `MemberRef` token.
    pub fn member_reference(&self, token: Token) -> Option<MemberReference<'_>> {
        let row = token.row_in(Table::MemberRef)?;
        Some(MemberReference {
            parent: self.metadata.tables.token(Table::MemberRef, row, 0)?,
            name: self.metadata.string(Table::MemberRef, row, 1)?,
            signature: self.metadata.blob(Table::MemberRef, row, 2)?,
        })
    }

    /// The generic method and its arguments of a `MethodSpec` token.
    pub fn method_specification(&self, token: Token) -> Option<(Token, Vec<TypeSig>)> {
        let row = token.row_in(Table::MethodSpec)?;
        let method = self.metadata.tables.token(Table::MethodSpec, row, 0)?;
        let arguments =
            TypeSig::parse_method_arguments(self.metadata.blob(Table::MethodSpec, row, 1)?).ok()?;
        Some((method, arguments))
    }

    /// The locals of a `StandAloneSig` token, by slot.
    pub fn local_types(&self, token: Token) -> Result<Vec<TypeSig>, ImageError> {
        TypeSig::parse_locals(self.stand_alone(token)?)
    }

    /// The method of a `StandAloneSig` token, as `calli` names one.
    pub fn call_site(&self, token: Token) -> Result<MethodSig, ImageError> {
        MethodSig::parse(self.stand_alone(token)?)
    }

    fn stand_alone(&self, token: Token) -> Result<&[u8], ImageError> {
        let row = token.row_in(Table::StandAloneSig);
        let blob = row.and_then(|row| self.metadata.blob(Table::StandAloneSig, row, 0));
        blob.ok_or(ImageError::Malformed { what: "a signature" })
    }

    /// The field or method that an instruction names by any token.
    pub fn member(&self, token: Token) -> Option<Member> {
        match token.table()? {
            Table::MethodSpec => {
                let (method, arguments) = self.method_specification(token)?;
                let plain = self.plain_member(method)?;
                Some(Member { arguments, ..plain })
            }
            _ => self.plain_member(token),
        }
    }

    fn plain_member(&self, token: Token) -> Option<Member> {
        let (declaring_type, name, signature) = match token.table()? {
            Table::MethodDef => {
                let method = self.method(token)?;
                let signature = MemberSig::Method(method.signature().ok()?);
                (method.declaring_type().map(|parent| parent.token()), method.name()?, signature)
            }
            Table::Field => {
                let field = self.field(token)?;
                let signature = MemberSig::Field(field.signature().ok()?);
                (field.declaring_type().map(|parent| parent.token()), field.name()?, signature)
            }
            Table::MemberRef => {
                let reference = self.member_reference(token)?;
                // A call with more arguments than are declared names the method, not its type.
                let parent = match reference.parent.table()? {
                    Table::MethodDef => {
                        self.method(reference.parent)?.declaring_type().map(|parent| parent.token())
                    }
                    Table::ModuleRef => None,
                    _ => Some(reference.parent),
                };
                (parent, reference.name, reference.signature().ok()?)
            }
            _ => return None,
        };
        Some(Member { declaring_type, name: name.to_owned(), signature, arguments: Vec::new() })
    }

    /// What an instruction names, as C# writes it: `Console.WriteLine`, `List<int>.Add`, `Type.field`.
    pub fn member_name(&self, token: Token) -> Option<String> {
        let member = self.member(token)?;
        let arguments: Vec<String> = member.arguments.iter().map(|sig| sig.display(self)).collect();
        let arguments =
            if arguments.is_empty() { String::new() } else { format!("<{}>", arguments.join(", ")) };
        let parent = member.declaring_type.and_then(|parent| self.type_sig(parent));
        let parent = parent.map_or(String::new(), |sig| sig.display(self) + ".");
        Some(format!("{parent}{}{arguments}", member.name))
    }
}
