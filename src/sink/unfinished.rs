//! Keeps a journal of the row groups of an incomplete data file, from which a later run resumes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::contents::Contents;
use super::hashed::Hashed;
use super::journal::Journal;
use crate::base::atomic_file;
use crate::base::digest::hex;
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::{Error, Result};

/// A row group that is in the incomplete file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    /// The number of the file.
    number: usize,
    /// The offset of the row group's end in the file, and the SHA-256 of everything before it.
    end: u64,
    sha256: String,
    /// Its entries for the footer, in base 64.
    metadata: String,
    contents: Contents,
    /// The caller's remarks.
    remarks: Vec<Value>,
}

/// The journal of the row groups that have been written to an incomplete file.
pub(super) struct GroupLog {
    journal: Journal,
    number: usize,
    /// The caller's remarks since the file was begun, and how many of them are in the journal.
    remarks: Vec<Value>,
    noted: usize,
}

impl GroupLog {
    /// Starts the journal of an empty file.
    pub(super) fn create(path: &Path, key: &str, number: usize) -> Result<GroupLog> {
        let journal = Journal::create(path, key)?;
        Ok(GroupLog { journal, number, remarks: Vec::new(), noted: 0 })
    }

    /// Adds a remark, which is stored with the next row group.
    pub(super) fn remark(&mut self, remark: Value) {
        self.remarks.push(remark);
    }

    /// Records a row group that has been written to the end of the file.
    pub(super) fn commit<W>(&mut self, file: &Hashed<W>, metadata: &[u8], contents: &Contents) -> Result<()> {
        let record = GroupRecord {
            number: self.number,
            end: file.bytes(),
            sha256: file.sha256(),
            metadata: BASE64_STANDARD.encode(metadata),
            contents: contents.clone(),
            remarks: self.remarks[self.noted..].to_vec(),
        };
        self.noted = self.remarks.len();
        self.journal.append(&record)
    }

    /// All remarks of the caller.
    pub(super) fn into_remarks(self) -> Vec<Value> {
        self.remarks
    }
}

/// The undamaged row groups of an incomplete file, with everything that is needed to resume.
pub(super) struct Unfinished {
    pub(super) number: usize,
    /// The contents of each row group, and its entries for the footer.
    pub(super) groups: Vec<(Contents, Vec<u8>)>,
    /// The file, cut off after the last of them.
    pub(super) file: Hashed<File>,
    /// The journal, to which further row groups are added.
    pub(super) log: GroupLog,
}

impl Unfinished {
    /// Finds the incomplete file at `path` by its journal; `None` if nothing of it can be used. Reads the whole file.
    ///
    /// # Errors
    /// The file or the journal exists, but cannot be read or written.
    pub(super) fn find(path: &Path, journal: &Path, key: &str) -> Result<Option<Unfinished>> {
        if !journal.exists() {
            return Ok(None);
        }
        let (mut log, mut records) = Journal::open::<GroupRecord>(journal, key)?;
        let Some(number) = records.first().map(|record| record.number) else { return Ok(None) };
        let mut file = match atomic_file::without_links(OpenOptions::new().read(true).write(true)).open(path)
        {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|cause| Error::io("read", path, cause))?,
        };
        let listed = records.len();
        let hasher = undamaged(&mut file, &mut records).map_err(|cause| Error::io("read", path, cause))?;
        let Some(end) = records.last().map(|record| record.end) else { return Ok(None) };
        if records.len() < listed {
            log = Journal::create(journal, key)?;
            records.iter().try_for_each(|record| log.append(record))?;
        }
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(|cause| Error::io("write", path, cause))?;
        let remarks: Vec<Value> = records.iter().flat_map(|record| record.remarks.clone()).collect();
        let group = |record: GroupRecord| {
            // A valid record was written by this program, so its metadata can be decoded.
            (record.contents, BASE64_STANDARD.decode(record.metadata).unwrap_or_default())
        };
        Ok(Some(Unfinished {
            number,
            groups: records.into_iter().map(group).collect(),
            file: Hashed::resumed(file, hasher, end),
            log: GroupLog { journal: log, number, noted: remarks.len(), remarks },
        }))
    }

    /// The caller's remarks.
    pub(super) fn remarks(&self) -> &[Value] {
        &self.log.remarks
    }

    /// The contents of all row groups together.
    pub(super) fn contents(&self) -> Contents {
        let mut sum = Contents::default();
        self.groups.iter().for_each(|(contents, _)| sum.add(contents));
        sum
    }
}

/// Keeps the records of the row groups that are undamaged in the file. Returns the hash of these row groups.
fn undamaged(file: &mut File, records: &mut Vec<GroupRecord>) -> io::Result<Sha256> {
    let number = records.first().map(|record| record.number);
    let (mut hasher, mut held) = (Sha256::new(), Sha256::new());
    let (mut end, mut good) = (0, 0);
    for record in &*records {
        let length = record.end.saturating_sub(end);
        if Some(record.number) != number || copy(file, &mut hasher, length)? < length {
            break;
        }
        if hex(hasher.clone().finalize().as_slice()) != record.sha256 {
            break;
        }
        (end, held, good) = (record.end, hasher.clone(), good + 1);
    }
    records.truncate(good);
    Ok(held)
}

/// Hashes this number of bytes, or fewer if the file ends. Returns how many.
fn copy(file: &mut File, hasher: &mut Sha256, length: u64) -> io::Result<u64> {
    let mut buffer = vec![0; u64_to_usize(length.min(1 << 18))];
    let mut left = length;
    while left > 0 {
        let wanted = buffer.len().min(u64_to_usize(left));
        match file.read(&mut buffer[..wanted]) {
            Ok(0) => break,
            Ok(read) => {
                hasher.update(&buffer[..read]);
                left -= to_u64(read);
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(length - left)
}
