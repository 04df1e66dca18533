"""Opens explorer pages in a real browser. The page gives the ids of the program: for strings that are typed, and for all
kinds of tokenizers. It logs no complaint, makes no request, runs nothing that a tokenizer contains, is painted within a
second with 200 000 tokens, fits phones and wide windows, and is used by keyboard."""

import itertools
import json
import random
from collections import Counter

import browser
import families
import strings
from ids import SPLITS, equal, training_strings
from program import SPECIAL

TYPED = 1_000
STRINGS = 300
# Families that are compared on all code points, as the named splits are: each has other changes of text.
EVERY_CODE_POINT = ["every flag", "decomposed", "compatible", "compatible, decomposed", "every behavior"]
ON_A_PAGE = 4
LARGE = 200_000
# Width and height in pixels.
WINDOWS = [(1280, 900), (390, 844)]
HOSTILE = [
    "</script><script>hacked = 1</script>",
    '"><img src=x onerror="hacked = 1">',
    "<!--<script>",
    "\u202e\u0007\u2028'\\",
]


def check(setting):
    path = browser.find()
    if path is None:
        yield "SKIPPED for want of a browser: " + ", ".join(browser.NAMES)
        return
    with browser.Browser(path, setting.scratch / "profile") as window:
        own = own_tokenizer(setting)
        yield typed(setting, window, own)
        yield from kinds(setting, window, own)
        yield hostile(setting, window, own)
        yield final_uses(setting, window)
        yield used_by_keyboard(setting, window, own)
        yield large(setting, window)


def own_tokenizer(setting):
    corpus = setting.scratch / "explorer.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    special = ["--special-token", "<|endoftext|>"]
    return setting.train("explorer-own", corpus, "--vocab-size", "2000", "--split", "gpt4", *special)


def explore(setting, name, *tokenizers):
    page = setting.scratch / f"{name}.html"
    setting.run("explore", *tokenizers, "-o", page)
    return page


def opened(window, page):
    window.open(page)
    assert not window.complaints, window.complaints


def typed(setting, window, own):
    """Strings pass through the text field, and their ids are those that the page shows."""
    # A text field has no carriage returns, and a box shows so many tokens at once.
    texts = [text for text in strings.varied(True) if "\r" not in text and "\0" not in text and len(text) < 400]
    texts = random.Random(7).sample(texts, TYPED)
    opened(window, explore(setting, "typed", own))
    found = window.run(
        """(() => {
        byId("special").click();
        byId("show-ids").click();
        const ids = text => {
            byId("text").value = text;
            byId("text").dispatchEvent(new Event("input"));
            return Array.from(document.querySelectorAll(".panel .token"), chip => Number(chip.textContent));
        };
        return %s.map(ids);
        })()"""
        % json.dumps(texts)
    )
    assert not window.complaints, window.complaints
    equal("typed", texts, setting.encode("explorer-typed", texts, own, "--special", "allow"), found)
    return f"{len(texts)} typed strings have the ids of the program"


def kinds(setting, window, own):
    """Tokenizers with each named split, and with the structures of known models, several on a page."""
    trained = json.loads((own / "tokenizer.json").read_text(encoding="utf-8"))
    trained["added_tokens"] = []
    trained["model"]["vocab"].pop("<|endoftext|>", None)
    corpus = setting.scratch / "explorer.jsonl"
    folders = []
    for split in SPLITS:
        folder = setting.train(f"explorer-split-{split}", corpus, "--vocab-size", "1000", "--split", split)
        folders.append((f"split {split}", {"added": []}, folder))
    for name, family in families.families():
        folder = setting.scratch / f"explorer-{name.replace(' ', '-')}"
        folder.mkdir()
        text = json.dumps(families.file(trained, family))
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        folders.append((name, family, folder))
    for at in range(0, len(folders), ON_A_PAGE):
        some = folders[at : at + ON_A_PAGE]
        opened(window, explore(setting, f"kinds-{at}", *(folder for _, _, folder in some)))
        for number, (name, family, folder) in enumerate(some):
            compare(setting, window, number, name, family, folder)
    yield f"{len(folders)} kinds of tokenizers give the ids of the program"


def compare(setting, window, number, name, family, folder):
    notice = window.run(f"tokenizers[{number}].facts.notice")
    assert notice is None, (name, notice)
    chance = random.Random(name)
    texts = strings.TRAPS + strings.mixtures(chance, STRINGS)
    texts += (
        strings.code_points()
        if name in EVERY_CODE_POINT or name.startswith("split")
        else chance.sample(strings.code_points(), STRINGS)
    )
    contents = [token["content"] for token in family["added"]] or [SPECIAL]
    texts = [
        text if chance.random() < 0.5 else text[: len(text) // 2] + chance.choice(contents) + text[len(text) // 2 :]
        for text in texts
    ]
    missing = ["--missing-bytes", "hf"] if family.get("lacks") else []
    for policy in ("text", "allow"):
        ours = setting.encode(f"{folder.name}-{policy}", texts, folder, "--special", policy, *missing)
        find = "true" if policy == "allow" else "false"
        script = f"{json.dumps(texts)}.map(text => tokenizers[{number}].encode(text, {find}).ids)"
        equal(f"{name}, specials {policy}", texts, ours, window.run(script))


def hostile(setting, window, own):
    """What tokenizers contain is shown, and neither run nor fetched."""
    # Its added tokens, its name, and its ordinary tokens.
    folder = setting.scratch / "<img src=x onerror='hacked=1'>"
    special = [flag for text in HOSTILE for flag in ("--add-special-token", text)]
    setting.run("convert", own, "--to", "hf", "-o", folder, *special, "--quiet")
    text = setting.scratch / "hostile.txt"
    text.write_text("".join(HOSTILE[:3]) * 50, encoding="utf-8")
    learned = setting.train("learned-hostile", text, "--vocab-size", "300", "--split", "none")
    opened(window, explore(setting, "hostile", folder, learned))
    shown = window.run(
        """(() => {
        byId("special").click();
        byId("text").value = %s;
        encodeAll();
        for (const [number, { vocabulary }] of tokenizers.entries()) {
            choose(number);
            for (let id = 0; id < vocabulary.limit; id += 7) openToken(number, id);
            for (let id = vocabulary.limit - 10; id < vocabulary.limit; id++) openToken(number, id);
        }
        return [typeof hacked, document.images.length, document.scripts.length, document.body.innerText];
        })()"""
        % json.dumps("".join(HOSTILE))
    )
    assert shown[:3] == ["undefined", 0, 2], shown[:3]
    assert HOSTILE[0] in shown[3] and r"\u{202e}\u{7}\u{2028}" in shown[3], shown[3][:1000]
    assert not window.complaints, window.complaints
    return f"{len(HOSTILE)} hostile tokens are only shown"


def final_uses(setting, window):
    """The final use of a token is how often it occurs in the text of the training."""
    text = setting.texts[0]
    folder = setting.train("explorer-uses", *text.arguments(), "--vocab-size", "900")
    ids = setting.encode("explorer-used", text.documents(), folder)
    occurs = Counter(itertools.chain.from_iterable(ids))
    opened(window, explore(setting, "uses", folder))
    uses = window.run("Array.from(tokenizers[0].vocabulary.finalUses(), use => Number.isNaN(use) ? null : use)")
    known = {id: use for id, use in enumerate(uses) if use is not None}
    different = {id: (use, occurs[id]) for id, use in known.items() if use != occurs[id]}
    assert not different, different
    assert len(known) > 500, len(known)
    return f"{len(known)} final uses as in the encoded text"


def used_by_keyboard(setting, window, own):
    """Keys reach tokens, the sheet and the vocabulary. Every window is filled and nothing is cut off."""
    other = setting.train("explorer-other", *setting.texts[0].arguments(), "--vocab-size", "700")
    opened(window, explore(setting, "keyboard", own, other))
    window.run("panels[0].tokens.focus()")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        window.press(key)
    second = window.run("panels[0].ids[1]")
    assert window.run("byId('sheet').innerText.includes(`id ${%d}`)" % second)
    window.press("Escape")
    assert window.run("byId('sheet').hidden && document.activeElement === panels[0].tokens")
    window.run("byId('search').value = '#300'; byId('search').dispatchEvent(new Event('input')); byId('rows').focus()")
    window.press("Enter")
    assert window.run("byId('sheet').innerText.includes('id 300') && state.ids.length === 1")
    window.press("Escape")
    window.run("byId('search').value = ''; byId('search').dispatchEvent(new Event('input'))")
    window.press("End")
    assert window.run("state.active === state.ids.length - 1 && !!byId(`row-${state.active}`)")
    for column in ("token", "bytes", "rank", "count", "final use", "script"):
        window.run(
            "Array.from(byId('columns').children).find(cell => cell.dataset.column === %s).firstChild.click()"
            % json.dumps(column)
        )
    for width, height in WINDOWS:
        for dark in (False, True):
            window.window(width, height, dark)
            fits, paper = window.run(
                "[document.documentElement.scrollWidth <= innerWidth, getComputedStyle(document.body).backgroundColor]"
            )
            assert fits, f"{width} pixels"
            assert (paper == "rgb(255, 255, 255)") != dark, paper
            window.screenshot(setting.scratch / f"explorer-{width}-{'dark' if dark else 'light'}.png")
    assert not window.complaints, window.complaints
    return f"keys, {2 * len(WINDOWS)} windows"


def large(setting, window):
    """A page with 200 000 tokens is painted within a second. 100 kB of text are encoded and shown in less."""
    folder = setting.scratch / "explorer-large"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(large_tokenizer(), encoding="utf-8")
    page = explore(setting, "large", folder)
    window.window(1280, 900)
    paints, readies = [], []
    for _ in range(3):
        opened(window, page)
        paints.append(window.run("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        readies.append(int(window.run("document.body.dataset.ready")))
    assert min(paints) < 1_000, paints
    text = " ".join(strings.mixtures(random.Random(3), 4_000))[:100_000]
    took = window.run(
        "(() => { const before = performance.now(); byId('text').value = %s; encodeAll(); return performance.now() - before; })()"
        % json.dumps(text)
    )
    assert took < 1_000, took
    assert not window.complaints, window.complaints
    return f"{LARGE} tokens: first paint after {min(paints):.0f} ms, ready after {min(readies):.0f} ms, 100 kB encoded and shown in {took:.0f} ms"


def large_tokenizer():
    """A tokenizer.json with random merges of letters."""
    chance = random.Random(1)
    alphabet = sorted(families.byte_of_character())
    keys, seen, merges = list(alphabet), set(alphabet), []
    letters = [key for key in alphabet if key.isalpha()]
    parts = letters + ["Ġ"]
    while len(keys) < LARGE:
        pair = (chance.choice(parts), chance.choice(parts))
        key = pair[0] + pair[1]
        if len(key) < 16 and key not in seen:
            seen.add(key)
            keys.append(key)
            parts.append(key)
            merges.append(pair)
    model = {"type": "BPE", "vocab": {key: id for id, key in enumerate(keys)}, "merges": merges}
    return json.dumps({"model": model, "pre_tokenizer": families.byte_level(use_regex=True), "added_tokens": []})
