//! Command lines of Java: classes, archives, and sources that are compiled first.

use std::path::{Path, PathBuf};

use super::spelling::Spelled;

/// Options that have a value behind them.
const VALUED: [&str; 9] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--add-modules",
    "--add-opens",
    "--add-exports",
    "--add-reads",
];

/// Takes apart what is launched: a file, or `java` with its arguments.
pub(super) fn java(program: &Path, is_java: bool, args: &[String], java: Option<String>) -> Spelled {
    let named = program.display().to_string();
    if !is_java {
        return of_file(program, Vec::new(), args, java);
    }
    let mut options = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-jar" | "-m" | "--module" => {
                let runs = words.next().cloned();
                // The class of a module may be told behind it.
                let class = runs.as_deref().and_then(|runs| runs.split_once('/')).map(|(_, class)| class);
                let entry = class.filter(|_| word != "-jar").map(|class| format!("{class}.main"));
                options.push(word.clone());
                options.extend(runs);
                let (interpreter, args) = (Some(named), words.cloned().collect());
                return Spelled { interpreter, interpreter_args: options, args, entry, ..Spelled::default() };
            }
            valued if VALUED.contains(&valued) => {
                options.push(word.clone());
                options.extend(words.next().cloned());
            }
            option if option.starts_with('-') => options.push(word.clone()),
            _ => {
                let rest: Vec<_> = words.cloned().collect();
                return of_file(Path::new(word), options, &rest, Some(named));
            }
        }
    }
    Spelled { interpreter: Some(named), interpreter_args: options, ..Spelled::default() }
}

fn of_file(file: &Path, mut options: Vec<String>, args: &[String], java: Option<String>) -> Spelled {
    let text = |path: &Path| path.display().to_string();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut spelled = Spelled { interpreter: java, args: args.to_vec(), ..Spelled::default() };
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("java") => {
            let source = std::fs::read_to_string(file).unwrap_or_default();
            let package = package_of(&source);
            spelled.program =
                Some(package.map_or_else(|| stem.clone(), |package| format!("{package}.{stem}")));
            spelled.source = Some(file.to_owned());
        }
        Some("jar") => options.extend(["-jar".to_owned(), text(file)]),
        Some("class") => {
            let folder = file.parent().map(text).filter(|folder| !folder.is_empty());
            options.extend(["-cp".to_owned(), folder.unwrap_or_else(|| ".".into())]);
            spelled.program = Some(stem);
        }
        _ => spelled.program = Some(text(file)),
    }
    spelled.interpreter_args = options;
    spelled
}

/// The package that a source says it is in.
fn package_of(source: &str) -> Option<&str> {
    let lines = source.lines().map(str::trim);
    let package = lines.filter_map(|line| line.strip_prefix("package ")).next()?;
    Some(package.split(';').next()?.trim()).filter(|name| !name.is_empty())
}

/// The folder that a source's package begins in.
pub(crate) fn root_of(source: &Path, main_class: &str) -> PathBuf {
    let folder = source.parent().unwrap_or(Path::new("."));
    let depth = main_class.matches('.').count();
    folder.ancestors().nth(depth).unwrap_or(folder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, program: Option<&str>, options: &str, rest: &str) {
        let args: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let spelled = java(Path::new("/usr/bin/java"), true, &args, None);
        assert_eq!(spelled.program.as_deref(), program, "{line}");
        assert_eq!(spelled.interpreter_args.join(" "), options, "{line}");
        assert_eq!(spelled.args.join(" "), rest, "{line}");
    }

    #[test]
    fn command_lines_of_java_are_taken_apart() {
        check("-Xmx1g -cp a.jar:b com.x.Main -v", Some("com.x.Main"), "-Xmx1g -cp a.jar:b", "-v");
        check("-jar app.jar -x", None, "-jar app.jar", "-x");
        let args = ["-p", "mods", "--module", "app/com.x.Main", "-v"].map(str::to_owned);
        let module = java(Path::new("java"), true, &args, None);
        assert_eq!((module.entry.as_deref(), module.args.len()), (Some("com.x.Main.main"), 1));
        check("-ea /nowhere/Main.java a", Some("Main"), "-ea", "a");
        let class = java(Path::new("/x/Main.class"), false, &[], None);
        assert_eq!(
            (class.program.as_deref(), class.interpreter_args.join(" ")),
            (Some("Main"), "-cp /x".into())
        );
    }

    #[test]
    fn a_source_names_its_package() {
        assert_eq!(package_of("// x\npackage com.x ;\nclass A {}"), Some("com.x"));
        assert_eq!(package_of("class A {}"), None);
        assert_eq!(root_of(Path::new("/src/com/x/A.java"), "com.x.A"), Path::new("/src"));
        assert_eq!(root_of(Path::new("/src/A.java"), "A"), Path::new("/src"));
    }
}
