//! What key holders may not reach, and nobody twice.

use super::*;

fn restricted(stage: Stage, folder: &Path) -> Stage {
    let folders = vec![folder.canonicalize().unwrap()];
    let policy = TargetPolicy { folders, ..TargetPolicy::default() };
    let service =
        DebugService::new(policy, Some(stage.engine.clone()), stage.events.clone(), stage.clock.clone());
    Stage { service, ..stage }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_a_session_has_is_attached_to_by_nobody_else() {
    let stage = counter();
    // The fake engine attaches as the one for .NET does: the system does not see it.
    let mut process = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let attach = async |caller: &Caller| {
        let options = AttachOptions {
            language: hindcast_core::debug::Language::Cpp,
            ..AttachOptions::to(process.id())
        };
        stage.service.attach(caller, options, Mask::new(true), &patience(5000)).await
    };
    let me = Caller::local();
    let (session, _) = attach(&me).await.unwrap();
    for other in [&me, &key_holder("somebody else")] {
        let failure = attach(other).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::PermissionDenied, "{failure}");
        let is_mine = other.key.is_none();
        assert_eq!(failure.details.contains(&**session.id()), is_mine, "{failure}");
    }
    stage.service.disconnect(&me, None, Some(false)).await.unwrap();
    attach(&me).await.unwrap();
    stage.finish().await;
    process.kill().unwrap();
    process.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_only_in_allowed_folders() {
    let stage = counter();
    let folder = stage.folder.path().to_owned();
    let stage = restricted(stage, &folder);
    let key = key_holder("somebody");
    let elsewhere = tempfile::tempdir().unwrap();
    for cwd in [elsewhere.path().to_owned(), elsewhere.path().join("missing")] {
        let options = LaunchOptions { cwd: Some(cwd), ..LaunchOptions::default() };
        let failure = stage.try_launch(&key, options.clone()).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::PermissionDenied, "{failure}");
        assert!(failure.details.contains("is outside the folders"), "{failure}");
        assert!(stage.try_launch(&Caller::local(), options).await.is_ok());
    }
    let options = LaunchOptions { cwd: Some(folder), ..LaunchOptions::default() };
    assert!(stage.try_launch(&key, options).await.is_ok());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_outside_the_allowed_folders_are_not_shown_to_key_holders() {
    let elsewhere = tempfile::tempdir().unwrap();
    let source = elsewhere.path().canonicalize().unwrap().join("secret.c");
    std::fs::write(&source, "line\n".repeat(14)).unwrap();
    let source = source.to_str().unwrap();
    let stage = stage(FakeProgram::counter(source));
    let folder = stage.folder.path().to_owned();
    let stage = restricted(stage, &folder);

    let (session, viewport) = stage.launch(&key_holder("somebody")).await;
    assert!(viewport.source.is_empty());
    let note = format!("no source text: `{source}` is outside the folders that may be used");
    assert!(viewport.notes.contains(&note), "{:?}", viewport.notes);
    let failure = session.source(source).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::SourceNotServed);
    assert!(failure.details.contains("is outside the folders that may be used"), "{failure}");
    assert!(session.source_file(source).await.is_err(), "it is not watched either");
    let autopsy = session.autopsy(4, 1).await.unwrap();
    assert!(autopsy.frames.iter().all(|frame| frame.text.is_none()));

    let (session, viewport) = stage.launch(&Caller::local()).await;
    assert!(!viewport.source.is_empty());
    assert!(session.source(source).await.is_ok() && session.source_file(source).await.is_ok());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_masked_variable_is_masked_too() {
    let stage = counter();
    let me = Caller::local();
    let (session, _) = stage.launch(&me).await;
    let frame = session.frame(None, None).unwrap();
    for expression in ["password", "&user->db_password", "*passphrase", "login.apiKey"] {
        let place = MemoryPlace::Expression(expression.into(), frame);
        let failure = session.memory(place, 8).await.unwrap_err();
        assert!(failure.details.contains("is masked"), "{expression}: {failure}");
        assert!(failure.to_string().contains("mask_secrets"), "{failure}");
    }
    let options = LaunchOptions { program: stage.folder.path().join("program"), ..LaunchOptions::default() };
    let (open, _) = stage.service.launch(&me, options, Mask::new(false), &patience(5000)).await.unwrap();
    for (session, expression) in [(&session, "count"), (&session, "password_length"), (&open, "password")] {
        let place = MemoryPlace::Expression(expression.into(), frame);
        let answer = session.memory(place, 8).await;
        assert!(!answer.is_err_and(|failure| failure.details.contains("is masked")), "{expression}");
    }
    stage.finish().await;
}
