//! Jupyter notebooks as Markdown: their texts, code and what the code printed.

use serde_json::Value;

use crate::{ExtractError, Extracted};

/// As much of an output as tells what it is.
const LONGEST_OUTPUT: usize = 1000;

pub(crate) fn extract(text: &str) -> Result<Extracted, ExtractError> {
    let broken = |reason: String| ExtractError::Broken { format: "notebook", reason };
    let notebook: Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
    let cells = notebook["cells"].as_array().ok_or_else(|| broken("it has no cells".into()))?;
    let language = notebook["metadata"]["kernelspec"]["language"]
        .as_str()
        .or_else(|| notebook["metadata"]["language_info"]["name"].as_str())
        .filter(|name| name.len() < 20 && name.chars().all(|char| char.is_ascii_alphanumeric()))
        .unwrap_or_default();
    let mut parts = Vec::new();
    for cell in cells {
        let source = joined(&cell["source"]);
        if source.trim().is_empty() {
            continue;
        }
        match cell["cell_type"].as_str() {
            Some("code") => {
                parts.push(format!("```{language}\n{}\n```", source.trim_end()));
                let outputs = cell["outputs"].as_array().into_iter().flatten();
                let printed: Vec<_> = outputs.map(output).filter(|text| !text.trim().is_empty()).collect();
                if !printed.is_empty() {
                    parts.push(format!("```output\n{}\n```", printed.join("\n").trim_end()));
                }
            }
            _ => parts.push(source.trim().to_owned()),
        }
    }
    let title = notebook["metadata"]["title"].as_str().map(str::to_owned);
    Ok(Extracted { text: Some(parts.join("\n\n")), title, ..Extracted::default() })
}

/// A text, which notebooks have whole or in lines.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// What an output says in words; pictures say nothing.
fn output(output: &Value) -> String {
    let text = match &output["text"] {
        Value::Null => joined(&output["data"]["text/plain"]),
        text => joined(text),
    };
    let text = if text.is_empty() { output["evalue"].as_str().unwrap_or_default().to_owned() } else { text };
    match text.char_indices().nth(LONGEST_OUTPUT) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_code_and_outputs_are_kept_in_order() {
        let notebook = r##"{"metadata":{"kernelspec":{"language":"python"}},"cells":[
            {"cell_type":"markdown","source":["# Herons\n","\n","They stand."]},
            {"cell_type":"code","source":"print(1)\n","outputs":[{"text":["1\n"]},{"data":{"image/png":"x","text/plain":["<Figure>"]}}]},
            {"cell_type":"code","source":[],"outputs":[]}]}"##;
        let text = extract(notebook).unwrap().text.unwrap();
        assert_eq!(
            text,
            "# Herons\n\nThey stand.\n\n```python\nprint(1)\n```\n\n```output\n1\n\n<Figure>\n```"
        );
        for broken in ["{", "{}", "[]"] {
            assert!(matches!(extract(broken), Err(ExtractError::Broken { .. })), "{broken}");
        }
    }
}
