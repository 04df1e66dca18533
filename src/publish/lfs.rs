//! Sends large files to the hub's file storage by the batch protocol of Git LFS, with its transfers `basic` (one
//! request for a file) and `multipart` (one for each part).
//!
//! Objects are named by their SHA-256. The storage says which of them it has, and those are not sent again. So an
//! interrupted push continues with the missing ones.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::http::{Answer, FilePart, Http, Trouble, ended, refused, refused_by_hub};
use crate::base::hash::Set;
use crate::base::int::to_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{Retries, in_one_line};
use crate::observer::{Observer, Stage};
use crate::sink::HashedFile;

/// Objects in one question to the storage. The addresses in its answer are valid for some hours.
const ASKED_AT_ONCE: usize = 32;

/// Objects that are sent at the same time.
const SENT_AT_ONCE: usize = 4;

/// Most parts of an object that are accepted from a server.
const MAX_PARTS: u64 = 100_000;

/// The media type of the protocol.
const MEDIA_TYPE: &str = "application/vnd.git-lfs+json";

/// The storage of one repository.
pub(super) struct Storage<'a> {
    /// Sends the requests.
    pub(super) http: &'a Http<'a>,
    /// Address to which questions about objects are sent.
    pub(super) address: String,
    /// The branch for which objects are sent.
    pub(super) branch: &'a str,
    /// The folder of the files.
    pub(super) folder: &'a Path,
    /// Receives progress.
    pub(super) observer: &'a dyn Observer,
}

/// The requests that bring an object into the storage.
#[derive(Debug, Deserialize)]
struct Actions {
    /// Where to send the object.
    upload: Action,
    /// Where to say that it was sent.
    verify: Option<Action>,
}

/// A request that the storage asks for.
#[derive(Debug, Deserialize)]
struct Action {
    /// The address, mostly with a signature.
    href: String,
    /// The headers to send. In the transfer `multipart`, they are the size of the parts and their addresses instead.
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

/// An object in an answer of the storage.
#[derive(Debug, Deserialize)]
struct Object {
    /// The SHA-256 of the object.
    oid: String,
    /// `None` if the storage has the object.
    actions: Option<Actions>,
    /// Why the storage does not take the object.
    error: Option<ObjectError>,
}

/// The reason that the storage does not take an object.
#[derive(Debug, Deserialize)]
struct ObjectError {
    /// A status code of HTTP.
    code: u16,
    /// The reason in words.
    message: String,
}

/// An answer of the storage.
#[derive(Debug, Deserialize)]
struct Batch {
    /// The objects that were asked about.
    objects: Vec<Object>,
}

/// Reports the progress of one object. Bytes that are sent again are not counted again.
struct Meter<'a> {
    /// Receives progress.
    observer: &'a dyn Observer,
    /// Most bytes of the object that were sent at any time.
    most: u64,
}

impl Meter<'_> {
    /// Says that the first `bytes` of the object are sent.
    fn reached(&mut self, bytes: u64) {
        if let Some(more) = bytes.checked_sub(self.most).filter(|more| *more > 0) {
            self.observer.advanced(Stage::Upload, more);
            self.most = bytes;
        }
    }
}

impl<'a> Storage<'a> {
    /// Sends the files that the storage does not have, and returns their number of bytes.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses, a file cannot be read, or a file has changed.
    pub(super) async fn send(&self, files: &[&HashedFile]) -> Result<u64> {
        let (mut seen, mut sent) = (Set::default(), 0);
        let distinct: Vec<&HashedFile> =
            files.iter().filter(|file| seen.insert(&file.sha256)).copied().collect();
        for files in distinct.chunks(ASKED_AT_ONCE) {
            let missing = self.missing(files).await?;
            let sending = files.iter().zip(missing).map(|(file, actions)| self.send_one(file, actions));
            let bytes: Vec<u64> = stream::iter(sending).buffer_unordered(SENT_AT_ONCE).try_collect().await?;
            sent += bytes.into_iter().sum::<u64>();
        }
        Ok(sent)
    }

    /// Sends one file, and returns the bytes that were sent: 0 if the storage has it. Addresses that have expired are
    /// asked for again.
    ///
    /// # Errors
    /// Those of [`send`](Storage::send).
    async fn send_one(&self, file: &HashedFile, mut actions: Option<Actions>) -> Result<u64> {
        let mut meter = Meter { observer: self.observer, most: 0 };
        let mut retries: Retries<'_> = self.http.retries(cannot_send(file));
        let mut sent = 0;
        while let Some(wanted) = actions {
            match self.transfer(file, &wanted, &mut meter).await {
                Ok(()) => {
                    sent = file.bytes;
                    break;
                }
                Err(trouble) => retries.failed(trouble).await.map_err(|error| of_file(file, error))?,
            }
            actions = self.missing(&[file]).await?.pop().flatten();
        }
        meter.reached(file.bytes);
        Ok(sent)
    }

    /// Asks which files the storage does not have. The result has an entry for each file, in order, which is `None` if
    /// the storage has it.
    ///
    /// # Errors
    /// The storage cannot be reached, refuses, or gives a wrong answer.
    async fn missing(&self, files: &[&HashedFile]) -> Result<Vec<Option<Actions>>> {
        let what = "the storage of the hub cannot be asked";
        ended(self.http.repeat(what, async || self.missing_once(files).await).await)
    }

    /// The same with a single request.
    ///
    /// # Errors
    /// Those of [`missing`](Storage::missing).
    async fn missing_once(&self, files: &[&HashedFile]) -> Result<Vec<Option<Actions>>, Trouble> {
        let objects = files.iter().map(|file| json!({ "oid": file.sha256, "size": file.bytes }));
        let question = json!({
            "operation": "upload",
            "transfers": ["basic", "multipart"],
            "hash_algo": "sha256",
            "ref": { "name": self.branch },
            "objects": objects.collect::<Vec<_>>(),
        });
        let answer = self.post_once(&self.address, &[], &question).await?;
        let batch: Batch = serde_json::from_slice(&answer.body).map_err(|cause| wrong_answer(&cause))?;
        let mut found: BTreeMap<String, Object> =
            batch.objects.into_iter().map(|object| (object.oid.clone(), object)).collect();
        let mut missing = Vec::new();
        for file in files {
            let object = found.remove(&file.sha256).ok_or_else(|| wrong_answer(&"an object is missing"))?;
            if let Some(ObjectError { code, message }) = object.error {
                return Err(match refused_by_hub(code, &message, None) {
                    Trouble::Final(error) => of_file(file, error).into(),
                    trouble => trouble,
                });
            }
            missing.push(object.actions);
        }
        Ok(missing)
    }

    /// Sends one file to the addresses in `actions`.
    ///
    /// # Errors
    /// A host cannot be reached or refuses, the file cannot be read, or it has changed.
    async fn transfer(
        &self,
        file: &HashedFile,
        actions: &Actions,
        meter: &mut Meter<'_>,
    ) -> Result<(), Trouble> {
        let Actions { upload, verify } = actions;
        match upload.part_bytes() {
            Some(part_bytes) => self.send_parts(file, upload, part_bytes, meter).await?,
            None => drop(
                self.send_part(file, &upload.href, &upload.headers(), 0..file.bytes, Sha256::new(), meter)
                    .await?,
            ),
        }
        if let Some(verify) = verify {
            let what = cannot_send(file);
            self.post(
                &what,
                &verify.href,
                &verify.headers(),
                &json!({ "oid": file.sha256, "size": file.bytes }),
            )
            .await?;
        }
        Ok(())
    }

    /// Sends a file in parts, one after another, and then says that it is complete.
    ///
    /// # Errors
    /// Those of [`transfer`](Storage::transfer), or the parts do not fit the file.
    async fn send_parts(
        &self,
        file: &HashedFile,
        upload: &Action,
        part_bytes: u64,
        meter: &mut Meter<'_>,
    ) -> Result<(), Trouble> {
        let addresses =
            upload.parts(file.bytes, part_bytes).ok_or_else(|| wrong_answer(&"the parts do not fit"))?;
        let (mut hash, mut tags) = (Sha256::new(), Vec::new());
        for (number, address) in (0..).zip(addresses) {
            let from = number * part_bytes;
            let span = from..(from + part_bytes).min(file.bytes);
            let (answer, after) = self.send_part(file, address, &[], span, hash, meter).await?;
            hash = after;
            let tag = answer.headers.get("etag").and_then(|tag| tag.to_str().ok());
            let tag = tag.ok_or_else(|| wrong_answer(&"a part was taken without an entity tag"))?;
            tags.push(json!({ "partNumber": number + 1, "etag": tag }));
        }
        let complete = json!({ "oid": file.sha256, "parts": tags });
        self.post(&cannot_send(file), &upload.href, &[], &complete).await
    }

    /// Sends a span of a file, and repeats that after temporary failures. `before` is the hash of the bytes before the
    /// span; the result has the hash of all bytes up to its end.
    ///
    /// # Errors
    /// Those of [`transfer`](Storage::transfer).
    async fn send_part(
        &self,
        file: &HashedFile,
        address: &str,
        headers: &[(&str, &str)],
        span: std::ops::Range<u64>,
        before: Sha256,
        meter: &mut Meter<'_>,
    ) -> Result<(Answer, Sha256), Trouble> {
        let part = FilePart {
            path: self.folder.join(&file.name),
            from: span.start,
            bytes: span.end - span.start,
            before,
            sha256: (span.end == file.bytes).then(|| file.sha256.clone()),
        };
        let attempt = async || {
            let sending =
                self.http.send_part(address, headers, &part, |bytes| meter.reached(part.from + bytes));
            match sending.await? {
                (answer, _) if !answer.is_success() => Err(refused(&answer, self.http.is_hub(address))),
                sent => Ok(sent),
            }
        };
        self.http.repeat(&cannot_send(file), attempt).await
    }

    /// Sends a message of the protocol with the headers that the storage has given, and repeats that after temporary
    /// failures.
    ///
    /// # Errors
    /// The host cannot be reached, or refuses.
    async fn post(
        &self,
        what: &str,
        address: &str,
        given: &[(&str, &str)],
        message: &Value,
    ) -> Result<(), Trouble> {
        let attempt = async || self.post_once(address, given, message).await.map(drop);
        self.http.repeat(what, attempt).await
    }

    /// The same with a single request. Returns the answer.
    ///
    /// # Errors
    /// Those of [`post`](Storage::post).
    async fn post_once(
        &self,
        address: &str,
        given: &[(&str, &str)],
        message: &Value,
    ) -> Result<Answer, Trouble> {
        let headers = [&[("accept", MEDIA_TYPE), ("content-type", MEDIA_TYPE)], given].concat();
        let (body, limit) = (Bytes::from(message.to_string()), self.http.work_limit());
        let answer = self.http.send(Method::POST, address, &headers, body, limit).await?;
        match answer.is_success() {
            true => Ok(answer),
            false => Err(refused(&answer, self.http.is_hub(address))),
        }
    }
}

impl Action {
    /// The size of parts, if the object is to be sent in parts.
    fn part_bytes(&self) -> Option<u64> {
        let size = self.header.get("chunk_size")?;
        size.as_u64().or_else(|| size.as_str()?.parse().ok())
    }

    /// The addresses of the parts of an object of this size, in order; `None` if their number is wrong.
    fn parts(&self, bytes: u64, part_bytes: u64) -> Option<Vec<&str>> {
        let number = bytes.div_ceil(Some(part_bytes).filter(|bytes| *bytes > 0)?);
        let by_number: BTreeMap<u64, &str> = self
            .header
            .iter()
            .filter_map(|(name, address)| Some((name.parse().ok()?, address.as_str()?)))
            .collect();
        let is_complete = number <= MAX_PARTS && to_u64(by_number.len()) == number;
        is_complete.then(|| by_number.into_values().collect())
    }

    /// The headers to send.
    fn headers(&self) -> Vec<(&str, &str)> {
        self.header.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
    }
}

/// The beginning of messages about a file.
fn cannot_send(file: &HashedFile) -> String {
    format!("{} cannot be sent", file.name)
}

/// Puts the name of a file before an error of a server. Errors of the file itself have it already.
fn of_file(file: &HashedFile, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Network | ErrorKind::Authorisation if !error.to_string().starts_with(&file.name) => {
            error.at(cannot_send(file))
        }
        _ => error,
    }
}

/// The error for an answer that is not of the protocol.
fn wrong_answer(problem: &dyn std::fmt::Display) -> Error {
    let problem = in_one_line(&problem.to_string());
    let error = format!("the storage of the hub gives an answer that cannot be used: {problem}");
    Error::message(ErrorKind::Network, error).with_help("check HF_ENDPOINT, then run the same command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_the_order_of_their_numbers_and_fit_the_object() {
        let header = json!({ "chunk_size": "10", "10": "j", "2": "b", "1": "a", "other": "x" });
        let action: Action =
            serde_json::from_value(json!({ "href": "h", "header": header })).expect("an action");
        assert_eq!(action.part_bytes(), Some(10));
        assert_eq!(action.parts(25, 10), Some(vec!["a", "b", "j"]));
        for (bytes, part_bytes) in [(20, 10), (31, 10), (25, 0)] {
            assert_eq!(action.parts(bytes, part_bytes), None, "{bytes} {part_bytes}");
        }
        let basic: Action = serde_json::from_value(json!({ "href": "h" })).expect("an action");
        assert_eq!(basic.part_bytes(), None);
    }
}
