"""The structures of published tokenizer.json files, with merges of our own.

Each family has the structure of one model's file: normalizer, pre-tokenizer, added tokens, post-processor, and the
bytes without a token. The vocabulary is a small one of ours.
"""

import copy

from program import byte_of_character

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def byte_level(add_prefix_space=False, use_regex=False):
    return {
        "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex,
    }  # fmt: skip


def split(pattern, behavior="Isolated", invert=False):
    kind = "String" if pattern == "\n" else "Regex"
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": [*steps]}


def token(content, special=True, normalized=False, **flags):
    plain = {"content": content, "single_word": False, "lstrip": False, "rstrip": False}
    return plain | {"normalized": normalized, "special": special} | flags


def plain(content, **flags):
    return token(content, special=False, **({"normalized": True} | flags))


# Bytes that never occur in UTF-8, and so in no training text.
NEVER = bytes([0xC0, 0xC1, *range(0xF5, 0x100)])
# Bytes that hardly occur in text: control characters, and the lead bytes F1 to F4 of planes from 4 on.
RARE = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0xF1, 0xF5)])
SPACES = [plain(" " * length) for length in range(24, 1, -1)]
END = token("<|endoftext|>")
NFC = {"type": "NFC"}


def families():
    """Yields the name of each family with the parts of its file. With `keys`, added tokens are vocabulary keys too."""
    split_byte_level = lambda pattern, **how: sequence(split(pattern, **how), byte_level())
    gpt2 = byte_level(use_regex=True)
    roberta = [token(content, normalized=True) for content in ("<s>", "<pad>", "</s>", "<unk>")]
    mask = token("<mask>", normalized=True, lstrip=True)
    yield "gpt2", {"pre_tokenizer": gpt2, "added": [token("<|endoftext|>", normalized=True)], "keys": True}
    yield "roberta", {
        "pre_tokenizer": byte_level(add_prefix_space=True, use_regex=True), "added": [*roberta, mask], "keys": True,
        "post_processor": {
            "type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
            "trim_offsets": True, "add_prefix_space": True,
        },
    }  # fmt: skip
    tabs = [plain("\t" * length) for length in range(9, 1, -1)]
    yield "phi", {"pre_tokenizer": gpt2, "added": [END, *SPACES, *tabs]}
    modernbert = [token("[CLS]"), token("[SEP]"), token("[MASK]", lstrip=True), plain("|||IP_ADDRESS|||", normalized=False)]
    yield "olmo and modernbert", {
        "normalizer": NFC, "pre_tokenizer": gpt2, "added": [END, *SPACES, *modernbert], "lacks": NEVER,
    }  # fmt: skip
    yield "gpt-neox", {
        "normalizer": NFC, "pre_tokenizer": gpt2, "added": [END, token("<|padding|>"), *SPACES], "keys": True, "lacks": NEVER,
    }  # fmt: skip
    unk = [token("[UNK]"), token("[PAD]")]
    yield "no initial alphabet", {"pre_tokenizer": gpt2, "added": [END], "keys": True, "lacks": NEVER + RARE}
    for name, fuse in (("unk_token", False), ("unk_token fused", True)):
        yield name, {
            "pre_tokenizer": gpt2, "added": unk, "keys": True, "lacks": NEVER + RARE, "unk_token": "[UNK]", "fuse_unk": fuse,
        }  # fmt: skip
    yield "whisper", {"pre_tokenizer": gpt2, "added": [END, token("<|startoftranscript|>"), plain("<|0.00|>", normalized=False)], "empty": True}
    llama3 = [token("<|begin_of_text|>"), token("<|eot_id|>"), token("<|python_tag|>")]
    yield "llama3", {"pre_tokenizer": split_byte_level(LLAMA3), "added": llama3, "ignore_merges": True}
    yield "olmo2", {
        "pre_tokenizer": split_byte_level(LLAMA3, behavior="Removed", invert=True), "added": [END, plain("|||EMAIL|||", normalized=False)],
    }  # fmt: skip
    qwen = [END, token("<|im_start|>"), token("<|im_end|>"), *(plain(tag, normalized=False) for tag in ("<tool_call>", "</tool_call>", "<think>"))]
    yield "qwen2.5 and 3", {"normalizer": NFC, "pre_tokenizer": split_byte_level(QWEN2), "added": qwen}
    yield "o200k", {"pre_tokenizer": split_byte_level(O200K), "added": [END, token("<|endofprompt|>")], "ignore_merges": True}
    yield "mistral nemo", {"pre_tokenizer": split_byte_level(TEKKEN, behavior="Removed", invert=True), "added": [token("<s>"), token("[INST]")]}
    deepseek = [token("<｜begin▁of▁sentence｜>"), token("<｜end▁of▁sentence｜>"), plain("<think>"), plain("</think>"), plain("<｜User｜>", normalized=False)]
    nothing = {"type": "Sequence", "normalizers": []}
    yield "deepseek v3", {
        "normalizer": nothing, "pre_tokenizer": sequence(*map(split, DEEPSEEK_V3), byte_level()), "added": deepseek, "keys": True,
    }  # fmt: skip
    v2 = [
        "[\r\n]", "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-Ⴥ]+",
        "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
    ]  # fmt: skip
    yield "deepseek v2", {"pre_tokenizer": sequence(*map(split, v2), digits(True), byte_level()), "added": deepseek, "keys": True}
    yield "starcoder and smollm", {
        "pre_tokenizer": sequence(digits(True), gpt2), "added": [END, token("<fim_prefix>"), token("<file_sep>")], "lacks": NEVER,
    }  # fmt: skip
    yield "command-r", {"normalizer": NFC, "pre_tokenizer": sequence(digits(True), gpt2), "added": [token("<PAD>"), plain("<|NEW_FILE|>")]}
    yield "bloom", {"pre_tokenizer": split_byte_level(BLOOM), "added": [token("<unk>"), token("<s>")]}
    odd = [
        plain("word", single_word=True), plain("e\u0301"), plain("ö", normalized=False), plain(" <l>", lstrip=True),
        plain("<r>", rstrip=True, normalized=False), plain("\n", normalized=False), token("<b>", lstrip=True, rstrip=True),
        plain("b>!"), plain("the", rstrip=True, single_word=True),
    ]  # fmt: skip
    yield "every flag", {"normalizer": NFC, "pre_tokenizer": sequence(digits(False), split("\n"), gpt2), "added": odd, "ignore_merges": True}
    yield "no split", {"normalizer": NFC, "pre_tokenizer": byte_level(add_prefix_space=True), "added": [END, mask, plain("low", single_word=True)]}


    yield "decomposed", {
        "normalizer": normalizers({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
        "pre_tokenizer": split_byte_level(LLAMA3), "added": [END, plain("Straße"), plain("É", normalized=False)],
    }  # fmt: skip
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    yield "compatible", {"normalizer": normalizers(strip, {"type": "NFKC"}), "pre_tokenizer": gpt2, "added": [END, plain("ﬁ", lstrip=True)]}
    yield "compatible, decomposed", {"normalizer": normalizers({"type": "NFKD"}), "pre_tokenizer": gpt2, "added": [END]}
    prepend, replaced = {"type": "Prepend", "prepend": "_"}, replace({"Regex": "\\s+(?=\\S)"}, " ")
    nested = normalizers(replaced, normalizers(replace({"String": "``"}, '"'), replace({"String": "e\u0301"}, "é")), prepend)
    yield "replaced", {"normalizer": nested, "pre_tokenizer": sequence(sequence(split("\n"), sequence(gpt2))), "added": [END, plain("b``")]}


    thousands = split("[0-9][0-9][0-9]")
    yield "falcon", {"pre_tokenizer": sequence(punctuation("Contiguous"), gpt2, digits(False), thousands), "added": [END, token(">>TITLE<<")]}
    merged = sequence(
        split("\\p{Lu}|[.]", "MergedWithNext"), sequence(split("\\s|b", "MergedWithPrevious", invert=True), split("e+|,", "Contiguous")),
        punctuation("MergedWithPrevious"), byte_level(), split("[0-9]|Ġ", "MergedWithNext"), digits(True),
    )  # fmt: skip
    yield "every behavior", {"pre_tokenizer": merged, "added": [END]}


def punctuation(behavior):
    return {"type": "Punctuation", "behavior": behavior}


def normalizers(*steps):
    return {"type": "Sequence", "normalizers": [*steps]}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def file(trained, family):
    """Builds a tokenizer.json from the merges of a trained tokenizer and the parts of a family."""
    made = copy.deepcopy(trained)
    model, added = made["model"], family["added"]
    if family.get("lacks"):
        leave_out(model, family["lacks"])
    if family.get("empty"):
        model["vocab"][""] = len(model["vocab"])
    for key in ("unk_token", "fuse_unk"):
        model[key] = family.get(key, model[key])
    if family.get("keys"):
        contents = [token["content"] for token in added]
        shifted = {key: id + len(added) for key, id in model["vocab"].items() if key not in contents}
        model["vocab"] = {content: id for id, content in enumerate(contents)} | shifted
    next_id = len(model["vocab"])
    made["added_tokens"] = []
    for token in added:
        id = model["vocab"].get(token["content"])
        if id is None:
            id, next_id = next_id, next_id + 1
        made["added_tokens"].append({"id": id} | token)
    model["ignore_merges"] = family.get("ignore_merges", False)
    if model["ignore_merges"]:
        # Drop some merges, because such files have tokens that no merge makes.
        model["merges"] = [merge for number, merge in enumerate(model["merges"]) if number % 7 != 6 or number < 500]
    for part in ("normalizer", "pre_tokenizer", "post_processor"):
        made[part] = family.get(part)
    return made


def leave_out(model, lacks):
    """Removes bytes, and all tokens and merges that contain them, as if no training text had contained them."""
    byte_of, lacks = byte_of_character(), set(lacks)

    def stays(key):
        return not any(byte_of.get(character) in lacks for character in key)

    kept = filter(stays, sorted(model["vocab"], key=model["vocab"].get))
    model["vocab"] = {key: id for id, key in enumerate(kept)}
    model["merges"] = [merge for merge in model["merges"] if stays(merge if isinstance(merge, str) else "".join(merge))]
