use std::fs;

use proptest::prelude::*;

use crate::sink::Journal;

#[test]
fn records_come_back_under_their_key_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (mut journal, none) = Journal::open::<String>(&path, "key").expect("a journal");
    assert!(none.is_empty());
    journal.append(&"one\ntwo").expect("a record");
    drop(journal);
    let (mut journal, one) = Journal::open::<String>(&path, "key").expect("a journal");
    assert_eq!(one, ["one\ntwo"]);
    journal.append(&"three").expect("a record");
    assert_eq!(Journal::open::<String>(&path, "key").expect("a journal").1, ["one\ntwo", "three"]);
    assert_eq!(Journal::parsable_records::<String>(&path).expect("a journal"), ["one\ntwo", "three"]);
    assert!(Journal::open::<String>(&path, "other").expect("a journal").1.is_empty());
    assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
}

proptest! {
    #[test]
    fn what_is_damaged_is_no_record(flip: prop::sample::Index, bit in 0_u32..8, cut: prop::sample::Index) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::create(&path, "key").expect("a journal");
        let records: Vec<Vec<u32>> = (0..5).map(|length| (0..length * 3).collect()).collect();
        records.iter().for_each(|record| journal.append(record).expect("a record"));
        let mut bytes = fs::read(&path).expect("a file");
        let at = flip.index(bytes.len());
        bytes[at] ^= 1 << bit;
        bytes.truncate(bytes.len() - cut.index(2) * cut.index(bytes.len()));
        let sound = bytes[..at.min(bytes.len())].iter().filter(|&&byte| byte == b'\n').count();
        fs::write(&path, &bytes).expect("a file");
        let (mut journal, found) = Journal::open::<Vec<u32>>(&path, "key").expect("a journal");
        prop_assert_eq!(&found, &records[..sound]);
        // Appending continues after the last valid record.
        journal.append(&vec![7_u32]).expect("a record");
        prop_assert_eq!(Journal::open::<Vec<u32>>(&path, "key").expect("a journal").1.len(), sound + 1);
    }
}
