//! The fingerprint of a vocabulary: a hash of everything that decides how text is encoded and decoded.

use sha2::{Digest, Sha256};

use super::text_rules::{AddedToken, Normalizer, TextRules};
use super::vocabulary::{UnknownToken, Vocabulary};
use crate::base::int::to_u64;
use crate::base::integrity::hex;
use crate::split::SplitPattern;

/// Names the hashed representation of a vocabulary. A change to the representation needs another name: it is hashed
/// first, so the fingerprints of two representations never agree by accident.
const SCHEME: &[u8] = b"tokenmill vocabulary 1\n";

impl Vocabulary {
    /// Returns a SHA-256 in hexadecimal of everything that decides how text is encoded and decoded: tokens, ids,
    /// merges, added tokens, split, and normalization. It does not depend on the file from which the vocabulary was
    /// read.
    ///
    /// O(bytes of all tokens): keep the result if it is needed often.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(SCHEME);
        number(&mut hash, to_u64(self.tokens.len()));
        for token in self.tokens.iter() {
            match token {
                // A hole is hashed as 0 and a token without bytes as `u64::MAX`. Neither is the length of another
                // token.
                None => number(&mut hash, 0),
                Some([]) => number(&mut hash, u64::MAX),
                Some(bytes) => text(&mut hash, bytes),
            }
        }
        number(&mut hash, to_u64(self.added_only.len()));
        for id in &self.added_only {
            number(&mut hash, u64::from(id.get()));
        }
        number(&mut hash, to_u64(self.merges.len()));
        for merge in &self.merges {
            for part in [merge.left.get(), merge.right.get(), merge.result.get(), merge.rank] {
                hash.update(part.to_le_bytes());
            }
        }
        match &self.split {
            SplitPattern::None => hash.update([0]),
            SplitPattern::Named(named) => {
                hash.update([1]);
                text(&mut hash, named.name().as_bytes());
            }
            SplitPattern::Custom(regex) => {
                hash.update([2]);
                text(&mut hash, regex.as_bytes());
            }
            SplitPattern::Steps(_) => hash.update([3]),
        }
        hash.update([u8::from(self.ignore_merges)]);
        if self.hf_only().is_some() {
            self.hash_hf_only(&mut hash);
        }
        hex(&hash.finalize())
    }

    /// Hashes properties that no tokenizer trained by this program has. They are left out for all others, so that
    /// adding one does not change existing fingerprints.
    ///
    /// The tokens around a text are not hashed, because encoding does not add them.
    fn hash_hf_only(&self, hash: &mut Sha256) {
        let TextRules { normalizers, prefix_space } = &self.rules;
        let normalization = match &**normalizers {
            [] => 0,
            [Normalizer::Nfc] => 1,
            _ => 2,
        };
        hash.update([normalization, u8::from(*prefix_space)]);
        if normalization == 2 {
            let written = serde_json::to_string(normalizers).expect("strings and flags are always JSON");
            text(hash, written.as_bytes());
        }
        if let SplitPattern::Steps(steps) = &self.split {
            number(hash, to_u64(steps.len()));
            for step in steps {
                let kind = match step.pattern {
                    SplitPattern::Custom(_) => 0,
                    SplitPattern::Named(_) => 1,
                    SplitPattern::None => 2,
                    SplitPattern::Steps(_) => 3,
                };
                let odd = if step.is_plain() { 0 } else { 0x80 };
                hash.update([kind | odd, u8::from(step.covers)]);
                text(hash, step.pattern.to_string().as_bytes());
                if odd != 0 {
                    text(hash, step.to_string().as_bytes());
                }
            }
        }
        number(hash, to_u64(self.added.len()));
        for added in &self.added {
            number(hash, u64::from(added.id.get()));
            text(hash, added.text.as_bytes());
            let AddedToken { special, single_word, lstrip, rstrip, normalized, .. } = *added;
            hash.update([special, single_word, lstrip, rstrip, normalized].map(u8::from));
        }
        if let Some(UnknownToken { text: name, id, fuse }) = &self.unknown {
            hash.update(b"unk");
            match id {
                Some(id) => number(hash, u64::from(id.get())),
                None => text(hash, name.as_bytes()),
            }
            hash.update([u8::from(id.is_some()), u8::from(*fuse)]);
        }
    }
}

/// Hashes a number as 8 little-endian bytes.
fn number(hash: &mut Sha256, number: u64) {
    hash.update(number.to_le_bytes());
}

/// Hashes bytes after their length, so that a sequence of texts is unambiguous.
fn text(hash: &mut Sha256, bytes: &[u8]) {
    number(hash, to_u64(bytes.len()));
    hash.update(bytes);
}
