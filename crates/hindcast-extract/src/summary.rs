//! What a text calls itself and what it is about.

use crate::Format;

/// As much of a description as a list has room for.
const LONGEST: usize = 160;

#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
}

pub(crate) fn of(format: Format, text: &str) -> Summary {
    match format {
        _ if format == Format::Markdown || format.is_converted() => of_markdown(text),
        Format::Text | Format::Rst | Format::AsciiDoc | Format::Org => {
            Summary { description: first_sentence(text), ..Summary::default() }
        }
        _ => Summary::default(),
    }
}

fn of_markdown(text: &str) -> Summary {
    let (front_matter, body) = split_front_matter(text);
    let field = |name: &str| {
        let value = front_matter.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let value = value.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let heading = body.lines().take(200).find_map(|line| line.strip_prefix("# "));
    let heading = heading.map(|heading| heading.trim().trim_end_matches('#').trim_end().to_owned());
    let prose = body.split("\n\n").map(str::trim).find(|block| {
        block.chars().next().is_some_and(|first| !"#|<-=`*>![".contains(first) || block.starts_with("**"))
    });
    Summary {
        title: field("title").or(heading),
        description: field("description").or_else(|| prose.and_then(first_sentence)),
        tags: tags(front_matter),
    }
}

/// The `tags` of front matter, in a line (`[a, b]`, `a, b`) or in lines of their own (`- a`).
fn tags(front_matter: &str) -> Vec<String> {
    let mut lines = front_matter.lines();
    let Some(first) = lines.find_map(|line| line.strip_prefix("tags:")) else { return Vec::new() };
    let first = first.trim();
    let listed: Vec<&str> = if first.is_empty() {
        lines.map_while(|line| line.trim().strip_prefix("- ")).collect()
    } else {
        first.trim_matches(['[', ']']).split(',').collect()
    };
    let clean = |tag: &&str| tag.trim().trim_matches(['"', '\'']).trim_start_matches('#').trim().to_owned();
    listed.iter().map(clean).filter(|tag| !tag.is_empty()).collect()
}

/// The metadata that some Markdown files begin with, and the rest.
pub(crate) fn split_front_matter(text: &str) -> (&str, &str) {
    let inner = text.strip_prefix("---\n").and_then(|rest| rest.find("\n---\n").map(|end| (rest, end)));
    match inner {
        Some((rest, end)) => (&rest[..end], &rest[end + 5..]),
        None => ("", text),
    }
}

fn first_sentence(text: &str) -> Option<String> {
    let mut sentence = String::new();
    for word in text.split_whitespace() {
        if sentence.len() + word.len() > LONGEST {
            return (!sentence.is_empty()).then(|| format!("{sentence} …"));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        if word.ends_with(['.', '!', '?']) && sentence.len() > 20 {
            break;
        }
    }
    (!sentence.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_itself() {
        let named = of(Format::Markdown, "---\ntitle: \"Named\"\ndescription: About it\n---\n# Other\n");
        assert_eq!((named.title.as_deref(), named.description.as_deref()), (Some("Named"), Some("About it")));
        for tags in
            ["tags: [birds, 'big ones']", "tags: birds, big ones", "tags:\n  - birds\n  - big ones\nother: x"]
        {
            let tagged = of(Format::Markdown, &format!("---\n{tags}\n---\nText"));
            assert_eq!(tagged.tags, ["birds", "big ones"], "{tags}");
        }
        let plain =
            of(Format::Markdown, "# Chapter 1: The Keeper\n\nThe Keeper stood at the edge. He waited.\n");
        assert_eq!(plain.title.as_deref(), Some("Chapter 1: The Keeper"));
        assert_eq!(plain.description.as_deref(), Some("The Keeper stood at the edge."));
    }
}
