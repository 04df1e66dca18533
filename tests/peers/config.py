"""Checks that transformers reads our settings in tokenizer_config.json, and that added special tokens get equal ids."""

import json
import shutil

from transformers import AutoTokenizer

from program import SPECIAL

ROLES = {"pad": "<pad>", "unk": SPECIAL, "mask": "<mask>"}
MORE = ["<|user|>", SPECIAL, "<|bot|>"]
LENGTH = 2048
TEMPLATE = "{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}"
CHAT = [{"role": "user", "content": "How are you?"}, {"role": "assistant", "content": "Fine"}]


def check(setting):
    text = setting.texts[0]
    template = setting.scratch / "chat.jinja"
    template.write_text(TEMPLATE, encoding="utf-8")
    special = ["--special-token", SPECIAL, "--eos", SPECIAL]
    base = setting.train("config-base", *text.arguments(), "--vocab-size", 1000, "--split", "gpt4", *special)
    said = [item for role, token in ROLES.items() for item in (f"--{role}", token)]
    said += ["--model-max-length", LENGTH, "--chat-template", template]
    added = [item for token in MORE for item in ("--add-special-token", token)]

    # The result of the same settings in transformers itself, saved by transformers.
    theirs = AutoTokenizer.from_pretrained(base)
    roles = {f"{role}_token": token for role, token in ROLES.items()}
    theirs.add_special_tokens({"extra_special_tokens": MORE, **roles})
    theirs.model_max_length, theirs.chat_template = LENGTH, TEMPLATE
    saved = setting.scratch / "config-saved"
    theirs.save_pretrained(saved)

    converted = setting.scratch / "config-converted"
    setting.run("convert", base, "--to", "hf", "-o", converted, *added, *said)
    equal(converted, theirs)
    yield f"{len(MORE)} special tokens and {len(ROLES)} roles that are added: ids and chats as by add_special_tokens"

    kept = setting.scratch / "config-kept"
    setting.run("convert", saved, "--to", "hf", "-o", kept)
    equal(kept, theirs)
    assert AutoTokenizer.from_pretrained(kept).extra_special_tokens == theirs.extra_special_tokens
    setting.train("config-extended", *text.arguments(), "--vocab-size", 1100, "--extend", saved)
    equal(setting.scratch / "config-extended", theirs)
    yield "what save_pretrained writes is kept by convert and by train --extend"

    trained = setting.train("config-trained", *text.arguments(), "--vocab-size", 1000, *special, *said)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    ids = [tokenizer.convert_tokens_to_ids(token) for token in (SPECIAL, "<pad>", "<mask>")]
    assert ids == [997, 998, 999] and len(tokenizer) == 1000, (ids, len(tokenizer))
    told(tokenizer)
    yield "what training says is read"

    # The form of version 4, with no limit on the length, and with the template in the configuration.
    config = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
    old = setting.scratch / "config-old"
    shutil.copytree(saved, old)
    (old / "chat_template.jinja").unlink()
    config["additional_special_tokens"] = config.pop("extra_special_tokens")
    config |= {"chat_template": TEMPLATE, "model_max_length": int(1e30), "clean_up_tokenization_spaces": True}
    (old / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    again = setting.scratch / "config-again"
    setting.run("convert", old, "--to", "hf", "-o", again)
    before, after = AutoTokenizer.from_pretrained(old), AutoTokenizer.from_pretrained(again)
    assert before.model_max_length == after.model_max_length == int(1e30), after.model_max_length
    assert before.clean_up_tokenization_spaces and after.clean_up_tokenization_spaces
    assert before.extra_special_tokens == after.extra_special_tokens, after.extra_special_tokens
    assert before.special_tokens_map == after.special_tokens_map, after.special_tokens_map
    yield "so is what version 4 wrote"


def equal(folder, theirs):
    """Requires that the tokenizer in a folder has the same roles, ids and chats as theirs."""
    ours = AutoTokenizer.from_pretrained(folder)
    for token in [*MORE, *ROLES.values()]:
        ids = ours.convert_tokens_to_ids(token), theirs.convert_tokens_to_ids(token)
        assert ids[0] == ids[1], (folder, token, ids)
    told(ours)
    for special in (True, False):
        chats = [one.apply_chat_template(CHAT, tokenize=True)["input_ids"] for one in (ours, theirs)]
        texts = [one.decode(chats[0], skip_special_tokens=special) for one in (ours, theirs)]
        assert folder.name == "config-extended" or chats[0] == chats[1], (folder, chats)
        assert texts[0] == texts[1], (folder, texts)


def told(tokenizer):
    for role, token in {**ROLES, "eos": SPECIAL}.items():
        assert getattr(tokenizer, f"{role}_token") == token, (role, getattr(tokenizer, f"{role}_token"))
        assert getattr(tokenizer, f"{role}_token_id") == tokenizer.convert_tokens_to_ids(token), role
    assert tokenizer.model_max_length == LENGTH, tokenizer.model_max_length
    chat = tokenizer.apply_chat_template(CHAT, tokenize=False)
    assert chat == f"<|user|>user: How are you?{SPECIAL}\n<|user|>assistant: Fine{SPECIAL}\n", chat
