#!/usr/bin/env python3
"""Builds the site of the documents: `.ci/book.py check` runs mdBook and tests all links of the pages.

mdBook itself runs this file as a preprocessor. The documents are written for readers of the repository, so links that
lead out of docs/ are replaced: by the page of that document if the site has one, else by its address in the repository.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "target" / "book"

# A link to a file.
LINK = re.compile(r"""(?P<before>\]\(|\b(?:src|srcset|href)=")(?P<to>[^)"\s]+)""")

# A link that shows the path of a document as its text.
PATH = re.compile(r"\[`?(?P<text>[\w./-]+\.md)`?\]\((?P<to>[^)\s]+)\)")


def page(file: str) -> str:
    """The place in the site of a document, whose path in the repository is given."""
    if file == "README.md":
        return "index.md"
    return file.removeprefix("docs/").removesuffix("/README.md").removesuffix(".md").lower() + ".md"


def replaced(text: str, file: str, titles: dict[str, str], repository: str) -> str:
    """The text of the document `file` with links for the site. `titles` has the documents that are pages."""

    def target(link: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(file), link.partition("#")[0]))

    def titled(match: re.Match[str]) -> str:
        return f"[{titles.get(target(match['to']), match['text'])}]({match['to']})"

    def link(match: re.Match[str]) -> str:
        path, mark, heading = match["to"].partition("#")
        if "://" in path or not path:
            return match[0]
        path = target(path)
        if path in titles:
            path = page(path)
        elif path.startswith("docs/"):
            path = path.removeprefix("docs/")
        else:
            path = f"{repository}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        return f"{match['before']}{path}{mark}{heading}"

    # Every second part is a fenced block.
    parts = text.split("```")
    parts[::2] = [LINK.sub(link, PATH.sub(titled, part)) for part in parts[::2]]
    return "```".join(parts)


def chapters(items: list) -> Iterator[dict]:
    """The chapters of a book as mdBook gives it, nested ones included."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def preprocess() -> None:
    """Does what mdBook asks of a preprocessor: takes a book, and gives the book with its links replaced."""
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    found = {posixpath.normpath(f"docs/{chapter['source_path']}"): chapter for chapter in chapters(book["items"])}
    titles = {file: chapter["name"] for file, chapter in found.items()}
    for file, chapter in found.items():
        chapter["content"] = replaced(chapter["content"], file, titles, repository)
        chapter["path"] = page(file)
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The links of a page, and the names that links can lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Notes what an element links to, and its name."""
        for name, value in attributes:
            if name in ("href", "src", "srcset") and value:
                self.links.append(value)
            if name == "id" and value:
                self.names.add(value)


def check() -> None:
    """Builds the site and tests that each link leads to a file, and to a name in it."""
    subprocess.run(["mdbook", "build"], cwd=ROOT, check=True)
    pages = {file: Page(file) for file in SITE.rglob("*.html")}
    # `print.html` repeats all pages, and `404.html` is read at any address.
    checked = [file for file in pages if file.name not in ("print.html", "404.html", "toc.html")]
    broken = []
    for file in checked:
        for link in pages[file].links:
            path, _, name = link.partition("#")
            if ":" in path:
                continue
            to = Path(os.path.normpath(file.parent / path)) if path else file
            if not to.exists() or to in pages and name not in pages[to].names:
                broken.append(f"{file.relative_to(SITE)}: {link}")
    if broken:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(broken))
    print(f"{len(checked)} pages, {sum(len(pages[file].links) for file in checked)} links")


if sys.argv[1:2] == ["supports"]:
    sys.exit(0)
elif sys.argv[1:] == ["check"]:
    check()
elif not sys.argv[1:]:
    preprocess()
else:
    raise SystemExit(__doc__)
