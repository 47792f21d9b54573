//! Questions: without a model, in one room, and with a server that hangs.

use super::*;

fn question(question: &str, conversation: Option<String>) -> AskRequest {
    AskRequest { question: question.into(), collection: None, model: None, conversation }
}

#[tokio::test]
async fn what_is_not_in_the_documents_is_said_also_where_no_model_answers() {
    let stage = Stage::with(Parrot { is_away: true, ..Parrot::default() });
    stage.add("birds", "heron", "The heron stands in the water.").await;
    let mut conversation = None;
    // The second goes on with the first.
    for _ in 0..2 {
        let ask = question("quarterly revenue of zebra factories?", conversation.take());
        let answer = stage.service.ask(&Caller::local(), ask, &Unwatched).await.unwrap();
        assert_eq!((&*answer.text, answer.model), ("This is not in these documents.", None));
        conversation = Some(answer.conversation);
    }
    let ask = question("where is the heron?", None);
    let failure = stage.service.ask(&Caller::local(), ask, &Unwatched).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ModelUnavailable, "{failure}");
    assert!(!failure.to_string().contains("Ollama"), "it is none: {failure}");
}

#[tokio::test]
async fn a_follow_up_is_rewritten_and_answered_in_rooms_of_one_size() {
    let rooms = Arc::new(std::sync::Mutex::default());
    let stage = Stage::with(Parrot { rooms: rooms.clone(), ..Parrot::default() });
    stage.add("birds", "heron", &"The heron stands in the water. ".repeat(30)).await;
    let first = stage.service.ask(&Caller::local(), question("where is the heron?", None), &Unwatched).await;
    rooms.lock().unwrap().clear();
    let again = question("and why there?", Some(first.unwrap().conversation));
    stage.service.ask(&Caller::local(), again, &Unwatched).await.unwrap();
    let rooms = rooms.lock().unwrap();
    assert!(rooms.len() == 2 && rooms[0] == rooms[1], "{rooms:?}");
}

#[tokio::test]
async fn passages_that_do_not_fit_the_model_are_left_out_from_the_least_relevant_on_and_that_is_said() {
    let stage = Stage::with(Parrot { most_bytes: Some(1500), ..Parrot::default() });
    stage.add("birds", "heron", "Where the heron stands: in the water, where the heron stands.").await;
    for (name, word) in [("a", "reeds"), ("b", "lakes"), ("c", "ponds")] {
        let text = format!("The heron stands there. {}", format!("It likes {word} and frogs. ").repeat(20));
        stage.add("birds", name, &text).await;
    }
    let ask = question("where the heron stands", None);
    let answer = stage.service.ask(&Caller::local(), ask, &Unwatched).await.unwrap();
    assert_eq!(answer.citations[0].hit.found.document.id, "heron", "the best stays");
    let notice = answer.notices.iter().find(|notice| notice.contains("left out"));
    assert!(notice.is_some_and(|notice| notice.contains("of 4 passages")), "{:?}", answer.notices);
    assert!(answer.citations.len() < 4);
}

/// A server that takes the question and says nothing.
struct Silent;

#[async_trait::async_trait]
impl ChatModel for Silent {
    fn address(&self) -> &str {
        "nowhere"
    }

    async fn models(&self) -> Result<Vec<InstalledModel>, ChatError> {
        std::future::pending().await
    }

    async fn chat(&self, _: &str, _: &[Message], _: usize, _: OnText<'_>) -> Result<Reply, ChatError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_model_server_that_hangs_does_not_hold_up_who_asks_how_the_parts_do() {
    let probe = model_probe::ModelProbe::default();
    let started = std::time::Instant::now();
    let (one, two) = tokio::join!(probe.health(Arc::new(Silent)), probe.health(Arc::new(Silent)));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    for (health, _) in [one, two] {
        assert_eq!((health.status, health.response), (ComponentStatus::Degraded, None));
    }
    let (health, bytes) = model_probe::ModelProbe::default().health(Arc::new(Parrot::default())).await;
    assert_eq!((health.status, health.count, bytes > 0), (ComponentStatus::Operational, 2, true));
}

#[tokio::test]
async fn the_models_of_a_server_that_hangs_are_those_it_had_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let parts = Stage::parts(folder.path(), Parrot::default(), Arc::new(WordEmbedder));
    let service = KnowledgeService::new(KnowledgeParts { chat: Some(Arc::new(Silent)), ..parts });
    // It answered once.
    service.model_probe.models(Arc::new(Parrot::default()), Duration::from_secs(9)).await;
    let started = std::time::Instant::now();
    let report = service.models(&Caller::local()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(report.models.len(), 2, "{report:?}");
    assert!(report.notice.is_some_and(|notice| notice.contains("did not answer within 2 s")));
}
