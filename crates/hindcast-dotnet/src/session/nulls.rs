//! What was null when a `NullReferenceException` was thrown.
//!
//! The runtime does not say. But the statement that threw can be followed, with the values that its variables still have, up to
//! the first use of something that is null. What cannot be followed for sure, such as what a call returned, ends the search
//! without an answer.
//!
//! Code that is not optimized stands behind the last call that has returned. What is before that has not thrown, and what was
//! read there may have been something else then.

use std::{collections::HashMap, ops::Range};

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::Module2,
    image::{Instruction, Member, MemberSig, MethodBody, Operand, Primitive, Token, TypeSig},
    values::{Content, Returned, Seen, TypeInfo, returned_by},
};

/// The longest way through a statement.
const MOST_INSTRUCTIONS: usize = 500;
/// The part of the flags of a module's code that says that it is not optimized.
const NOT_OPTIMIZED: u32 = 2;

/// Something on the evaluation stack.
#[derive(Debug, Clone)]
enum Item {
    /// It was read, and is called this in the source.
    Read { text: String, seen: Seen, from: Source },
    /// A number.
    Number(i64),
    /// It is not null.
    Something,
    /// Nobody knows.
    Unknown,
}

/// Where something was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Argument(u16),
    Local(u16),
    /// Where calls and stores may change it.
    Memory,
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
    body: &'s MethodBody<'s>,
    /// Where the instruction begins that is followed.
    at: u32,
    stack: Vec<Item>,
    /// What was stored on the way.
    stored: HashMap<Source, Item>,
    /// Whether the way depends on what a later call may have changed.
    is_chosen: bool,
}

impl Session {
    /// What was null in the statement that a frame stands in, as the source calls it.
    pub(super) fn null_in(&self, frame: &ManagedFrame) -> Option<String> {
        let method = frame.module.assembly()?.method(frame.method)?;
        let body = method.body().ok()??;
        let statement = frame.module.pdb()?.statement_at(frame.method, frame.offset)?.il;
        let mut search = Search {
            session: self,
            frame,
            body: &body,
            at: statement.start,
            stack: Vec::new(),
            stored: HashMap::new(),
            is_chosen: false,
        };
        let found = search.follow(&statement)?;
        let control = frame.module.module.cast::<Module2>();
        let is_exact =
            control.and_then(|module| module.jit_compiler_flags().ok()).unwrap_or(0) & NOT_OPTIMIZED != 0;
        (is_exact || search.is_last(&statement)).then_some(found)
    }
}

impl Search<'_> {
    fn follow(&mut self, statement: &Range<u32>) -> Option<String> {
        for _ in 0..MOST_INSTRUCTIONS {
            if !statement.contains(&self.at) {
                return None;
            }
            let instruction = self.body.instruction_at(self.at)?;
            match self.execute(&instruction) {
                Next::On => self.at = instruction.end,
                Next::Jump(target) => self.at = target,
                Next::Found(text) => return Some(text),
                Next::Lost => return None,
            }
        }
        None
    }

    /// Whether the frame stands behind the instruction, which so has not thrown.
    fn is_passed(&self) -> bool {
        self.at < self.frame.offset
    }

    /// Whether nothing behind a use of null can have thrown after it changed what was used.
    fn is_last(&self, statement: &Range<u32>) -> bool {
        let rest = self.body.instructions().filter_map(Result::ok);
        let mut rest = rest.filter(|it| it.offset >= self.at && statement.contains(&it.offset));
        let changes = |name: &str| name.starts_with("call") || name == "newobj" || name.starts_with("st");
        let uses = |name: &str| {
            ["callvirt", "ldfld", "ldlen", "ldelem", "ldind", "ldobj", "st", "throw", "unbox"]
                .iter()
                .any(|it| name.starts_with(it))
        };
        !(rest.any(|it| changes(it.name)) && rest.any(|it| uses(it.name) && !it.name.starts_with("stloc")))
    }

    fn execute(&mut self, instruction: &Instruction<'_>) -> Next {
        let name = instruction.name;
        match (name, &instruction.operand) {
            ("nop" | "volatile." | "readonly." | "constrained.", _) => Next::On,
            (_, Operand::Argument(number)) if name.starts_with("ldarg") => self.push(self.argument(*number)),
            (_, Operand::Local(number)) if name.starts_with("ldloc") => self.push(self.local(*number)),
            (_, Operand::Local(number)) if name.starts_with("stloc") => self.store(Source::Local(*number)),
            (_, Operand::Argument(number)) if name.starts_with("starg") => {
                self.store(Source::Argument(*number))
            }
            ("ldfld" | "ldflda", Operand::Token(token)) => self.load_field(*token),
            ("ldsfld", Operand::Token(_)) => self.push(Item::Unknown),
            ("stfld", _) => self.used_by_store(1),
            ("ldlen", _) => self.used_for(Item::Something),
            ("throw", _) => match self.used(0) {
                Next::Found(text) => Next::Found(text),
                // What is there is thrown, and nothing follows.
                _ => Next::Lost,
            },
            ("call" | "callvirt", Operand::Token(token)) => self.call(name == "callvirt", *token),
            ("newobj", Operand::Token(token)) => {
                let Some(Member { signature: MemberSig::Method(signature), .. }) = self.member(*token) else {
                    return Next::Lost;
                };
                self.drop_items(signature.parameters.len());
                match self.changed() {
                    Next::On if self.is_passed() => self.push(Item::Something),
                    _ => Next::Lost,
                }
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
                let item = self.pop();
                self.is_chosen |= matches!(item, Item::Read { from: Source::Memory, .. });
                match item.is_null() {
                    Some(is_null) if is_null == name.starts_with("brfalse") => Next::Jump(*target),
                    Some(_) => Next::On,
                    None => Next::Lost,
                }
            }
            ("castclass", _) => Next::On,
            ("isinst", _) => {
                // What is of another type becomes null.
                let item = self.pop();
                self.push(if item.is_null() == Some(true) { item } else { Item::Unknown })
            }
            ("unbox" | "unbox.any", Operand::Token(token)) => self.unbox(*token),
            _ if name.starts_with("ldelem") => self.load_element(),
            _ if name.starts_with("stelem") => self.used_by_store(2),
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
            item if self.is_passed() || item.is_null() == Some(false) => Next::On,
            Item::Read { text, seen, .. } if seen.is_null() => Next::Found(text),
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

    /// The same for what something is stored in.
    fn used_by_store(&mut self, below: usize) -> Next {
        match self.used(below) {
            Next::On => self.changed(),
            other => other,
        }
    }

    /// A variable gets another value, so that what it was is not what it is now.
    fn store(&mut self, to: Source) -> Next {
        let item = self.pop();
        self.forget(to);
        self.stored.insert(to, item);
        Next::On
    }

    /// A call or a store may have changed everything in memory.
    fn changed(&mut self) -> Next {
        self.forget(Source::Memory);
        if self.is_chosen { Next::Lost } else { Next::On }
    }

    fn forget(&mut self, changed: Source) {
        for item in self.stack.iter_mut().chain(self.stored.values_mut()) {
            if matches!(item, Item::Read { from, .. } if *from == changed) {
                *item = Item::Unknown;
            }
        }
    }

    /// Null is no value of a struct, but may be one of other types.
    fn unbox(&mut self, token: Token) -> Next {
        let module = &self.frame.module;
        let signature = module.assembly().and_then(|assembly| assembly.type_sig(token));
        let of = signature.and_then(|of| self.session.type_of_signature(module, &of, &[], &[]));
        let is_struct = of.is_some_and(|of| of.is_value_type() && !of.is_named("System.Nullable`1"));
        match self.used_for(Item::Unknown) {
            Next::Found(_) if !is_struct => Next::Lost,
            next => next,
        }
    }

    fn member(&self, token: Token) -> Option<Member> {
        self.frame.module.assembly()?.member(token)
    }

    /// Whether the method takes the address of a variable, through which calls may change it.
    fn source(&self, own: Source) -> Source {
        let is_it = |instruction: Instruction<'_>| match (instruction.name, instruction.operand) {
            ("ldarga" | "ldarga.s", Operand::Argument(number)) => own == Source::Argument(number),
            ("ldloca" | "ldloca.s", Operand::Local(number)) => own == Source::Local(number),
            _ => false,
        };
        if self.body.instructions().filter_map(Result::ok).any(is_it) { Source::Memory } else { own }
    }

    fn argument(&self, number: u16) -> Item {
        if let Some(stored) = self.stored.get(&Source::Argument(number)) {
            return stored.clone();
        }
        let from = self.source(Source::Argument(number));
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
            Some(Item::Read { text: name, seen: self.session.values().see(&value).ok()?, from })
        };
        read().unwrap_or(Item::Unknown)
    }

    fn local(&self, number: u16) -> Item {
        if let Some(stored) = self.stored.get(&Source::Local(number)) {
            return stored.clone();
        }
        let from = self.source(Source::Local(number));
        let read = || {
            let pdb = self.frame.module.pdb()?;
            let scopes = pdb.scopes_at(self.frame.method, self.frame.offset);
            let mut variables = scopes.iter().flat_map(|scope| &scope.variables);
            let variable = variables.find(|variable| variable.slot == number)?;
            let value = self.frame.frame.as_ref()?.local_variable(number.into()).ok()?;
            let seen = self.session.values().see(&value).ok()?;
            Some(Item::Read { text: variable.name.to_owned(), seen, from })
        };
        read().unwrap_or(Item::Unknown)
    }

    /// What something is read from, off the stack.
    fn holder(&mut self) -> Result<(String, Seen), Next> {
        match self.pop() {
            Item::Read { text, seen, .. } if !seen.is_null() => Ok((text, seen)),
            _ if self.is_passed() => Err(self.push(Item::Unknown)),
            Item::Read { text, .. } => Err(Next::Found(text)),
            // A struct that a call returned, or something that may be null.
            _ => Err(Next::Lost),
        }
    }

    fn load_field(&mut self, token: Token) -> Next {
        let (text, seen) = match self.holder() {
            Ok(holder) => holder,
            Err(next) => return next,
        };
        let Some(member) = self.member(token) else { return Next::Lost };
        let values = self.session.values();
        let declared = self.declaring(&seen, &member);
        let field = declared.and_then(|of| values.field_of(&seen, &of, &member.name));
        let item = field.and_then(|(_, _, value)| {
            let seen = values.see(&value).ok()?;
            Some(Item::Read { text: joined(&text, &member.name), seen, from: Source::Memory })
        });
        self.push(item.unwrap_or(Item::Unknown))
    }

    /// The type of an object that an instruction names with a member.
    fn declaring(&self, seen: &Seen, member: &Member) -> Option<TypeInfo> {
        let name = self.declaring_name(member)?;
        self.session.values().as_defined(seen, |of| of.is_named(&name))
    }

    fn declaring_name(&self, member: &Member) -> Option<String> {
        let assembly = self.frame.module.assembly()?;
        assembly.type_full_name(assembly.type_sig(member.declaring_type?)?.definition()?)
    }

    fn load_element(&mut self) -> Next {
        let index = self.pop();
        let (text, seen) = match self.holder() {
            Ok(holder) => holder,
            Err(next) => return next,
        };
        let number = match index {
            Item::Number(number) => Some(number),
            Item::Read { seen, .. } => seen.integer(),
            _ => None,
        };
        let item = number.and_then(|number| {
            let Content::Array(array) = &seen.content else { return None };
            let value = array.element_at(u32::try_from(number).ok()?).ok()?;
            let seen = self.session.values().see(&value).ok()?;
            Some(Item::Read { text: format!("{text}[{number}]"), seen, from: Source::Memory })
        });
        self.push(item.unwrap_or(Item::Unknown))
    }

    fn call(&mut self, is_virtual: bool, token: Token) -> Next {
        let Some(member) = self.member(token) else { return Next::Lost };
        let MemberSig::Method(signature) = &member.signature else { return Next::Lost };
        self.drop_items(signature.parameters.len());
        let receiver = signature.has_this.then(|| self.pop());
        if let Some(receiver) = receiver.as_ref().filter(|_| is_virtual && !self.is_passed()) {
            match receiver {
                Item::Read { text, seen, .. } if seen.is_null() => return Next::Found(text.clone()),
                _ if receiver.is_null() != Some(false) => return Next::Lost,
                _ => {}
            }
        }
        let number = matches!(&signature.returns, TypeSig::Primitive(of) if *of != Primitive::String && *of != Primitive::Object);
        let returned = if number { Item::Something } else { Item::Unknown };
        let read = receiver.and_then(|receiver| self.property(&receiver, &member));
        if let Some(read) = read {
            return self.push(read);
        }
        if !self.is_harmless(&member) {
            // Had it returned, the frame would stand behind it.
            if !self.is_passed() {
                return Next::Lost;
            }
            if let Next::Lost = self.changed() {
                return Next::Lost;
            }
        }
        match signature.returns {
            TypeSig::Primitive(Primitive::Void) => Next::On,
            _ => self.push(returned),
        }
    }

    /// What a property returns, where it only returns a field.
    fn property(&self, receiver: &Item, member: &Member) -> Option<Item> {
        let Item::Read { text, seen, .. } = receiver else { return None };
        let name = member.name.strip_prefix("get_")?;
        let values = self.session.values();
        let declared = self.declaring(seen, member)?;
        let getter = declared.definition.as_ref()?.type_def()?.property_named(name)?.getter()?;
        let (of, token) =
            values.overrider(seen, &declared, getter).unwrap_or_else(|| (declared.clone(), getter.token()));
        match returned_by(of.definition.as_ref()?.module.assembly()?.method(token)?)? {
            Returned::Field(field) => {
                let (_, _, value) = values.field_of(seen, &of, &field)?;
                let seen = values.see(&value).ok()?;
                Some(Item::Read { text: joined(text, name), seen, from: Source::Memory })
            }
            Returned::Constant(_) => Some(Item::Something),
        }
    }

    /// Whether a method of the framework changes nothing that a program can read.
    fn is_harmless(&self, member: &Member) -> bool {
        let of = self.declaring_name(member);
        match of.as_deref() {
            Some("System.String") => {
                matches!(member.name.as_str(), "get_Length" | "get_Chars" | "op_Equality" | "op_Inequality")
            }
            Some("System.Collections.Generic.List`1") => {
                matches!(member.name.as_str(), "get_Count" | "get_Item")
            }
            Some("System.Nullable`1") => true,
            _ => false,
        }
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
