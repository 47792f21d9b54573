//! What models of well-known families want to stand before a text, where a server only tells their names.

/// A family, by how its names begin, with what stands before questions and before passages. The first that fits holds.
const FAMILIES: [(&str, &str, &str); 9] = [
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("mxbai-embed", SENTENCE, ""),
    ("snowflake-arctic-embed2", "query: ", ""),
    ("snowflake-arctic-embed-l-v2", "query: ", ""),
    ("snowflake-arctic-embed-m-v2", "query: ", ""),
    ("snowflake-arctic-embed", SENTENCE, ""),
    ("multilingual-e5", "query: ", "passage: "),
    ("e5-", "query: ", "passage: "),
    ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
];

const SENTENCE: &str = "Represent this sentence for searching relevant passages: ";

/// What stands before a question and before a passage for a model of this name, such as `nomic-embed-text:latest` or
/// `intfloat/e5-large`.
pub(crate) fn prefixes_of(model: &str) -> (&'static str, &'static str) {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let family = FAMILIES.iter().find(|(family, ..)| name.starts_with(family));
    family.map_or(("", ""), |(_, question, passage)| (question, passage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_its_name_with_its_owner_and_its_version() {
        assert_eq!(prefixes_of("nomic-embed-text:latest"), ("search_query: ", "search_document: "));
        assert_eq!(prefixes_of("nomic-ai/Nomic-Embed-Text-v1.5"), ("search_query: ", "search_document: "));
        assert_eq!(prefixes_of("mxbai-embed-large"), (SENTENCE, ""));
        assert_eq!(prefixes_of("snowflake-arctic-embed:22m"), (SENTENCE, ""));
        assert_eq!(prefixes_of("snowflake-arctic-embed2"), ("query: ", ""));
        assert_eq!(prefixes_of("intfloat/multilingual-e5-large"), ("query: ", "passage: "));
        for other in ["all-minilm", "bge-m3", "text-embedding-3-small"] {
            assert_eq!(prefixes_of(other), ("", ""), "{other}");
        }
    }
}
