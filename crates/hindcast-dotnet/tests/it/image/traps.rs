//! PDBs that are made to be slow or large: small files whose parts point to the same parts over and over.

use hindcast_dotnet::image::{Pdb, Token, pdb::Import};

/// The rows of one table, each a row of bytes.
type Rows = (u32, Vec<Vec<u8>>);

/// A portable PDB of an assembly with `methods` methods. Heaps have wide offsets, tables narrow ones.
fn pdb(methods: u32, tables: &[Rows], blobs: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 24];
    head.extend((1u64 << 0x06).to_le_bytes());
    head.extend(methods.to_le_bytes());
    let mut stream = vec![0, 0, 0, 0, 2, 0, 7, 1];
    let valid = tables.iter().fold(0, |valid, (table, _)| valid | 1u64 << table);
    stream.extend([valid.to_le_bytes(), [0; 8]].concat());
    for (_, rows) in tables {
        stream.extend((rows.len() as u32).to_le_bytes());
    }
    stream.extend(tables.iter().flat_map(|(_, rows)| rows.concat()));
    let streams: [(&[u8], &[u8]); 4] = [
        (b"#Pdb\0\0\0\0", &head),
        (b"#~\0\0", &stream),
        (b"#Strings\0\0\0\0", b"\0name\0\0\0"),
        (b"#Blob\0\0\0", blobs),
    ];
    let mut file = b"BSJB\x01\0\x01\0\0\0\0\0\x0c\0\0\0PDB v1.0\0\0\0\0\0\0\x04\0".to_vec();
    let mut offset = file.len() + streams.iter().map(|(name, _)| 8 + name.len()).sum::<usize>();
    for (name, data) in streams {
        file.extend((offset as u32).to_le_bytes());
        file.extend((data.len() as u32).to_le_bytes());
        file.extend(name);
        offset += data.len();
    }
    for (_, data) in streams {
        file.extend(data);
    }
    file
}

/// Numbers of two and four bytes in a row of bytes.
fn row(short: &[u16], long: &[u32]) -> Vec<u8> {
    let short = short.iter().flat_map(|number| number.to_le_bytes());
    short.chain(long.iter().flat_map(|number| number.to_le_bytes())).collect()
}

/// A blob with its length in front.
fn blob(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32 | 0xc000_0000;
    [&length.to_be_bytes(), data].concat()
}

/// The row of a document whose path is the blob at an offset.
fn document(path: u32) -> Vec<u8> {
    row(&[], &[path, 0, 0, 0])
}

/// As many points as are asked for, each a line below the one before.
fn points(count: usize) -> Vec<u8> {
    // No local signature; offset 0, a column, line 1, column 1; then one further and a line below each time.
    let mut points = vec![0, 0, 0, 1, 1, 1];
    (1..count).for_each(|_| points.extend([1, 0, 1, 2, 0]));
    points
}

#[test]
fn points_that_all_methods_share_do_not_multiply() {
    let blobs = [&[0][..], &blob(&points(10_000)), &blob(b"/")].concat();
    let path = blobs.len() as u32 - 5;
    let methods: Vec<_> = (0..20_000).map(|_| [row(&[1], &[]), row(&[], &[1])].concat()).collect();
    let pdb = Pdb::parse(pdb(20_000, &[(0x30, vec![document(path)]), (0x31, methods)], &blobs)).unwrap();
    assert_eq!(pdb.sequence_points(Token::method(20_000)).unwrap().len(), 10_000);
    let document = pdb.document(1).unwrap();
    assert!(!pdb.lines_are_complete());
    assert_eq!(pdb.methods_in(document).len(), 2);
    assert_eq!(pdb.places_of_line(document, 10_000).unwrap().1.len(), 2);
}

#[test]
fn locals_that_all_scopes_share_do_not_multiply() {
    let count = 3000;
    // Every other scope owns all variables.
    let scopes = (0..count)
        .map(|number| row(&[1, 0, if number % 2 == 0 { 1 } else { count + 1 }, 1], &[0, 10]))
        .collect();
    let variables = (0..count).map(|slot| row(&[0, slot], &[1])).collect();
    let pdb = Pdb::parse(pdb(1, &[(0x32, scopes), (0x33, variables)], &[0])).unwrap();
    let scopes = pdb.scopes(Token::method(1));
    assert_eq!(scopes.iter().map(|scope| scope.variables.len()).sum::<usize>(), usize::from(count));
    assert_eq!(scopes[0].variables[7].name, "name");
}

#[test]
fn imports_that_lie_around_themselves_end() {
    let blobs = [&[0][..], &blob(&[1, 7]), &blob(b"System")].concat();
    let scope = |around| [row(&[around], &[]), row(&[], &[1])].concat();
    let imports = vec![scope(2), scope(1)];
    let scopes = vec![row(&[1, 2, 1, 1], &[0, 10])];
    let pdb = Pdb::parse(pdb(1, &[(0x32, scopes), (0x35, imports)], &blobs)).unwrap();
    let system = Import::Namespace { name: "System".into(), assembly: None, alias: None };
    assert_eq!(pdb.imports(Token::method(1)), [system.clone(), system]);
}

#[test]
fn a_path_that_repeats_a_part_without_end_is_none() {
    let part = blob(&[b'x'; 1000]);
    let path = part.len() as u32 + 1;
    let times = |count| [&[0][..], &part, &blob(&[&[b'/'][..], &vec![1; count]].concat())].concat();
    let open = |count| Pdb::parse(pdb(0, &[(0x30, vec![document(path)])], &times(count))).unwrap();
    assert_eq!(open(8).document(1).unwrap().path().map(|path| path.len()), Some(8007));
    assert_eq!(open(100_000).document(1).unwrap().path(), None);
    assert!(open(100_000).documents_matching("x").is_empty());
}
