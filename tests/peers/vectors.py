"""Compares with minbpe's own results on its test text: merges, number of tokens, and hash of the ids."""

import hashlib
import json
import struct

from program import byte_of_character, merges, token_ids

SPLITS = {"basic": "none", "regex": "gpt4"}


def check(setting):
    if setting.vectors is None or setting.corpora is None:
        yield "left out: no folder of vectors and corpora was given"
        return
    known = json.loads((setting.vectors / "taylorswift-minbpe-1000.json").read_text(encoding="utf-8"))
    text = setting.corpora / "taylorswift.txt"
    for name, expected in known.items():
        folder = setting.train(
            f"vectors-{name}", text, "--vocab-size", expected["vocab"], "--split", SPLITS[name],
            "--tie-break", "first", "--min-frequency", 1,
        )  # fmt: skip
        ours = numbered(merges((folder / "tokenizer.json").read_text(encoding="utf-8")))
        assert ours == list(map(tuple, expected["merges"])), f"{name}: other merges"
        output = setting.scratch / f"vectors-{name}-ids"
        setting.run("encode", text, "-t", folder, "-o", output, "--quiet")
        (ids,) = token_ids(output)
        assert len(ids) == expected["n_tokens"], f"{name}: {len(ids)} tokens"
        digest = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
        assert digest == expected["ids_sha256_u32le"], f"{name}: other ids"
        yield f"minbpe's {name} tokenizer: {len(ours)} merges and {len(ids)} ids equal"


def numbered(pairs):
    """The merges as pairs of minbpe's ids: byte values first, then one id per merge."""
    ids = {character: byte for character, byte in byte_of_character().items()}
    ours = []
    for left, right in pairs:
        ours.append((ids[left], ids[right]))
        ids[left + right] = 256 + len(ours) - 1
    return ours
