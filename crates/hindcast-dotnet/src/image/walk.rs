//! Asks a file everything that can be asked, for tests and fuzzers. Not part of what the crate offers.

use super::{
    Assembly, Field, ImageError, Member, MemberSig, Method, MethodBody, Operand, Pdb, Spelling, Table, Token,
    TypeDef, TypeNames, TypeSig,
};

/// How much a file that is made to be slow is asked: each step is a row, an instruction or a point.
const STEPS: u64 = 60_000_000;
/// What embedded PDBs may inflate to.
const PDB_LIMIT: usize = 64 << 20;

/// What was found, and what could not be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Walked {
    pub types: u64,
    pub fields: u64,
    pub methods: u64,
    pub properties: u64,
    pub events: u64,
    pub signatures: u64,
    pub attributes: u64,
    pub bodies: u64,
    pub instructions: u64,
    pub documents: u64,
    pub points: u64,
    pub locals: u64,
    pub embedded_pdbs: u64,
    /// What made no sense, and where; the first few.
    pub errors: Vec<String>,
    pub error_count: u64,
    steps: u64,
}

/// Reads all of an assembly or a portable PDB. An error is the file's; whatever is wrong inside is counted.
pub fn walk_everything(bytes: &[u8]) -> Result<Walked, ImageError> {
    let mut walked = Walked::default();
    match Assembly::parse(bytes) {
        Ok(assembly) => walked.assembly(&assembly),
        Err(ImageError::PortablePdb) => walked.pdb(&Pdb::parse(bytes)?),
        Err(error) => return Err(error),
    }
    Ok(walked)
}

impl Walked {
    fn error(&mut self, at: &dyn std::fmt::Display, error: &dyn std::fmt::Debug) {
        self.error_count += 1;
        if self.errors.len() < 8 {
            self.errors.push(format!("{at}: {error:?}"));
        }
    }

    fn keep<T>(&mut self, at: Token, result: Result<T, ImageError>) -> Option<T> {
        result.map_err(|error| self.error(&at, &error)).ok()
    }

    fn need<T>(&mut self, at: Token, what: &'static str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.error(&at, &what);
        }
        value
    }

    /// Whether there is time for another step.
    fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= STEPS
    }

    fn assembly(&mut self, assembly: &Assembly) {
        let _ = (assembly.name(), assembly.version(), assembly.module_name(), assembly.mvid());
        let _ = (assembly.metadata_version(), assembly.entry_point(), assembly.target_framework());
        let _ = (assembly.check_64_bit(), assembly.is_precompiled(), assembly.is_reproducible());
        let _ = (assembly.code_view(), assembly.pdb_checksums(), assembly.references().count());
        let _ = (assembly.resource_names().count(), assembly.forwarded_types().count());
        let _ = (assembly.forwarded_to("System.Object"), assembly.disables_optimizations());
        for definition in assembly.types() {
            if !self.step() {
                return;
            }
            self.type_def(assembly, definition);
        }
        self.references(assembly);
        self.all_attributes(assembly);
        match assembly.embedded_pdb(PDB_LIMIT) {
            Ok(Some(bytes)) => {
                self.embedded_pdbs += 1;
                match Pdb::parse(bytes) {
                    Ok(pdb) => self.pdb(&pdb),
                    Err(error) => self.error(&"the embedded PDB", &error),
                }
            }
            Ok(None) => {}
            Err(error) => self.error(&"the embedded PDB", &error),
        }
    }

    fn type_def(&mut self, assembly: &Assembly, definition: TypeDef<'_>) {
        self.types += 1;
        let token = definition.token();
        if let Some(name) = self.need(token, "no name", definition.full_name())
            && assembly.type_named(&name).is_none()
        {
            self.error(&token, &"not found by its name");
        }
        let _ = (definition.kind(), definition.display_name(Spelling::Short), definition.enum_type());
        let _ = (definition.interfaces(), definition.base().map(|base| assembly.type_full_name(base)));
        for field in definition.fields() {
            if !self.step() {
                return;
            }
            self.field(field, definition);
        }
        for method in definition.methods() {
            if !self.step() {
                return;
            }
            self.method(method, definition);
        }
        for property in definition.properties() {
            if !self.step() {
                return;
            }
            self.properties += 1;
            let token = property.token();
            self.need(token, "no name", property.name());
            if let Some(signature) = self.keep(token, property.signature()) {
                self.sig(&signature.returns, &definition);
            }
            let _ = (property.getter(), property.setter(), property.declaring_type());
        }
        for event in definition.events() {
            if !self.step() {
                return;
            }
            self.events += 1;
            self.need(event.token(), "no name", event.name());
            let _ = (event.adder(), event.remover(), event.handler_type(), event.declaring_type());
        }
    }

    fn sig(&mut self, sig: &TypeSig, names: &dyn TypeNames) {
        self.signatures += 1;
        if sig.display(names).is_empty() {
            self.error(&"a type", &"no name");
        }
    }

    fn field(&mut self, field: Field<'_>, parent: TypeDef<'_>) {
        self.fields += 1;
        self.need(field.token(), "no name", field.name());
        if let Some(sig) = self.keep(field.token(), field.signature()) {
            self.sig(&sig, &parent);
        }
        if field.is_literal() {
            self.need(field.token(), "no constant", field.constant());
        }
        if field.declaring_type().map(|owner| owner.token()) != Some(parent.token()) {
            self.error(&field.token(), &"another owner");
        }
    }

    fn method(&mut self, method: Method<'_>, parent: TypeDef<'_>) {
        self.methods += 1;
        let token = method.token();
        self.need(token, "no name", method.name());
        if method.declaring_type().map(|owner| owner.token()) != Some(parent.token()) {
            self.error(&token, &"another owner");
        }
        if let Some(signature) = self.keep(token, method.signature()) {
            let _ = method.parameter_names(signature.parameters.len());
            self.sig(&signature.returns, &method);
            for parameter in &signature.parameters {
                self.sig(parameter, &method);
            }
        }
        if let Some(Some(body)) = self.keep(token, method.body()) {
            self.body(method, &body);
        }
    }

    fn body(&mut self, method: Method<'_>, body: &MethodBody<'_>) {
        self.bodies += 1;
        let assembly = method.assembly();
        if let Some(locals) =
            body.local_signature.and_then(|token| self.keep(token, assembly.local_types(token)))
        {
            for local in locals {
                self.sig(&local, &method);
            }
        }
        for instruction in body.instructions() {
            if !self.step() {
                return;
            }
            self.instructions += 1;
            let Some(instruction) = self.keep(method.token(), instruction) else { return };
            match instruction.operand {
                Operand::Token(token) if token.0 >> 24 == 0x70 => {
                    self.need(token, "no string", assembly.user_string(token));
                }
                Operand::Targets(targets) => {
                    let _ = targets.iter().count();
                }
                _ => {}
            }
        }
    }

    fn references(&mut self, assembly: &Assembly) {
        for token in [Table::TypeRef, Table::TypeSpec, Table::ExportedType]
            .into_iter()
            .flat_map(|table| rows(assembly, table))
        {
            if !self.step() {
                return;
            }
            if token.table() == Some(Table::TypeSpec) {
                if let Some(sig) = self.keep(token, assembly.type_spec(token)) {
                    self.sig(&sig, assembly);
                }
            } else {
                self.need(token, "no name", assembly.type_full_name(token));
                let _ = assembly.type_ref_assembly(token);
            }
        }
        for token in [Table::MemberRef, Table::MethodSpec].into_iter().flat_map(|table| rows(assembly, table))
        {
            if !self.step() {
                return;
            }
            self.need(token, "no name", assembly.member_name(token));
            if let Some(Member { signature: MemberSig::Method(signature), .. }) = assembly.member(token) {
                self.sig(&signature.returns, assembly);
            }
        }
    }

    fn all_attributes(&mut self, assembly: &Assembly) {
        for table in (0..=0x2c).filter_map(Table::from_number) {
            for owner in rows(assembly, table) {
                for attribute in assembly.attributes(owner) {
                    if !self.step() {
                        return;
                    }
                    self.attributes += 1;
                    self.need(owner, "an attribute without a name", attribute.type_name());
                    self.keep(owner, attribute.arguments());
                }
            }
        }
    }

    fn pdb(&mut self, pdb: &Pdb) {
        let _ = (
            pdb.id(),
            pdb.entry_point(),
            pdb.source_link(),
            pdb.default_namespace(),
            pdb.compilation_options(),
        );
        for document in pdb.documents() {
            if !self.step() {
                return;
            }
            self.documents += 1;
            let token = Token::new(Table::Document, document.number());
            if let Some(path) = self.need(token, "no path", document.path())
                && self.documents < 64
            {
                let _ = pdb.documents_matching(&path);
            }
            let _ = (document.language(), document.matches(b""), pdb.methods_in(document).len());
            self.keep(token, document.embedded_source());
        }
        for method in pdb.methods() {
            if !self.step() {
                return;
            }
            self.debug_information(pdb, method);
        }
    }

    fn debug_information(&mut self, pdb: &Pdb, method: Token) {
        let points = self.keep(method, pdb.sequence_points(method)).unwrap_or_default();
        self.points += points.len() as u64;
        self.steps += points.len() as u64;
        for point in points.iter().take(4) {
            let _ = pdb.statement_at(method, point.il);
            if let (Some(document), Some(span)) = (pdb.document(point.document), point.span) {
                let places = pdb.breakpoint_places(document, span.start_line, |_| false);
                self.need(method, "a line without places", places);
                let _ = pdb.places_of_line(document, span.start_line + 1);
                let _ = pdb.method_lines(document, method);
            }
        }
        for scope in pdb.scopes(method) {
            self.steps += (scope.variables.len() + scope.constants.len()) as u64;
            self.locals += (scope.variables.len() + scope.constants.len()) as u64;
            for token in scope.variables.iter().map(|variable| variable.token) {
                let _ = (pdb.tuple_element_names(token), pdb.dynamic_flags(token));
            }
            for constant in scope.constants {
                self.need(constant.token, "no value", constant.value.map(|value| value.to_string()));
            }
        }
        self.keep(method, pdb.async_stepping(method));
        self.keep(method, pdb.hoisted_scopes(method));
        let _ = (pdb.imports(method), pdb.local_signature(method), pdb.scopes_at(method, 1));
        let _ = (pdb.kickoff_method(method), pdb.move_next_method(method));
    }
}

fn rows(assembly: &Assembly, table: Table) -> impl Iterator<Item = Token> + use<> {
    (1..=assembly.row_count(table)).map(move |row| Token::new(table, row))
}
