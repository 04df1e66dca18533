#!/usr/bin/env python3
"""Writes THIRD_PARTY_LICENSES.txt: the licences of all crates in the wheels and the program.

With --check, only compares the file with what would be written. Of alternative licences, the first in PREFERRED is
taken. Needs cargo and Python 3.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "THIRD_PARTY_LICENSES.txt"

# The platforms of .github/workflows/release.yml.
PLATFORMS = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
]

# The Apache licence asks for its own text, which all crates share, and for the notices of some crates. The others ask
# for the text of each crate, since it names the holders of the copyright.
APACHE = "Apache-2.0"
PREFERRED = [APACHE, "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Unicode-3.0", "bzip2-1.0.6", "MPL-2.0"]

# Crates whose package lacks the text of the licence, each with a crate of the same authors that includes it.
SAME_TEXT = {"alloc-stdlib": "alloc-no-stdlib"}

INTRODUCTION = """\
tokenmill contains the Rust crates below, or parts of them, and the standard library of Rust. Each text is preceded by
the names and versions of the crates to which it applies. The sources of each crate, unchanged, are at
https://crates.io/crates/NAME/VERSION.
"""
NO_FILE = "The package of the crate has no text of its own. Its licence is MIT, its authors are: {authors}."


def packages() -> list[dict]:
    """What cargo knows of each crate that is part of a published binary."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    command += [argument for platform in PLATFORMS for argument in ("--filter-platform", platform)]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    package = {package["id"]: package for package in metadata["packages"]}
    needs = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    reached, open_ids = set(), [id_ for id_ in needs if package[id_]["name"] == "tokenmill-python"]
    while open_ids:
        id_ = open_ids.pop()
        if id_ not in reached:
            reached.add(id_)
            open_ids += [need["pkg"] for need in needs[id_] if any(kind["kind"] is None for kind in need["dep_kinds"])]
    found = [package[id_] for id_ in reached if package[id_]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def chosen(expression: str) -> list[str]:
    """The licences taken of an SPDX expression: one for each of the parts that AND joins."""
    parts = re.sub(r"[()]", "", expression.replace("/", " OR ")).split(" AND ")
    taken = set()
    for part in parts:
        alternatives = [alternative.strip() for alternative in part.split(" OR ")]
        taken.add(min(alternatives, key=lambda licence: PREFERRED.index(licence) if licence in PREFERRED else 99))
    return sorted(taken)


def files(package: dict, *beginnings: str) -> list[Path]:
    """The files of a crate whose names, in capitals, start so."""
    folder = Path(package["manifest_path"]).parent
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(beginnings))


def texts(package: dict, licence: str, by_name: dict[str, dict]) -> list[str]:
    """The texts of a licence in the package of a crate."""
    if licence == APACHE:
        return [(ROOT / "LICENSE").read_text(encoding="utf-8")]
    with_text = by_name[SAME_TEXT.get(package["name"], package["name"])]
    found = files(with_text, "LICENSE", "LICENCE", "COPYING")
    named = [path for path in found if licence.split("-")[0].upper() in path.name.upper()]
    unnamed = [path for path in found if not re.search("APACHE|MIT", path.name.upper())]
    if found:
        return [path.read_text(encoding="utf-8") for path in named or unnamed or found]
    if licence != "MIT":
        raise SystemExit(f"{package['name']} {package['version']} has no text of its licence {licence}")
    mit = files(by_name["tokio"], "LICENSE")[0].read_text(encoding="utf-8")
    authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
    return [f"{NO_FILE.format(authors=authors)}\n\n{mit[mit.index('Permission is') :]}"]


def tidy(text: str) -> str:
    """A text without differences that no reader sees."""
    lines = [line.rstrip() for line in text.replace("\ufeff", "").expandtabs().splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def crates_of(names: set[str]) -> str:
    """Names and versions in lines, none of which breaks within a name."""
    lines = wrap(", ".join(sorted(name.replace(" ", "\xa0") for name in names)), 120, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def document() -> str:
    """The whole file."""
    crates = packages()
    by_name = {package["name"]: package for package in crates}
    apache = tidy((ROOT / "LICENSE").read_text(encoding="utf-8"))
    names: dict[str, set[str]] = {apache: {"the standard library of Rust"}}
    for package in crates:
        found = [text for licence in chosen(package["license"]) for text in texts(package, licence, by_name)]
        found += [notice.read_text(encoding="utf-8") for notice in files(package, "NOTICE")]
        for text in found:
            names.setdefault(tidy(text), set()).add(f"{package['name']} {package['version']}")
    heading = {text: crates_of(names[text]) for text in names}
    line = "=" * 120
    sections = [f"{line}\n{heading[text]}\n{line}\n\n{text}\n" for text in sorted(names, key=heading.__getitem__)]
    return "\n".join([INTRODUCTION, *sections])


def main() -> None:
    """Writes or compares."""
    made = document()
    if sys.argv[1:] == ["--check"]:
        if not WRITTEN.exists() or WRITTEN.read_text(encoding="utf-8") != made:
            raise SystemExit(f"{WRITTEN.relative_to(ROOT)} is not up to date: run .ci/third_party.py")
    elif sys.argv[1:]:
        raise SystemExit(__doc__)
    else:
        WRITTEN.write_text(made, encoding="utf-8")


main()
