use std::fs;

use crate::error::ErrorKind;
use crate::sink::OutputFolder;

#[test]
fn one_writer_at_a_time() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("new/out");
    let first = OutputFolder::open(&path).expect("the first");
    for error in [OutputFolder::check(&path), OutputFolder::open(&path).map(|_| ())] {
        let error = error.expect_err("a second");
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    }
    drop(first);
    OutputFolder::check(&path).expect("free again");
    OutputFolder::open(&path).expect("and still free");
}

#[test]
fn what_a_killed_run_left_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(OutputFolder::open(folder.path()).expect("a first run"));
    let unfinished = [
        "data/.tmp-train-00000.idx-Abc123",
        ".tmp-report.html-Abc123",
        ".tokenmill/.tmp-job.json-Abc123",
        "tokenizer/.tmp-tokenizer.json-Abc123",
        "tokenizer/vocab-300/.tmp-tokenizer.json-Abc123",
    ];
    // Another program may be writing the last one right now.
    let others = ["notes.txt", "data/notes.txt", "mine/.tmp-a-Abc123", ".tmp-mine", ".tmp-c.parquet-Abc123"];
    for name in unfinished.iter().chain(&others) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "x").expect("a file");
    }
    OutputFolder::open(folder.path()).expect("the next run");
    let left = |name: &str| folder.path().join(name).exists();
    assert!(!unfinished.into_iter().any(left) && others.into_iter().all(left));
}

#[test]
fn files_of_others_are_not_overwritten() {
    for name in ["README.md", "manifest.json", "report.json", "report.html", "data/x.parquet"] {
        for opened_before in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            if opened_before {
                drop(OutputFolder::open(folder.path()).expect("an empty folder"));
            }
            fs::create_dir_all(folder.path().join("data")).expect("a folder");
            fs::write(folder.path().join(name), "mine").expect("a file");
            for error in [OutputFolder::check(folder.path()), OutputFolder::open(folder.path()).map(|_| ())] {
                let error = error.expect_err(name);
                assert_eq!(error.kind(), ErrorKind::Usage);
                assert!(error.to_string().contains(name), "{error}");
            }
            assert_eq!(folder.path().join(".tokenmill").exists(), opened_before);
        }
    }
}

/// The index alone exists if a run is killed before it names the data file.
#[test]
fn an_index_without_its_file_is_known_while_that_is_unfinished() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(OutputFolder::open(folder.path()).expect("a first run"));
    fs::create_dir(folder.path().join("data")).expect("a folder");
    fs::write(folder.path().join(".tokenmill/job.json"), "{}").expect("a file");
    let index = folder.path().join("data/train-00000.idx");
    fs::write(&index, "x").expect("a file");
    let error = OutputFolder::open(folder.path()).expect_err("nothing is unfinished");
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("train-00000.idx"), "{error}");
    fs::write(folder.path().join(".tokenmill/incomplete-1"), "").expect("a file");
    OutputFolder::open(folder.path()).expect("it is the next file's");
    assert!(index.exists());
}

#[cfg(unix)]
#[test]
fn a_path_below_a_file_cannot_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    let error = OutputFolder::open(file.join("out")).expect_err("no folder");
    assert!(error.to_string().contains("file/out"), "{error}");
}

/// If any part of an output's state is a link, nothing is written through it.
#[cfg(unix)]
#[test]
fn links_in_the_state_are_refused_and_not_followed() {
    use std::os::unix::fs::symlink;
    for name in [
        ".tokenmill",
        "data",
        ".tokenmill/lock",
        ".tokenmill/job.json",
        ".tokenmill/owner-1",
        ".tokenmill/incomplete-1",
        ".tokenmill/row-groups.journal",
        ".tokenmill/files.journal",
        ".tokenmill/learned.journal",
        ".tokenmill/counts",
    ] {
        for (is_folder, dangling) in [(false, false), (true, false), (false, true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let (victim, chained_hash) = (folder.path().join("victim"), folder.path().join("out").join(name));
            match (is_folder, dangling) {
                (_, true) => {}
                (true, _) => fs::create_dir(&victim).expect("a folder"),
                (false, _) => fs::write(&victim, "precious").expect("a file"),
            }
            fs::create_dir_all(chained_hash.parent().expect("a folder")).expect("a folder");
            symlink(&victim, &chained_hash).expect("a link");
            let out = folder.path().join("out");
            for error in [OutputFolder::check(&out), OutputFolder::open(&out).map(|_| ())] {
                let error = error.expect_err(name);
                assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(name), "{error}");
            }
            assert!(chained_hash.is_symlink() && victim.exists() != dangling, "{name}");
            assert!(is_folder || dangling || fs::read(&victim).expect("a file") == b"precious");
            assert!(!is_folder || fs::read_dir(&victim).expect("a folder").next().is_none(), "{name}");
        }
    }
}

/// A holder that may wake up keeps the files that it has open.
#[test]
fn what_a_run_of_unknown_fate_left_is_not_written_on() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    drop(OutputFolder::open(folder.path()).expect("a first run"));
    let at = |name: &str| folder.path().join(".tokenmill").join(name);
    for (alive, names) in [(false, ["incomplete-1"; 1]), (true, ["incomplete-1"; 1])] {
        let mut old = fs::File::create(at(names[0])).expect("a file");
        fs::write(at("files.journal"), "").expect("a file");
        let mut journal = fs::OpenOptions::new().append(true).open(at("files.journal")).expect("a file");
        if alive {
            // The file of a holder that was cut off says nothing.
            let last = fs::read_dir(at("")).expect("a folder").map(|entry| entry.expect("an entry").path());
            let owner =
                last.filter(|path| path.to_string_lossy().contains("owner-")).max().expect("an owner");
            fs::write(owner, "").expect("a file");
        }
        let next = OutputFolder::open_after(folder.path(), std::time::Duration::from_millis(300))
            .expect("it is free");
        old.write_all(b"late").and_then(|()| journal.write_all(b"late")).expect("written");
        let late = |path: &std::path::Path| fs::read(path).is_ok_and(|text| text == b"late");
        assert_eq!(late(&at(&format!("unfinished-{}", next.number()))), !alive);
        assert_eq!(late(&at("files.journal")), !alive);
        drop(next);
    }
}
