//! Documentation of installed libraries: docstrings of Python packages, and what rustdoc writes as JSON.

use std::process::Command;

use hindcast_extract::{ExtractError, Format, chunk, extract};

use crate::{documents, files};

/// Prints the docstrings of a module's public definitions as Python itself finds them, separated by NUL.
const ORACLE: &str = r#"
import ast, sys
def walk(node):
    docstring = ast.get_docstring(node)
    if docstring and docstring.strip():
        print(docstring.strip(), end='\0')
    members(node)
def members(node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if child.name.startswith('_') and not child.name.startswith('__'):
                continue
            if isinstance(child, ast.ClassDef):
                walk(child)
            else:
                docstring = ast.get_docstring(child)
                if docstring and docstring.strip():
                    print(docstring.strip(), end='\0')
        elif isinstance(child, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)):
            members(child)
walk(ast.parse(open(sys.argv[1]).read()))
"#;

/// White space apart, and escapes, which we show as they are written.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !word.contains('\\')).collect()
}

#[test]
fn docstrings_are_those_that_python_finds() {
    let Some(folder) = documents() else { return };
    let python = folder.parent().unwrap().join("python");
    let packages = ["click", "anyio"].map(|name| {
        files(&python.join("lib"), "").into_iter().filter(move |path| {
            let path = path.to_str().unwrap_or_default();
            path.contains(&format!("site-packages/{name}/")) && path.ends_with(".py")
        })
    });
    let modules: Vec<_> = packages.into_iter().flatten().collect();
    assert!(modules.len() > 10, "{modules:?}");
    let mut compared = 0;
    for path in modules {
        let output =
            Command::new(python.join("bin/python")).args(["-c", ORACLE]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = String::from_utf8(output.stdout).unwrap();
        let expected: Vec<_> = expected.split('\0').filter(|docstring| !docstring.is_empty()).collect();
        let source = std::fs::read(&path).unwrap();
        let text = match extract(Format::Docstrings, &source) {
            Ok(extracted) => extracted.text.unwrap(),
            Err(error) => {
                assert!(matches!(error, ExtractError::NoDocstrings | ExtractError::Empty), "{error}");
                String::new()
            }
        };
        let said = words(&text).join(" ");
        for docstring in &expected {
            let docstring = words(docstring).join(" ");
            assert!(said.contains(&docstring), "{}: {docstring}\n{text}", path.display());
        }
        assert_eq!(text.is_empty(), expected.is_empty(), "{}", path.display());
        compared += expected.len();
    }
    assert!(compared > 200, "{compared}");
}

const CRATE: &str = r#"
//! Herons and where they stand.

/// Shallow waters.
pub mod lakes {
    /// A lake with herons.
    pub struct Lake {
        /// How deep it is, in metres.
        pub depth: f64,
        hidden: u8,
    }
    impl Lake {
        /// Counts the herons that stand in it.
        ///
        /// # Panics
        /// Never.
        pub fn herons(&self) -> usize { usize::from(self.hidden) }
        pub fn undocumented(&self) {}
    }
    impl Clone for Lake { fn clone(&self) -> Self { Lake { ..*self } } }
    /// What a heron does.
    pub enum Deed {
        /// It waits for a fish.
        Wait,
    }
}
pub use lakes::Lake;
/// Flies away.
pub fn fly() {}
mod private {
    /// Nobody sees this.
    pub fn unseen() {}
}
"#;

#[test]
fn items_of_a_crate_stand_under_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("herons.rs");
    std::fs::write(&source, CRATE).unwrap();
    let output = Command::new("rustdoc")
        // JSON is not stable yet; whoever has such files made them so, or with a nightly compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .args([
            "-Z",
            "unstable-options",
            "--output-format",
            "json",
            "--edition",
            "2021",
            "--crate-version",
            "1.2.3",
            "-o",
        ])
        .arg(folder.path())
        .arg(&source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(folder.path().join("herons.json")).unwrap();
    let format = Format::of_name("herons.json").unwrap().of_content(&bytes);
    assert_eq!(format, Format::Rustdoc);
    let extracted = extract(format, &bytes).unwrap();
    assert_eq!(extracted.title.as_deref(), Some("herons 1.2.3"));
    assert_eq!(extracted.tags, ["herons@1.2.3"]);
    let text = extracted.text.clone().unwrap();
    let chunks: Vec<_> = chunk(format, &text, &extracted)
        .unwrap()
        .into_iter()
        .map(|chunk| (chunk.headings.join(" › "), &text[chunk.range]))
        .collect();
    for (headings, said) in [
        ("herons", "Herons and where they stand."),
        ("herons › fn herons::fly", "Flies away."),
        ("herons::lakes", "Shallow waters."),
        ("herons::lakes › enum herons::lakes::Deed › variant Deed::Wait", "It waits for a fish."),
    ] {
        let found = chunks.iter().find(|(known, _)| known == headings);
        assert!(found.is_some_and(|(_, text)| text.ends_with(said)), "{headings}: {chunks:#?}");
    }
    let of_lake = chunks.iter().filter(|(headings, _)| headings.contains("::Lake")).collect::<Vec<_>>();
    assert_eq!(of_lake.len(), 3, "what is exported twice is told once, without traits: {of_lake:#?}");
    assert!(of_lake.iter().any(|(_, text)| text.contains("# Panics\nNever.")), "{of_lake:#?}");
    assert!(!text.contains("Nobody sees") && !text.contains("undocumented"), "{text}");
}

#[test]
fn broken_json_of_rustdoc_is_refused() {
    for broken in [
        "",
        "{",
        "{\"root\":1}",
        "{\"root\":1,\"index\":{\"1\":{\"inner\":{\"module\":{\"items\":[1,1,2]}}}}}",
        "[]",
    ] {
        let read = extract(Format::Rustdoc, broken.as_bytes());
        assert!(read.is_err(), "{broken}: {read:?}");
    }
    assert_eq!(Format::Json.of_content(b"{\"root\": 1}"), Format::Json);
}
