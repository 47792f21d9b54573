use std::{io::Write as _, path::Path, sync::Barrier};

use super::{files::Name, owned::MOST_ENTRIES, room::NewFile, *};

fn owned(most_bytes: u64) -> (tempfile::TempDir, OwnedFolder) {
    let folder = tempfile::tempdir().unwrap();
    let owned = OwnedFolder { folder: folder.path().to_owned(), most_bytes, growing: Arc::default() };
    (folder, owned)
}

fn piece<'a>(path: &'a str, bytes: &'a [u8]) -> Piece<'a> {
    Piece { path: Path::new(path), bytes, append: false, executable: false }
}

fn names(owned: &OwnedFolder) -> Vec<String> {
    owned.list().unwrap().files.into_iter().map(|file| file.path).collect()
}

#[test]
fn a_file_has_one_name_however_it_is_written() {
    let (_folder, owned) = owned(10);
    for spelling in ["a/b", "./a/b", "a//b", "a/./b", "a/b/"] {
        assert_eq!(owned.put(&piece(spelling, b"12345678")).unwrap().path, "a/b", "{spelling}");
    }
    let absolute = owned.folder.join("a/b");
    owned.put(&piece(absolute.to_str().unwrap(), b"1")).unwrap();
    let appended = Piece { append: true, ..piece("./a/b", b"2345") };
    assert_eq!(owned.put(&appended).unwrap().bytes, 5);
    assert_eq!(names(&owned), ["a/b"]);
    let (long, deep) = ("x".repeat(256), "d/".repeat(17));
    for refused in ["", ".", "..", "a/../b", "/etc/x", "a\nb", "a\0b", "x.hindcast-part", &long, &deep] {
        let failure = owned.put(&piece(refused, b"")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidInput, "{refused}");
        assert!(!failure.remedies.is_empty(), "{refused}");
    }
}

#[test]
fn errors_of_the_caller_are_not_internal() {
    let (_folder, owned) = owned(100);
    owned.put(&piece("file", b"1")).unwrap();
    owned.put(&piece("folder/file", b"1")).unwrap();
    for (path, append) in [("file/below", false), ("folder", false), ("folder", true)] {
        let failure = owned.put(&Piece { append, ..piece(path, b"2") }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidInput, "{path}: {}", failure.details);
        assert!(failure.details.contains("the same name"), "{}", failure.details);
    }
    for path in ["none", "file/below"] {
        assert_eq!(owned.remove(Path::new(path)).unwrap_err().kind, FailureKind::InvalidInput, "{path}");
    }
    assert_eq!(names(&owned), ["file", "folder/file"]);
}

#[test]
fn folders_count_and_go_when_they_are_empty() {
    let (_folder, owned) = owned(1 << 20);
    owned.put(&piece("a/b/c/file", b"1")).unwrap();
    owned.remove(Path::new("a/b/c/file")).unwrap();
    assert!(!owned.folder.join("a").exists());
    // Made beside the service, which is faster.
    for number in 0..MOST_ENTRIES - 2 {
        std::fs::create_dir(owned.folder.join(number.to_string())).unwrap();
    }
    let refused = owned.put(&piece("x/y/file", b"1")).unwrap_err();
    assert_eq!(refused.kind, FailureKind::QuotaExceeded);
    assert!(!owned.folder.join("x").exists());
    owned.put(&piece("x/file", b"1")).unwrap();
    owned.put(&piece("x/file", b"2")).unwrap();
    assert_eq!(owned.put(&piece("y", b"1")).unwrap_err().kind, FailureKind::QuotaExceeded);
}

#[test]
fn puts_at_once_stay_within_the_limit() {
    let (_folder, owned) = owned(1000);
    let together = Barrier::new(8);
    let put = |number: usize| {
        together.wait();
        owned.put(&piece(&format!("file-{number}"), &[b'x'; 300])).is_ok()
    };
    let done: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || put(number))).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(done, 3);
    assert_eq!(owned.list().unwrap().bytes, 900);
}

#[test]
fn a_file_that_grows_counts_before_it_is_on_disk() {
    let (_folder, owned) = owned(1000);
    owned.put(&piece("old", &[0; 400])).unwrap();
    let path = owned.folder.join("trace");
    let new = NewFile::in_workspace(owned.clone(), &path).unwrap();
    let mut file = new.create().unwrap();
    file.write_all(&[1; 500]).unwrap();
    assert_eq!(owned.put(&piece("more", &[0; 101])).unwrap_err().kind, FailureKind::QuotaExceeded);
    for refused in [owned.put(&piece("trace", b"")).map(drop), owned.remove(Path::new("trace"))] {
        assert!(refused.unwrap_err().details.contains("is being written"));
    }
    assert!(file.write_all(&[1; 101]).is_err());
    assert_eq!(file.take_refusal().unwrap().kind, FailureKind::QuotaExceeded);
    drop(new);
    assert_eq!(owned.list().unwrap().bytes, 900);
    owned.put(&piece("more", &[0; 100])).unwrap();
}

#[test]
fn what_a_killed_server_left_half_written_is_removed() {
    let (_folder, owned) = owned(1000);
    owned.put(&piece("a/file", b"1")).unwrap();
    std::fs::write(owned.folder.join("a/.tmp123.hindcast-part"), [0; 900]).unwrap();
    assert_eq!(owned.list().unwrap().bytes, 1);
    assert_eq!(Name::of(&owned.folder, Path::new("a/file")).unwrap().missing_folders(), 0);
    assert!(!owned.folder.join("a/.tmp123.hindcast-part").exists());
}
