//! What was null when a `NullReferenceException` was thrown.
//!
//! The runtime does not say. But the statement that threw can be followed, with the values that its variables still have, up to
//! the first use of something that is null. What cannot be followed for sure, such as what a call returned, ends the search
//! without an answer.

use std::collections::HashMap;

use super::{Session, stack::ManagedFrame};
use crate::{
    image::{Instruction, Member, MemberSig, MethodBody, Operand, Primitive, Token, TypeSig},
    values::{Content, Returned, Seen},
};

/// The longest way through a statement.
const MOST_INSTRUCTIONS: usize = 500;

/// Something on the evaluation stack.
#[derive(Debug, Clone)]
enum Item {
    /// It was read, and is called this in the source.
    Read { text: String, seen: Seen },
    /// A number.
    Number(i64),
    /// It is not null.
    Something,
    /// Nobody knows.
    Unknown,
}

impl Item {
    fn is_null(&self) -> Option<bool> {
        match self {
            Self::Read { seen, .. } => Some(seen.is_null()),
            Self::Number(number) => Some(*number == 0),
            Self::Something => Some(false),
            Self::Unknown => None,
        }
    }
}

/// How an instruction goes on.
enum Next {
    On,
    Jump(u32),
    /// This was null.
    Found(String),
    /// It cannot be told.
    Lost,
}

struct Search<'s> {
    session: &'s Session,
    frame: &'s ManagedFrame,
    stack: Vec<Item>,
    /// What was stored on the way.
    locals: HashMap<u16, Item>,
}

impl Session {
    /// What was null in the statement that a frame stands in, as the source calls it.
    pub(super) fn null_in(&self, frame: &ManagedFrame) -> Option<String> {
        let method = frame.module.assembly()?.method(frame.method)?;
        let body = method.body().ok()??;
        let statement = frame.module.pdb()?.statement_at(frame.method, frame.offset)?.il;
        let mut search = Search { session: self, frame, stack: Vec::new(), locals: HashMap::new() };
        search.follow(&body, statement.start)
    }
}

impl Search<'_> {
    fn follow(&mut self, body: &MethodBody<'_>, start: u32) -> Option<String> {
        let mut at = start;
        for _ in 0..MOST_INSTRUCTIONS {
            let instruction = body.instruction_at(at)?;
            match self.execute(&instruction) {
                Next::On => at = instruction.end,
                Next::Jump(target) => at = target,
                Next::Found(text) => return Some(text),
                Next::Lost => return None,
            }
        }
        None
    }

    fn execute(&mut self, instruction: &Instruction<'_>) -> Next {
        let name = instruction.name;
        match (name, &instruction.operand) {
            ("nop" | "volatile." | "readonly." | "constrained.", _) => Next::On,
            (_, Operand::Argument(number)) if name.starts_with("ldarg") => self.push(self.argument(*number)),
            (_, Operand::Local(number)) if name.starts_with("ldloc") => self.push(self.local(*number)),
            (_, Operand::Local(number)) if name.starts_with("stloc") => {
                let item = self.pop();
                self.locals.insert(*number, item);
                Next::On
            }
            ("ldfld" | "ldflda", Operand::Token(token)) => self.load_field(*token),
            ("ldsfld", Operand::Token(_)) => self.push(Item::Unknown),
            ("stfld", _) => self.used(1),
            ("ldlen", _) => self.used_for(Item::Something),
            ("throw", _) => self.used(0),
            ("call" | "callvirt", Operand::Token(token)) => self.call(name == "callvirt", *token),
            ("newobj", Operand::Token(token)) => {
                let Some(Member { signature: MemberSig::Method(signature), .. }) = self.member(*token) else {
                    return Next::Lost;
                };
                self.drop_items(signature.parameters.len());
                self.push(Item::Something)
            }
            ("ldstr" | "ldtoken" | "ldftn" | "newarr" | "box", _) => {
                if matches!(name, "newarr" | "box") {
                    self.pop();
                }
                self.push(Item::Something)
            }
            ("ldnull", _) => self.push(Item::Number(0)),
            (_, Operand::Int(number)) if name.starts_with("ldc.i4") => self.push(Item::Number(*number)),
            ("dup", _) => {
                let item = self.stack.last().cloned().unwrap_or(Item::Unknown);
                self.push(item)
            }
            ("pop", _) => {
                self.pop();
                Next::On
            }
            ("br" | "br.s", Operand::Target(target)) => Next::Jump(*target),
            ("brtrue" | "brtrue.s" | "brfalse" | "brfalse.s", Operand::Target(target)) => {
                match self.pop().is_null() {
                    Some(is_null) if is_null == name.starts_with("brfalse") => Next::Jump(*target),
                    Some(_) => Next::On,
                    None => Next::Lost,
                }
            }
            ("castclass" | "isinst", _) => Next::On,
            ("unbox" | "unbox.any", _) => self.used_for(Item::Unknown),
            _ if name.starts_with("ldelem") => self.load_element(),
            _ if name.starts_with("stelem") => self.used(2),
            _ if name.starts_with("conv") || matches!(name, "neg" | "not") => {
                self.pop();
                self.push(Item::Something)
            }
            (
                "add" | "sub" | "mul" | "div" | "rem" | "and" | "or" | "xor" | "ceq" | "cgt" | "clt" | "shl"
                | "shr",
                _,
            ) => {
                self.drop_items(2);
                self.push(Item::Unknown)
            }
            _ if name.starts_with("ldc.") => self.push(Item::Something),
            _ => Next::Lost,
        }
    }

    fn push(&mut self, item: Item) -> Next {
        self.stack.push(item);
        Next::On
    }

    fn pop(&mut self) -> Item {
        self.stack.pop().unwrap_or(Item::Unknown)
    }

    fn drop_items(&mut self, count: usize) {
        self.stack.truncate(self.stack.len().saturating_sub(count));
    }

    /// Takes what is used, below so many others, off the stack.
    fn used(&mut self, below: usize) -> Next {
        self.drop_items(below);
        match self.pop() {
            Item::Read { text, seen } if seen.is_null() => Next::Found(text),
            item if item.is_null() == Some(false) => Next::On,
            _ => Next::Lost,
        }
    }

    /// The same for what stands on top, and puts what comes of it there.
    fn used_for(&mut self, made: Item) -> Next {
        match self.used(0) {
            Next::On => self.push(made),
            other => other,
        }
    }

    fn member(&self, token: Token) -> Option<Member> {
        self.frame.module.assembly()?.member(token)
    }

    fn argument(&self, number: u16) -> Item {
        let read = || {
            let method = self.frame.module.assembly()?.method(self.frame.method)?;
            let has_this = !method.is_static();
            let count = method.signature().ok()?.parameters.len();
            let name = match (has_this, number) {
                (true, 0) => "this".to_owned(),
                _ => {
                    let place = usize::from(number) - usize::from(has_this);
                    method.parameter_names(count).get(place).copied().flatten()?.to_owned()
                }
            };
            let value = self.frame.frame.as_ref()?.argument(number.into()).ok()?;
            Some(Item::Read { text: name, seen: self.session.values().see(&value).ok()? })
        };
        read().unwrap_or(Item::Unknown)
    }

    fn local(&self, number: u16) -> Item {
        if let Some(stored) = self.locals.get(&number) {
            return stored.clone();
        }
        let read = || {
            let pdb = self.frame.module.pdb()?;
            let scopes = pdb.scopes_at(self.frame.method, self.frame.offset);
            let mut variables = scopes.iter().flat_map(|scope| &scope.variables);
            let variable = variables.find(|variable| variable.slot == number)?;
            let value = self.frame.frame.as_ref()?.local_variable(number.into()).ok()?;
            Some(Item::Read { text: variable.name.to_owned(), seen: self.session.values().see(&value).ok()? })
        };
        read().unwrap_or(Item::Unknown)
    }

    fn load_field(&mut self, token: Token) -> Next {
        let (text, seen) = match self.pop() {
            Item::Read { text, seen } if seen.is_null() => return Next::Found(text),
            Item::Read { text, seen } => (text, seen),
            // A struct that a call returned, or something that may be null.
            _ => return Next::Lost,
        };
        let Some(member) = self.member(token) else { return Next::Lost };
        let value = self.session.values().field(&seen, &member.name);
        let item = value.and_then(|value| {
            let seen = self.session.values().see(&value).ok()?;
            Some(Item::Read { text: joined(&text, &member.name), seen })
        });
        self.push(item.unwrap_or(Item::Unknown))
    }

    fn load_element(&mut self) -> Next {
        let index = self.pop();
        let (text, seen) = match self.pop() {
            Item::Read { text, seen } if seen.is_null() => return Next::Found(text),
            Item::Read { text, seen } => (text, seen),
            _ => return Next::Lost,
        };
        let number = match index {
            Item::Number(number) => Some(number),
            Item::Read { seen, .. } => seen.integer(),
            _ => None,
        };
        let item = number.and_then(|number| {
            let Content::Array(array) = &seen.content else { return None };
            let value = array.element_at(u32::try_from(number).ok()?).ok()?;
            Some(Item::Read {
                text: format!("{text}[{number}]"),
                seen: self.session.values().see(&value).ok()?,
            })
        });
        self.push(item.unwrap_or(Item::Unknown))
    }

    fn call(&mut self, is_virtual: bool, token: Token) -> Next {
        let Some(member) = self.member(token) else { return Next::Lost };
        let MemberSig::Method(signature) = &member.signature else { return Next::Lost };
        self.drop_items(signature.parameters.len());
        let receiver = signature.has_this.then(|| self.pop());
        if let Some(Item::Read { text, seen }) = &receiver
            && seen.is_null()
            && is_virtual
        {
            return Next::Found(text.clone());
        }
        if receiver.as_ref().is_some_and(|receiver| is_virtual && receiver.is_null().is_none()) {
            return Next::Lost;
        }
        if matches!(signature.returns, TypeSig::Primitive(Primitive::Void)) {
            return Next::On;
        }
        let returned = receiver.and_then(|receiver| self.property(&receiver, &member.name));
        let number = matches!(&signature.returns, TypeSig::Primitive(of) if *of != Primitive::String && *of != Primitive::Object);
        self.push(returned.unwrap_or(if number { Item::Something } else { Item::Unknown }))
    }

    /// What a property returns, where it only returns a field.
    fn property(&self, receiver: &Item, method: &str) -> Option<Item> {
        let Item::Read { text, seen } = receiver else { return None };
        let name = method.strip_prefix("get_")?;
        let values = self.session.values();
        let value =
            values.field(seen, name).or_else(|| match values.returned_by_property(seen, name)? {
                Returned::Field(field) => values.field(seen, &field),
                _ => None,
            })?;
        Some(Item::Read { text: joined(text, name), seen: values.see(&value).ok()? })
    }
}

/// `a.b`, in the names of the source.
fn joined(text: &str, name: &str) -> String {
    let name = crate::values::property_of_backing_field(name).unwrap_or(name);
    let name = super::look::hoisted(name).map_or(name, |(name, _)| name);
    match (text, name) {
        (_, "<>4__this") => "this".to_owned(),
        ("this", _) => name.to_owned(),
        _ if text.starts_with("CS$<>8__locals") => name.to_owned(),
        _ => format!("{text}.{name}"),
    }
}
