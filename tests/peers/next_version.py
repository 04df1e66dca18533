"""Checks that tokenizers 1.0 opens the files that we write and gives the same ids, or that a note says it does not."""

import json
import subprocess
from unicodedata import ucd_3_2_0

import families
import strings
from foreign import with_added
from ids import SPLITS, VOCAB_SIZE, equal, training_strings
from program import SPECIAL

# Start of the note that version 1.0 does not open a file.
NOTE = "tokenizers 1.0.0-rc.3 does not open"
# Families that our files cannot represent, because of the order of the ids of their added tokens.
NOT_WRITTEN = ["every flag"]
# Version 1.0.0-rc.3 misreads "at most two digits" as single digits. A note warns of this.
MISREAD = {"nanochat": "tokenizers 1.0.0-rc.3 splits numbers differently"}


def check(setting):
    if setting.next_python is None:
        yield "left out, no Python with tokenizers 1.0 is named"
        return
    corpus = setting.scratch / "next.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    documents = strings.varied(with_specials=True)
    for split in SPLITS:
        folder = setting.scratch / f"next-{split}"
        trained = setting.ran(
            "train", corpus, "-o", folder, "--vocab-size", VOCAB_SIZE, "--split", split, "--special-token", SPECIAL,
        )  # fmt: skip
        yield f"split {split}: {outcome(setting, folder, trained.stderr, documents, MISREAD.get(split))}"
    trained = json.loads((setting.scratch / "next-gpt4" / "tokenizer.json").read_text(encoding="utf-8"))
    for name, family in families.families():
        if name in NOT_WRITTEN:
            continue
        path = setting.scratch / f"next-family-{name.replace(' ', '-')}" / "tokenizer.json"
        path.parent.mkdir()
        path.write_text(json.dumps(families.file(trained, family)), encoding="utf-8")
        converted = path.parent / "converted"
        notes = setting.ran("convert", path.parent, "--to", "hf", "-o", converted).stderr
        documents = with_added(strings.varied(with_specials=False), [token["content"] for token in family["added"]])
        if family.get("normalizer"):
            documents = list(filter(is_old, documents))
        yield f"{name}, converted: {outcome(setting, converted, notes, documents)}"


def is_old(text):
    """Whether Unicode 3.2 has all characters of a text: version 1.0 normalizes with newer tables than version 0.x."""
    return all(ucd_3_2_0.category(character) != "Cn" for character in text)


def outcome(setting, folder, notes, documents, misread=None):
    """Requires equal ids, or the note that explains the difference. Returns a summary."""
    if misread is not None:
        assert misread in notes, f"{folder.name}: no note {misread!r} in {notes!r}"
        return f"left out, {misread}"
    theirs = encoded(setting, folder, documents)
    if theirs is None:
        assert NOTE in notes, f"{folder.name}: it does not open, and no note says so: {notes!r}"
        return "does not open, as a note says"
    assert NOTE not in notes, f"{folder.name}: it opens, but a note says that it does not"
    ours = setting.encode(f"{folder.parent.name}-{folder.name}-ids", documents, folder, "--special", "allow")
    equal(folder.name, documents, ours, theirs)
    return f"{len(documents)} strings equal in tokenizers 1.0"


def encoded(setting, folder, documents):
    """The ids that tokenizers 1.0 gives, or `None` if it does not open the file."""
    script = __file__.replace("next_version", "next_ids")
    texts, ids = folder / "texts.json", folder / "ids.json"
    texts.write_text(json.dumps(documents), encoding="utf-8")
    command = [setting.next_python, script, folder / "tokenizer.json", texts, ids]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        assert "ValueError" in done.stderr or "not supported" in done.stderr, done.stderr
        return None
    return json.loads(ids.read_text(encoding="utf-8"))
