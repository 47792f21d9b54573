//! What narrows a search.

use hindcast_core::knowledge::DocumentFilter;

use super::*;

#[tokio::test]
async fn filters_hold_for_what_is_found_by_meaning() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    for (name, date) in [("lakes/one.md", "2024-05-01"), ("woods/two.txt", "2020-01-01")] {
        let path = notes.path().join(name);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        // Only Markdown has front matter.
        let front = if name.ends_with("md") {
            format!("---\ntags: water\ndate: {date}\n---\n")
        } else {
            String::new()
        };
        std::fs::write(&path, format!("{front}The heron of {name} stands in the water.")).unwrap();
    }
    let local = Caller::local();
    stage.service.add(&local, files("birds", notes.path(), false), &Unwatched).await.unwrap();
    let found = async |filter: DocumentFilter| {
        let request = SearchRequest {
            query: "heron water".into(),
            limit: 5,
            mode: SearchMode::Dense,
            min_relevance: Some(0.0),
            filter,
            ..SearchRequest::default()
        };
        let found = stage.service.search(&local, request).await.unwrap();
        let mut ids: Vec<_> = found.hits.into_iter().map(|hit| hit.found.document.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(found(DocumentFilter::default()).await, ["one", "two"]);
    let text = |text: &str| Some(text.to_owned());
    let none = DocumentFilter::default;
    let day = |text: &str| Some(moment("since", text).unwrap());
    for (filter, expected) in [
        (DocumentFilter { path: text("lakes/"), ..none() }, vec!["one"]),
        (DocumentFilter { source_type: text("text/plain"), ..none() }, vec!["two"]),
        (DocumentFilter { tag: text("water"), ..none() }, vec!["one"]),
        (DocumentFilter { until: day("2024-06-01"), ..none() }, vec!["one"]),
        (DocumentFilter { since: day("2024-06-01"), ..none() }, vec!["two"]),
        (DocumentFilter { path: text("woods"), tag: text("water"), ..none() }, vec![]),
    ] {
        assert_eq!(found(filter.clone()).await, expected, "{filter:?}");
    }
}
