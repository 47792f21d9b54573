//! Where breakpoints are, in files.

use std::{fs, path::Path};

use hindcast_core::debug::{DebugError, Place, Reason};

use super::{
    Session,
    arguments::{head_of, short_name},
    breakpoints::Site,
};

/// Longer files are not read.
const LARGEST: u64 = 8 << 20;
/// So many lines may have the same text.
const MOST_LINES: usize = 20;

impl Session {
    /// Where to tell the adapters to stop, and what the user should know about that.
    pub(super) fn sites_of(&mut self, place: &Place) -> Result<(Vec<Site>, Option<String>), DebugError> {
        match place {
            Place::Address(_) => {
                let reason = Reason::new("a debug adapter's session has no addresses");
                Err(DebugError::Unsupported(
                    reason.advise("give a `file` and a `line`, a `statement` or a `function`"),
                ))
            }
            Place::Line { file, line } => {
                let path = self.resolve(file)?;
                check_line(Path::new(&path), *line)?;
                let at = match self.profile.moves_silently {
                    true => line_of_body(Path::new(&path), line.saturating_sub(1)).max(1),
                    false => *line,
                };
                let note =
                    (at != *line).then(|| format!("line {line} has no code of its own: it is at line {at}"));
                Ok((vec![Site::line(path, at)], note))
            }
            Place::Statement { file, text } => {
                let path = self.resolve(file)?;
                let lines = lines_with(Path::new(&path), text)?;
                Ok((lines.into_iter().map(|line| Site::line(path.clone(), line)).collect(), None))
            }
            Place::Function(name) => self.sites_of_function(name),
        }
    }

    fn sites_of_function(&mut self, name: &str) -> Result<(Vec<Site>, Option<String>), DebugError> {
        if name.starts_with('/') && name.ends_with('/') {
            let reason = Reason::new("a debug adapter's session has no regular expressions for functions");
            return Err(DebugError::Unsupported(
                reason.advise("name each function, or give a `file` and a `line`"),
            ));
        }
        let root = self.client.connections.first();
        let takes_names = root.is_some_and(|root| root.capabilities.supports_function_breakpoints)
            && !self.profile.functions_by_line;
        let mut defined = self.definitions(name);
        if self.profile.functions_by_line {
            // The line of the definition is passed when the function is defined.
            defined.iter_mut().for_each(|(path, line)| *line = line_of_body(Path::new(path), *line));
        }
        if takes_names {
            let known = defined.first().cloned();
            return Ok((vec![Site::function(name.to_owned(), known)], None));
        }
        if defined.is_empty() {
            let reason =
                Reason::new(format!("no source file below the working folder defines a function `{name}`"));
            return Err(DebugError::BreakpointFailed(
                reason.advise("give a `file` and a `line` or `statement`"),
            ));
        }
        Ok((defined.into_iter().map(|(path, line)| Site::line(path, line)).collect(), None))
    }

    /// The lines of the program's sources that define a function of this name.
    fn definitions(&self, name: &str) -> Vec<(String, u32)> {
        let Some(pattern) = head_of(self.profile.spelling.of_sources(), short_name(name)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for file in self.sources.files(self.profile.source_extensions()) {
            let Some(text) = text_of(Path::new(&file)) else { continue };
            for (at, line) in text.lines().enumerate() {
                if line.len() < 2000 && pattern.is_match(line) {
                    found.push((file.clone(), u32::try_from(at + 1).unwrap_or(u32::MAX)));
                }
            }
            if found.len() >= MOST_LINES {
                break;
            }
        }
        found
    }
}

/// A line that is behind the end of its file can never be reached; a blank one may be moved.
fn check_line(path: &Path, line: u32) -> Result<(), DebugError> {
    let Some(text) = text_of(path) else { return Ok(()) };
    let count = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
    if (1..=count.max(1)).contains(&line) {
        return Ok(());
    }
    let nearest = last_line_with_code(&text);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Err(DebugError::BreakpointFailed(
        Reason::new(format!("`{name}` has {count} lines, so there is no line {line}"))
            .advise(format!("the nearest line that can have a breakpoint is {nearest}")),
    ))
}

/// The first line with code behind a line.
fn line_of_body(path: &Path, line: u32) -> u32 {
    let text = text_of(path).unwrap_or_default();
    let is_code = |text: &str| !text.trim().is_empty() && !text.trim().starts_with('#');
    let mut below = (1..).zip(text.lines()).skip_while(|(number, _)| *number <= line);
    below.find(|(_, text)| is_code(text)).map_or(line, |(number, _)| number)
}

fn last_line_with_code(text: &str) -> usize {
    let is_code = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(['#', '}', ')']) && !line.starts_with("//") && line != "end"
    };
    let lines: Vec<_> = text.lines().collect();
    lines.iter().rposition(|line| is_code(line)).map_or(1, |at| at + 1)
}

/// The lines that contain a text, without regard to white space.
fn lines_with(path: &Path, text: &str) -> Result<Vec<u32>, DebugError> {
    let squeeze = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
    let wanted = squeeze(text);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let failed =
        |what: String, advice: &'static str| DebugError::BreakpointFailed(Reason::new(what).advise(advice));
    if wanted.is_empty() {
        return Err(failed("`statement` is empty".into(), "give a part of a line"));
    }
    let source = text_of(path).ok_or_else(|| {
        failed(format!("`{name}` cannot be read"), "give a `line` instead of a `statement`")
    })?;
    let lines: Vec<u32> = (1..)
        .zip(source.lines())
        .filter(|(_, line)| squeeze(line).contains(&wanted))
        .map(|(number, _)| number)
        .collect();
    match lines.len() {
        0 => Err(failed(
            format!("no line of `{name}` contains `{text}`"),
            "give a part of a line as it is written there",
        )),
        1..=MOST_LINES => Ok(lines),
        many => Err(failed(format!("{many} lines of `{name}` contain `{text}`"), "give more of the line")),
    }
}

pub(super) fn text_of(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    if !file.is_file() || file.len() > LARGEST {
        return None;
    }
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_whatever_their_spaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.py");
        fs::write(&path, "x = 1\nfor i in y:\n    x  +=  i\n\n# end\n").unwrap();
        assert_eq!(lines_with(&path, "x += i").unwrap(), [3]);
        assert_eq!(lines_with(&path, "x").unwrap(), [1, 3]);
        assert!(lines_with(&path, "z").unwrap_err().to_string().contains("no line of `a.py` contains `z`"));
        assert!(lines_with(&path, " ").is_err());
        assert!(check_line(&path, 5).is_ok());
        let error = check_line(&path, 9).unwrap_err();
        assert_eq!(error.to_string(), "`a.py` has 5 lines, so there is no line 9");
        assert!(format!("{:?}", error.remedies()).contains("is 3"), "{error:?}");
    }
}
