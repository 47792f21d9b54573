use super::*;

fn check(policy: TargetPolicy, target: Target) -> Option<String> {
    policy.check(7, &target).err().map(|failure| failure.details)
}

fn target(user: u32, program: &str) -> Target {
    let (changes_user, is_ours) = (false, false);
    Target { user, program: Some(program.into()), assembly: None, changes_user, is_ours }
}

#[test]
fn dotnet_runs_the_first_word_that_is_no_option_of_its_own() {
    let runs = |line: &str| {
        run_by_dotnet(line.split(' ').map(str::as_bytes))
            .map(|word| String::from_utf8_lossy(word).into_owned())
    };
    assert_eq!(runs("App.dll allowed/X.dll").as_deref(), Some("App.dll"));
    assert_eq!(runs("exec out/Tool.DLL allowed/X.dll").as_deref(), Some("out/Tool.DLL"));
    assert_eq!(
        runs("exec --depsfile allowed/X.dll --fx-version 10.0.0 out/tool allowed/Y.dll").as_deref(),
        Some("out/tool")
    );
    assert_eq!(runs("--unknown allowed/X.dll"), None);
    assert_eq!(runs("exec"), None);
}

#[test]
fn a_dotnet_program_is_judged_by_its_assembly_and_finds_no_runtime_of_its_callers_choice() {
    let own = Target::of(std::process::id()).unwrap();
    assert_eq!(own.assembly, None);
    let policy = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
    let hosted = |assembly: &str| {
        let target = Target { assembly: Some(assembly.into()), ..target(own.user, "/usr/bin/dotnet") };
        check(policy.clone(), target)
    };
    assert_eq!(hosted("/opt/app/shop.dll"), None);
    assert!(hosted("/srv/other.dll").unwrap().contains("not among"));

    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let policy = TargetPolicy { folders: vec![real.clone()], ..TargetPolicy::default() };
    let put = |name: &str, content: &[u8]| {
        std::fs::write(real.join(name), content).unwrap();
        real.join(name)
    };
    let check = |program: &Path, env: &str| {
        let launch = Launch { program, named: program, env: vec![env] };
        policy.check_launch(&launch).err().map(|failure| failure.details)
    };
    let (assembly, host, plain) =
        (put("shop.dll", b"MZ\x90"), put("shop", b"\x7fELF"), put("plain", b"\x7fELF"));
    for variable in ["PATH", "HOME", "DOTNET_ROOT", "DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH"] {
        assert!(check(&assembly, variable).unwrap().contains(variable));
        assert!(check(&host, variable).unwrap().contains(variable));
    }
    assert_eq!(check(&assembly, "LANG"), None);
    assert_eq!(check(&plain, "PATH"), None);
}

#[test]
fn only_allowed_users_and_programs_may_be_touched() {
    let own = Target::of(std::process::id()).unwrap().user;
    assert_eq!(check(TargetPolicy::default(), target(own, "/bin/cat")), None);
    assert!(check(TargetPolicy::default(), target(own + 1, "/bin/cat")).unwrap().contains("another user"));
    let users = TargetPolicy { users: vec![own + 1], ..TargetPolicy::default() };
    assert_eq!(check(users, target(own + 1, "/bin/cat")), None);

    let folders = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
    assert_eq!(check(folders.clone(), target(own, "/opt/app/bin/server")), None);
    assert!(check(folders.clone(), target(own, "/opt/application")).unwrap().contains("not among"));
    assert!(check(folders, Target { program: None, ..target(own, "") }).unwrap().contains("not among"));

    let setuid = Target { changes_user: true, ..target(own, "/bin/su") };
    assert!(check(TargetPolicy::default(), setuid).unwrap().contains("setuid"));
}

#[test]
fn only_allowed_programs_may_be_started_and_with_nothing_slipped_in() {
    let folders = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
    let check = |policy: &TargetPolicy, program: &str, env: &[&str]| {
        let program = Path::new(program);
        let launch = Launch { program, named: program, env: env.to_vec() };
        policy.check_launch(&launch).err().map(|failure| failure.details)
    };
    let any = TargetPolicy::default();
    assert_eq!(check(&any, "/bin/cat", &["LD_PRELOAD"]), None);
    assert_eq!(check(&folders, "/opt/app/server", &["PATH"]), None);
    assert!(check(&folders, "/bin/sh", &[]).unwrap().contains("not among"));
    for name in ["LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "GLIBC_TUNABLES", "BASH_ENV"] {
        assert!(check(&folders, "/opt/app/server", &[name]).unwrap().contains(name));
    }
    assert!(any.check_read(Path::new("/etc/shadow")).is_ok());
    assert!(folders.check_read(Path::new("/opt/app/input")).is_ok());
    assert!(folders.check_read(Path::new("/etc/shadow")).unwrap_err().details.contains("outside"));
}

#[test]
fn a_script_finds_no_interpreter_and_no_debug_adapter_of_its_callers_choice() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("app.py");
    std::fs::write(&script, "print(1)\n").unwrap();
    let policy = TargetPolicy { folders: vec![folder.path().to_owned()], ..TargetPolicy::default() };
    for name in ["PATH", "VIRTUAL_ENV", "JS_DEBUG", "PYTHONPATH", "NODE_OPTIONS"] {
        let launch = Launch { program: &script, named: &script, env: vec![name] };
        assert!(policy.check_launch(&launch).unwrap_err().details.contains(name), "{name}");
    }
    let launch = Launch { program: &script, named: &script, env: vec!["LANG"] };
    assert!(policy.check_launch(&launch).is_ok());
}

#[test]
fn a_script_is_judged_with_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let policy = TargetPolicy { folders: vec![real.clone()], ..TargetPolicy::default() };
    let check = |policy: &TargetPolicy, text: &str| {
        let program = &real.join("script");
        std::fs::write(program, text).unwrap();
        policy.check_launch(&Launch { program, named: program, env: Vec::new() }).err()
    };
    for text in
        ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!\t/usr/bin/env python3\n", "#!bin/sh\n", "#!\n", "#!/no/such"]
    {
        let failure = check(&policy, text).unwrap_or_else(|| panic!("{text:?} is allowed"));
        assert!(failure.details.contains("is a script of"), "{}", failure.details);
    }
    assert!(check(&policy, "\x7fELF").is_none());
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    let with_shell = TargetPolicy { programs: vec![shell], ..policy.clone() };
    assert!(check(&with_shell, "#!/bin/sh\n").is_none());
    // An interpreter that is a script itself has one, too.
    std::fs::write(real.join("inner"), "#!/usr/bin/env\n").unwrap();
    assert!(check(&with_shell, &format!("#!{}\n", real.join("inner").display())).is_some());
}

#[test]
fn what_is_outside_is_refused_in_the_same_way_whether_it_is_there_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    for name in ["allowed", "secret", "secret/there"] {
        std::fs::create_dir(real.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("../secret/there", real.join("allowed/leads")).unwrap();
    std::os::unix::fs::symlink("../secret/missing", real.join("allowed/dangles")).unwrap();
    let policy = TargetPolicy { folders: vec![real.join("allowed")], ..TargetPolicy::default() };
    for path in [
        "secret/there",
        "secret/missing",
        "secret/there/file",
        "secret/missing/file",
        "allowed/../secret/there",
        "allowed/../secret/missing",
        "allowed/no/../../secret/there",
        "allowed/no/../../secret/missing",
        "allowed/leads",
        "allowed/dangles",
        "allowed/leads/file",
        "allowed/dangles/file",
    ] {
        let path = real.join(path);
        for judged in
            [policy.check_read(&path), policy.check_written(&path), policy.check_working_folder(&path)]
        {
            assert!(judged.unwrap_err().details.contains("is outside the folders"), "{}", path.display());
        }
        let refused = policy.check_missing_program(&path, None).unwrap_err();
        assert!(refused.details.contains("not among"), "{}", path.display());
    }
    for path in ["allowed/file", "allowed/no/file"] {
        assert!(
            policy.check_read(&real.join(path)).is_ok() && policy.check_written(&real.join(path)).is_ok()
        );
    }
}

#[test]
fn files_are_only_written_where_they_may_and_never_over_others() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let file = new_file(&folder.path().join("trace.bin")).unwrap();
    assert_eq!(file, real.join("trace.bin"));
    std::fs::write(&file, "").unwrap();
    assert!(new_file(&file).unwrap_err().details.contains("already"));
    std::os::unix::fs::symlink("/nowhere", real.join("link")).unwrap();
    assert!(new_file(&real.join("link")).unwrap_err().details.contains("already"));
    assert!(new_file(&real.join("no/such/trace.bin")).unwrap_err().details.contains("no folder"));
    assert!(new_file(Path::new("/")).unwrap_err().details.contains("names no file"));

    let any = TargetPolicy::default();
    assert!(any.check_written(&file).is_ok());
    let elsewhere = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
    assert!(elsewhere.check_written(&file).unwrap_err().details.contains("outside"));
    let here = TargetPolicy { folders: vec![real], ..TargetPolicy::default() };
    assert!(here.check_written(&file).is_ok());
}

#[test]
fn a_program_runs_in_allowed_folders_only() {
    let programs = TargetPolicy { programs: vec!["/opt/app/server".into()], ..TargetPolicy::default() };
    let refused = programs.check_working_folder(Path::new("/tmp")).unwrap_err();
    assert!(refused.details.contains("outside"), "{}", refused.details);
    let folders = TargetPolicy { folders: vec!["/usr".into()], ..programs };
    assert!(folders.check_working_folder(Path::new("/tmp")).is_err());
    assert!(folders.check_working_folder(Path::new("/usr/share")).is_ok());
    assert!(TargetPolicy::default().check_working_folder(Path::new("/tmp")).is_ok());
}

#[test]
fn variables_that_load_code_are_known() {
    for loading in [
        "LD_PRELOAD",
        "PYTHONPATH",
        "DOTNET_STARTUP_HOOKS",
        "CORECLR_PROFILER_PATH",
        "CLR_OPENSSL_VERSION_OVERRIDE",
        "complus_Profiler",
        "Clr_OpenSsl_Version_Override",
        "openssl_conf",
    ] {
        assert!(loads_code(loading), "{loading}");
    }
    for harmless in ["LANG", "CLR", "ÄÄÄ", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT"] {
        assert!(!loads_code(harmless), "{harmless}");
    }
}
