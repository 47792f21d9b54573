//! Filling in what is known.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What the names in braces stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(BTreeMap<String, Value>);

impl Words {
    /// Says what a name stands for.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The same, where it is known.
    pub(crate) fn set_if(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// A text with names filled in; `None` where one of them is not known.
    fn text(&self, pattern: &str) -> Option<String> {
        let mut filled = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}')?;
            filled.push_str(before);
            match self.0.get(name)? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            }
            rest = behind;
        }
        Some(filled + rest)
    }
}

/// A value with names filled in. What consists of a name alone becomes that value, whatever its type; what is not known is
/// left out.
pub(crate) fn fill(value: &Value, words: &Words) -> Option<Value> {
    match value {
        Value::String(text) => {
            let alone = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            match alone.filter(|name| !name.contains(['{', '}'])) {
                Some(name) => words.0.get(name).cloned(),
                None => words.text(text).map(Value::String),
            }
        }
        Value::Array(items) => {
            Some(Value::Array(items.iter().filter_map(|item| fill(item, words)).collect()))
        }
        Value::Object(fields) => {
            let filled = fields.iter().filter_map(|(name, value)| Some((name.clone(), fill(value, words)?)));
            Some(Value::Object(filled.collect::<Map<_, _>>()))
        }
        other => Some(other.clone()),
    }
}

/// A command line with names filled in. A name that stands for a list becomes as many words.
pub(crate) fn fill_words(command: &[String], words: &Words) -> Vec<String> {
    let mut filled = Vec::new();
    for word in command {
        match fill(&Value::String(word.clone()), words) {
            Some(Value::Array(items)) => {
                filled.extend(items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)));
            }
            Some(Value::String(text)) => filled.push(text),
            Some(other) => filled.push(other.to_string()),
            None => {}
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_known_is_filled_in_and_the_rest_left_out() {
        let mut words = Words::default();
        words.set("args", json!(["a", "b"]));
        words.set("port", 7);
        words.set("stop", true);
        let pattern = json!({ "args": "{args}", "listen": "host:{port}", "stop": "{stop}", "module": "{module}",
            "paths": ["{module}", "x"], "text": "in {module}" });
        let filled = fill(&pattern, &words).unwrap();
        assert_eq!(filled, json!({ "args": ["a", "b"], "listen": "host:7", "stop": true, "paths": ["x"] }));
        let command = ["run", "--port={port}", "{module}", "{args}", "{port}"].map(str::to_owned);
        assert_eq!(fill_words(&command, &words), ["run", "--port=7", "a", "b", "7"]);
    }
}
