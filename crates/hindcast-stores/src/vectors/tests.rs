use super::*;
use crate::vector_tests::{DIMENSION, MODEL, add, nearest};

const ONE: CollectionKey = CollectionKey(1);
const TWO: CollectionKey = CollectionKey(2);

fn open(folder: &tempfile::TempDir) -> VectorIndex {
    VectorIndex::open(folder.path(), MODEL, DIMENSION).unwrap()
}

fn files(folder: &tempfile::TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn what_was_committed_is_found_after_opening_again_and_what_was_not_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    assert_eq!(index.generation().unwrap(), None);
    add(&index, ONE, 1..=500);
    index.commit(Generation(7)).unwrap();
    add(&index, ONE, 501..=600);
    assert_eq!((index.len().unwrap(), nearest(&index, 550, None)), (600, Some(550)));
    drop(index);

    let index = open(&folder);
    assert_eq!((index.len().unwrap(), index.generation().unwrap()), (500, Some(Generation(7))));
    assert_eq!(nearest(&index, 42, None), Some(42));
    assert_ne!(nearest(&index, 550, None), Some(550));
    assert_eq!(index.contents(ONE).unwrap(), (1..=500).map(ChunkId).collect::<Vec<_>>());
    assert!(index.stored_bytes(ONE).unwrap() > 500 * 2 * DIMENSION as u64);
}

#[test]
fn removed_chunks_are_not_found_and_mostly_empty_segments_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=400);
    index.commit(Generation(1)).unwrap();
    let whole = index.stored_bytes(ONE).unwrap();

    index.remove(ONE, &[ChunkId(9), ChunkId(4711)]).unwrap();
    index.commit(Generation(2)).unwrap();
    assert_ne!(nearest(&index, 9, None), Some(9));
    drop(index);
    let index = open(&folder);
    assert_ne!(nearest(&index, 9, None), Some(9), "forgotten at the next start");
    assert_eq!((index.len().unwrap(), index.stored_bytes(ONE).unwrap()), (399, whole));

    index.remove(ONE, &(1..=300).map(ChunkId).collect::<Vec<_>>()).unwrap();
    index.commit(Generation(3)).unwrap();
    assert_eq!((index.len().unwrap(), nearest(&index, 350, None)), (100, Some(350)));
    assert!(index.stored_bytes(ONE).unwrap() < whole / 2, "{} of {whole}", index.stored_bytes(ONE).unwrap());
    assert_eq!(index.contents(ONE).unwrap().len(), 100);
}

#[test]
fn a_collection_that_goes_takes_its_files_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=10);
    index.commit(Generation(1)).unwrap();
    let files_of_one = files(&folder);
    add(&index, TWO, 11..=20);
    index.commit(Generation(2)).unwrap();
    assert!(files(&folder) > files_of_one);
    index.remove_collection(TWO).unwrap();
    index.commit(Generation(3)).unwrap();
    assert_eq!((files(&folder), index.collections().unwrap()), (files_of_one, vec![ONE]));
}

#[test]
fn another_model_or_a_damaged_file_means_an_empty_index_to_be_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=50);
    index.commit(Generation(1)).unwrap();
    drop(index);

    let other = VectorIndex::open(folder.path(), "another-model", DIMENSION).unwrap();
    assert_eq!((other.len().unwrap(), other.generation().unwrap()), (0, None));

    let graph = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "graph"))
        .unwrap();
    let bytes = fs::read(&graph).unwrap();
    fs::write(&graph, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = open(&folder);
    assert_eq!((damaged.len().unwrap(), damaged.generation().unwrap()), (0, None));
    add(&damaged, ONE, 1..=50);
    damaged.commit(Generation(2)).unwrap();
    assert_eq!(nearest(&open(&folder), 33, None), Some(33));
}

#[test]
fn small_segments_become_one_and_full_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = open(&folder);
    index.sizes = Sizes { small: 20, full: 250 };
    let sizes = |index: &VectorIndex| -> Vec<usize> {
        index.reading().collections[&ONE].iter().map(Segment::len).collect()
    };
    let mut seen = Vec::new();
    for round in 0..12 {
        add(&index, ONE, round * 30..round * 30 + 30);
        index.remove(ONE, &[ChunkId(round * 30)]).unwrap();
        index.commit(Generation(round as u64)).unwrap();
        seen.push(sizes(&index));
        for chunk in (0..round * 30 + 30).filter(|chunk| chunk % 30 != 0).step_by(7) {
            assert_eq!(nearest(&index, chunk, None), Some(chunk), "{round}");
        }
    }
    // Each was linked anew only when its segment doubled.
    assert_eq!(seen[..5], [vec![29], vec![58], vec![58, 29], vec![116], vec![116, 29]]);
    assert_eq!(seen[11], [232, 116]);
    assert_eq!(files(&folder), 1 + 2 * seen[11].len());
    assert_eq!(open(&folder).len().unwrap(), 12 * 29);
}
