//! Reading and compiling schemas.

use std::sync::{Arc, Mutex, PoisonError};

use xsd_schema::{
    EmbeddedLoader, LoaderChain, ResolverConfig, SchemaError as Refused, SchemaLoader, SchemaResolver,
    SchemaSetBuilder, XsdVersion,
};

use super::{Schema, SchemaError, SchemaFiles, plain::Plans};
use crate::{
    error::{Position, XmlError},
    read::{Limits, read},
    tree::{Document, NodeId},
    xpath::NodeRef,
};

const VERSIONING: &str = "http://www.w3.org/2007/XMLSchema-versioning";

/// Files of a schema, together with those they name.
const MOST_FILES: usize = 1000;

/// Bytes of all files of a schema together.
const MOST_BYTES: usize = 16 << 20;

pub(super) fn load(location: &str, files: Arc<dyn SchemaFiles>) -> Result<Schema, SchemaError> {
    let record = Arc::new(Mutex::new(Record::default()));
    let loader = Loader { files, record };
    let wants_newer = wants_newer(&loader, location)?;
    if wants_newer {
        return compile(location, &loader, XsdVersion::V1_1);
    }
    let older = compile(location, &loader, XsdVersion::V1_0);
    let Err(problem) = older else { return older };
    // What 1.0 refuses may be fine in 1.1; if not, the schema is told by the rules it was most likely written for.
    compile(location, &loader, XsdVersion::V1_1).map_err(|newer| {
        let is_newer_kind =
            matches!(&problem, SchemaError::Invalid { problem, .. } if problem.contains("XSD 1.1"));
        if is_newer_kind { newer } else { problem }
    })
}

/// Whether the schema itself says that it needs 1.1.
fn wants_newer(loader: &Loader, location: &str) -> Result<bool, SchemaError> {
    let document = loader.document(location).map_err(|problem| problem.into_error(location))?;
    let root = document.root();
    Ok(document.attributes_of(root).any(|number| {
        let attribute = document.attributes[number];
        let name = document.names.parts(attribute.name);
        document.string(name.namespace) == VERSIONING
            && document.string(name.local) == "minVersion"
            && document.characters(attribute.value).trim().parse::<f64>().is_ok_and(|version| version >= 1.1)
    }))
}

fn compile(location: &str, loader: &Loader, version: XsdVersion) -> Result<Schema, SchemaError> {
    loader.reset();
    let mut chain = LoaderChain::new();
    chain.add(Box::new(EmbeddedLoader::new()));
    chain.add(Box::new(loader.clone()));
    let mut resolver = SchemaResolver::with_config_and_loader(ResolverConfig::default(), Box::new(chain));
    resolver.catalog_mut().add_xml_catalog();
    let mut builder = SchemaSetBuilder::with_resolver(resolver, version);
    builder.try_add(location).map_err(|refused| loader.explain(refused))?;
    let compiled = builder.compile().map_err(|refused| loader.explain(refused))?;
    // An import that leads nowhere shows only when something from there is used; say it at once.
    if let Some(failure) = compiled.directive_failures().iter().find(|failure| !failure.namespace_supplied())
    {
        let named = failure.schema_location().unwrap_or_default();
        return Err(loader.unreachable(named).unwrap_or_else(|| SchemaError::Unreachable {
            location: named.to_owned(),
            problem: failure.error().to_string(),
        }));
    }
    // A type that is not there would otherwise show only when an element of it comes along.
    let set = compiled.into_schema_set();
    if let Some(missing) =
        set.arenas.elements.values().find_map(|element| element.deferred_type_error.as_ref())
    {
        let problem = format!("{} (src-resolve)", missing.message);
        return Err(SchemaError::Invalid { problem, file: Some(location.to_owned()), position: None });
    }
    let record = loader.record();
    let plain = Plans::new(&set);
    Ok(Schema { set, plain, version, sources: record.read.clone(), source_bytes: record.bytes })
}

/// What was read for a schema, and what could not be.
#[derive(Debug, Default)]
struct Record {
    read: Vec<String>,
    bytes: usize,
    failed: Vec<(String, Failed)>,
}

#[derive(Debug, Clone)]
enum Failed {
    Unreachable(String),
    NotXml(XmlError),
}

impl Failed {
    fn into_error(self, location: &str) -> SchemaError {
        match self {
            Self::Unreachable(problem) => SchemaError::Unreachable { location: location.into(), problem },
            Self::NotXml(error) => {
                let position = match &error {
                    XmlError::NotWellFormed { position, .. } | XmlError::Limit { position, .. } => {
                        Some(*position)
                    }
                    XmlError::Encoding(_) => None,
                };
                SchemaError::Invalid {
                    problem: format!("it is not well-formed XML: {error}"),
                    file: Some(location.into()),
                    position,
                }
            }
        }
    }
}

/// Gives the schema compiler its files, through our own reader: any encoding, entities bounded, nothing from outside.
#[derive(Debug, Clone)]
struct Loader {
    files: Arc<dyn SchemaFiles>,
    record: Arc<Mutex<Record>>,
}

impl Loader {
    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self) {
        *self.record() = Record::default();
    }

    fn document(&self, location: &str) -> Result<Document, Failed> {
        let bytes = self.files.read(location).map_err(Failed::Unreachable)?;
        let text = crate::encoding::decode(bytes).map_err(Failed::NotXml)?;
        read(text, &Limits { depth: 256, ..Limits::default() }).map_err(Failed::NotXml)
    }

    /// The error behind a refusal: the compiler only passes on that a file could not be loaded.
    fn explain(&self, refused: Refused) -> SchemaError {
        let failed = self.record().failed.first().cloned();
        if let (
            Some((location, failed)),
            Refused::ResolutionError { .. } | Refused::XmlError { .. } | Refused::IoError(_),
        ) = (failed, &refused)
        {
            return failed.into_error(&location);
        }
        if let Refused::LimitExceeded { .. } = refused {
            return SchemaError::GivenUp(refused.to_string());
        }
        let position = refused
            .location()
            .map(|location| Position { line: location.line as u32, column: location.column as u32 });
        let file = refused.location().map(|location| location.base_uri.clone());
        let problem = match &refused {
            Refused::StructuralError { constraint, message, .. } => format!("{message} ({constraint})"),
            Refused::NamespaceError { message, .. } | Refused::XmlError { message, .. } => message.clone(),
            Refused::FeatureError { message, .. } => format!("{message} (a feature of XSD 1.1)"),
            other => other.to_string(),
        };
        SchemaError::Invalid { problem, file, position }
    }

    fn unreachable(&self, named: &str) -> Option<SchemaError> {
        let record = self.record();
        let (location, failed) = record.failed.iter().find(|(location, _)| location.ends_with(named))?;
        Some(failed.clone().into_error(location))
    }
}

impl SchemaLoader for Loader {
    fn load(&self, location: &str) -> Result<String, Refused> {
        let location = location.strip_prefix("file://").unwrap_or(location);
        match self.document(location) {
            Ok(document) => {
                let mut record = self.record();
                record.bytes += document.text.len();
                record.read.push(location.to_owned());
                if record.read.len() > MOST_FILES || record.bytes > MOST_BYTES {
                    return Err(Refused::resolution("the schema consists of too many or too large files"));
                }
                // The compiler does not know entities: where there may be some, it gets what they stand for.
                let needs_rewriting = document.text.contains("<!DOCTYPE");
                Ok(if needs_rewriting {
                    crate::serialize::serialize(&document, NodeRef::node(NodeId::DOCUMENT), usize::MAX).0
                } else {
                    document.text
                })
            }
            Err(failed) => {
                let said = match &failed {
                    Failed::Unreachable(problem) => problem.clone(),
                    Failed::NotXml(error) => error.to_string(),
                };
                self.record().failed.push((location.to_owned(), failed));
                Err(Refused::resolution(said))
            }
        }
    }

    fn can_load(&self, location: &str) -> bool {
        !location.starts_with("embedded://")
    }
}
