use super::*;

const ONE: CollectionKey = CollectionKey(1);
const TWO: CollectionKey = CollectionKey(2);

fn add(index: &LexicalIndex, collection: CollectionKey, chunks: &[(i64, &str)]) {
    let entries: Vec<LexicalEntry<'_>> = chunks
        .iter()
        .map(|&(chunk, text)| LexicalEntry {
            chunk: ChunkId(chunk),
            collection,
            headings: "",
            text,
            is_code: false,
            language: None,
        })
        .collect();
    index.add(&entries).unwrap();
}

fn found(index: &LexicalIndex, query: &str, within: Option<&[CollectionKey]>) -> Vec<i64> {
    index.search(query, within, None, 10).unwrap().iter().map(|hit| hit.chunk.0).collect()
}

fn filled(folder: &tempfile::TempDir) -> LexicalIndex {
    let index = LexicalIndex::open(folder.path()).unwrap();
    add(&index, ONE, &[(1, "Connections are dropped when idle"), (2, "def readUserFile(path_name): pass")]);
    add(&index, TWO, &[(3, "An idle connection is kept for a minute"), (4, "Bread needs flour and water")]);
    index.commit(Generation(3)).unwrap();
    index
}

#[test]
fn words_are_found_in_every_form_and_identifiers_by_their_parts() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    assert_eq!(found(&index, "connect idling?", None), [1, 3]);
    for question in ["readUserFile", "read a user's file", "path name", "PATH_NAME"] {
        assert_eq!(found(&index, question, None), [2], "{question}");
    }
    for nothing in ["", "  ", "+-&&||(", "zebra"] {
        assert!(found(&index, nothing, None).is_empty(), "{nothing}");
    }
}

#[test]
fn a_search_within_a_collection_sees_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    assert_eq!(found(&index, "idle connection", Some(&[ONE])), [1]);
    assert_eq!(found(&index, "idle connection", Some(&[TWO])), [3]);
    assert_eq!(found(&index, "idle connection", Some(&[ONE, TWO])).len(), 2);
    assert!(found(&index, "idle connection", Some(&[])).is_empty());
}

#[test]
fn scores_compare_between_questions() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    let best = |question: &str| index.search(question, None, None, 1).unwrap()[0].score;
    let (whole, half) = (best("bread flour water"), best("bread flour zebras giraffes"));
    assert!(whole > 0.3 && whole <= 1.0 && half < whole * 0.7, "{whole} {half}");
}

#[test]
fn the_generation_and_the_contents_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(&folder));
    let index = LexicalIndex::open(folder.path()).unwrap();
    assert_eq!((index.generation(), index.len()), (Some(Generation(3)), 4));
    assert_eq!(index.collections().unwrap(), [ONE, TWO]);
    assert_eq!(index.contents(TWO).unwrap(), [ChunkId(3), ChunkId(4)]);
}

#[test]
fn chunks_are_replaced_and_removed_at_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    add(&index, ONE, &[(1, "Zebras graze")]);
    index.remove(&[ChunkId(2), ChunkId(4711)]).unwrap();
    assert_eq!(found(&index, "dropped", None), [1], "not committed yet");
    index.commit(Generation(4)).unwrap();
    assert_eq!((found(&index, "zebra", None), found(&index, "dropped", None)), (vec![1], vec![]));
    index.remove_collection(TWO).unwrap();
    index.commit(Generation(5)).unwrap();
    assert_eq!((index.len(), index.collections().unwrap()), (1, vec![ONE]));
}

#[test]
fn what_was_not_committed_is_gone_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    add(&index, ONE, &[(9, "Zebras graze")]);
    drop(index);
    let index = LexicalIndex::open(folder.path()).unwrap();
    assert_eq!((index.generation(), index.len()), (Some(Generation(3)), 4));
}

#[test]
fn a_damaged_index_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(&folder));
    std::fs::write(folder.path().join("meta.json"), "{").unwrap();
    let index = LexicalIndex::open(folder.path()).unwrap();
    assert_eq!((index.generation(), index.len()), (None, 0));
}

/// Flips bits in the middle of every file with this ending.
fn damage(folder: &std::path::Path, ending: &str) {
    let is_meant = |name: &std::path::Path| name.to_str().unwrap().ends_with(ending);
    let mut damaged = 0;
    for path in
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| is_meant(path))
    {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 4;
        bytes[middle] ^= 0x15;
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0, "{ending}");
}

const KINDS: [&str; 9] =
    [".term", ".idx", ".pos", ".store", ".fast", ".fieldnorm", ".del", "meta.json", ".managed.json"];

fn with_removed(folder: &tempfile::TempDir) -> LexicalIndex {
    let index = filled(folder);
    index.remove(&[ChunkId(2)]).unwrap();
    index.commit(Generation(4)).unwrap();
    index
}

#[test]
fn a_flipped_bit_in_any_file_is_noticed_at_the_opening() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        drop(with_removed(&folder));
        assert_eq!(LexicalIndex::open(folder.path()).unwrap().generation(), Some(Generation(4)));
        damage(folder.path(), kind);
        let index = LexicalIndex::open(folder.path()).unwrap();
        assert_eq!((index.generation(), index.len()), (None, 0), "{kind}");
    }
}

#[test]
fn a_flipped_bit_in_an_open_index_is_noticed_before_it_is_asked_or_written() {
    for kind in &KINDS[..7] {
        let folder = tempfile::tempdir().unwrap();
        let index = with_removed(&folder);
        damage(folder.path(), kind);
        assert_eq!((index.generation(), index.len()), (None, 0), "{kind}");
        index.begin();
        add(&index, ONE, &[(1, "Zebras graze")]);
        index.commit(Generation(5)).unwrap();
        damage(folder.path(), kind.replace(".del", ".idx").as_str());
        let refused = index.remove(&[ChunkId(1)]).unwrap_err();
        assert!(matches!(refused, IndexError::Corrupt(_)), "{kind}: {refused}");
        assert_eq!((index.generation(), index.len()), (None, 0), "{kind}");
        index.begin();
        add(&index, ONE, &[(1, "Zebras graze")]);
        index.commit(Generation(5)).unwrap();
        assert_eq!(found(&index, "zebra", None), [1], "{kind}");
    }
}

#[test]
fn changes_are_not_committed_where_the_index_has_lost_what_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    index.begin();
    damage(folder.path(), ".term");
    assert_eq!(index.generation(), None, "it is begun anew");
    let news = LexicalEntry {
        chunk: ChunkId(9),
        collection: ONE,
        headings: "",
        text: "Zebras graze",
        is_code: false,
        language: None,
    };
    let refused = index.add(std::slice::from_ref(&news)).unwrap_err();
    assert!(matches!(refused, IndexError::Corrupt(_)), "{refused}");
    let refused = index.commit(Generation(4)).unwrap_err();
    assert!(matches!(refused, IndexError::Corrupt(_)), "{refused}");
    assert_eq!((index.generation(), index.len()), (None, 0));
    index.begin();
    index.add(&[news]).unwrap();
    index.commit(Generation(4)).unwrap();
    assert_eq!((index.generation(), found(&index, "zebra", None)), (Some(Generation(4)), vec![9]));
}

#[test]
fn an_index_that_cannot_be_begun_anew_answers_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let above = folder.path().join("above");
    let index = LexicalIndex::open(&above.join("index")).unwrap();
    add(&index, ONE, &[(1, "Connections are dropped when idle")]);
    add(&index, TWO, &[(3, "An idle connection is kept for a minute")]);
    index.commit(Generation(3)).unwrap();
    // There can be no folder below a file.
    std::fs::rename(&above, folder.path().join("away")).unwrap();
    std::fs::write(&above, "").unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        assert_eq!(index.generation(), None);
        for within in [&[ONE][..], &[TWO]] {
            let answer = index.search("idle connection", Some(within), None, 10);
            let Err(IndexError::Corrupt(reason)) = answer else { panic!("{answer:?}") };
            told.push(reason);
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "the reason stays the same");
    std::fs::remove_file(&above).unwrap();
    assert_eq!(index.generation(), None);
    index.begin();
    add(&index, ONE, &[(1, "Zebras graze")]);
    index.commit(Generation(4)).unwrap();
    assert_eq!(found(&index, "zebra", Some(&[ONE])), [1]);
}

#[test]
fn whatever_stands_in_the_place_of_its_files_makes_way() {
    for is_open in [true, false] {
        for is_folder in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let index = filled(&folder);
            if is_folder {
                std::fs::remove_dir_all(folder.path()).unwrap();
                std::fs::write(folder.path(), "x").unwrap();
            } else {
                damage(folder.path(), ".term");
                std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
            }
            let again = if is_open { index } else { LexicalIndex::open(folder.path()).unwrap() };
            assert_eq!((again.generation(), again.len()), (None, 0));
            again.begin();
            add(&again, ONE, &[(1, "Zebras graze")]);
            again.commit(Generation(4)).unwrap();
            assert_eq!(found(&again, "zebra", None), [1]);
            std::fs::remove_dir_all(folder.path()).unwrap();
            std::fs::create_dir(folder.path()).unwrap();
        }
    }
}

#[test]
fn a_shortened_or_missing_file_of_an_open_index_is_noticed_before_it_is_asked() {
    for change in ["shortened", "missing"] {
        let folder = tempfile::tempdir().unwrap();
        let index = filled(&folder);
        for path in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
            match change {
                "shortened" => std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap(),
                _ => std::fs::remove_file(path).unwrap(),
            }
        }
        assert_eq!((index.generation(), index.len()), (None, 0), "{change}");
        assert_eq!(found(&filled(&folder), "bread", None), [4], "{change}");
    }
}

/// Whoever damages a file this way is not seen before the file is read.
#[test]
fn damage_that_keeps_the_time_of_a_file_is_noticed_when_a_search_fails() {
    let mut noticed = 0;
    for kind in [".term", ".idx", ".fast", ".fieldnorm"] {
        let folder = tempfile::tempdir().unwrap();
        let index = filled(&folder);
        for path in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if !path.to_str().unwrap().ends_with(kind) {
                continue;
            }
            let before = std::fs::metadata(&path).unwrap().modified().unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let end = bytes.len() - 120;
            bytes[..end].fill(0xff);
            let mut file = std::fs::File::options().write(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            file.set_modified(before).unwrap();
        }
        assert_eq!(index.generation(), Some(Generation(3)), "{kind}: not seen yet");
        match index.search("idle connection", Some(&[ONE]), None, 10) {
            Ok(_) => {}
            Err(IndexError::Corrupt(_)) => {
                assert_eq!((index.generation(), index.len()), (None, 0), "{kind}");
                noticed += 1;
            }
            Err(other) => panic!("{kind}: {other}"),
        }
    }
    assert!(noticed > 0);
}

#[test]
fn a_file_with_another_time_and_the_same_content_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let index = filled(&folder);
    for path in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::write(&path, std::fs::read(&path).unwrap()).unwrap();
    }
    assert_eq!((index.generation(), index.len()), (Some(Generation(3)), 4));
}

#[test]
fn two_may_take_turns_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (filled(&folder), LexicalIndex::open(folder.path()).unwrap());
    add(&other, ONE, &[(9, "Zebras graze")]);
    let refused = one.remove(&[ChunkId(1)]).unwrap_err();
    assert!(refused.to_string().contains("another process writes to it"), "{refused}");
    other.commit(Generation(4)).unwrap();
    one.remove(&[ChunkId(1)]).unwrap();
    one.commit(Generation(5)).unwrap();
    assert_eq!((one.len(), found(&one, "zebra", None)), (4, vec![9]));
}

#[test]
fn a_search_among_some_finds_them_behind_any_number_of_better_ones() {
    let folder = tempfile::tempdir().unwrap();
    let index = LexicalIndex::open(folder.path()).unwrap();
    let better: Vec<(i64, &str)> = (1..=3_000).map(|chunk| (chunk, "heron heron heron")).collect();
    add(&index, ONE, &better);
    add(&index, ONE, &[(3_001, "a heron among many other birds that stand in the water of the lake")]);
    index.commit(Generation(1)).unwrap();
    let only: ChunkSet = [ChunkId(3_001), ChunkId(9_999)].into_iter().collect();
    let found = index.search("heron", None, Some(&only), 5).unwrap();
    assert_eq!(found.iter().map(|hit| hit.chunk.0).collect::<Vec<_>>(), [3_001]);
    assert!(index.search("heron", Some(&[TWO]), Some(&only), 5).unwrap().is_empty());
}

/// Otherwise a score would tell whether others have a word, and others could push hits down.
#[test]
fn scores_do_not_depend_on_collections_that_are_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let index = LexicalIndex::open(folder.path()).unwrap();
    add(
        &index,
        ONE,
        &[
            (1, "herons stand in the lake"),
            (2, "a lake is deep"),
            (3, "the deep heron stands still in a lake"),
        ],
    );
    index.commit(Generation(1)).unwrap();
    let scores = |index: &LexicalIndex| {
        let hits = index.search("heron in a deep lake", Some(&[ONE]), None, 5).unwrap();
        hits.iter().map(|hit| (hit.chunk.0, hit.score)).collect::<Vec<_>>()
    };
    let alone = scores(&index);
    assert_eq!(alone.len(), 3);
    let others: Vec<(i64, &str)> = (10..500).map(|chunk| (chunk, "heron heron heron")).collect();
    add(&index, TWO, &others);
    index.commit(Generation(2)).unwrap();
    assert_eq!(scores(&index), alone);
    let all = index.search("heron in a deep lake", None, None, 5).unwrap();
    assert_ne!(all.iter().map(|hit| (hit.chunk.0, hit.score)).collect::<Vec<_>>(), alone);
    drop(index);
    assert_eq!(scores(&LexicalIndex::open(folder.path()).unwrap()), alone);
}
