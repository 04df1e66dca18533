#!/usr/bin/env python3
"""Packs a built program for publication: `.ci/archive.py PROGRAM TARGET FOLDER`.

The archive has the program, its manual page, the completions of shells, the licences, and what is new. Equal contents
give equal archives: their time is SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "CHANGELOG.md", "LICENSE", "THIRD_PARTY_LICENSES.txt"]
COMPLETIONS = {"bash": "tokenmill.bash", "zsh": "_tokenmill", "fish": "tokenmill.fish", "powershell": "_tokenmill.ps1"}


def contents(program: Path) -> dict[str, bytes]:
    """The files of the archive by their paths in it."""

    def printed(*arguments: str) -> bytes:
        return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE).stdout

    files = {program.name: program.read_bytes(), "man/tokenmill.1": printed("man")}
    files |= {f"completions/{name}": printed("completions", shell) for shell, name in COMPLETIONS.items()}
    return files | {name: (ROOT / name).read_bytes() for name in DOCUMENTS}


def main(program: Path, target: str, folder: Path) -> None:
    """Writes the archive, as a .zip file for Windows."""
    if not program.exists():
        program = program.with_suffix(".exe")
    version = subprocess.run([program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    name = f"tokenmill-{version}-{target}"
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    folder.mkdir(parents=True, exist_ok=True)
    if "windows" in target:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for path, data in contents(program).items():
                entry = zipfile.ZipInfo(f"{name}/{path}", time.gmtime(moment)[:6])
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    else:
        with (
            open(folder / f"{name}.tar.gz", "wb") as file,
            gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=moment) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            for path, data in contents(program).items():
                entry = tarfile.TarInfo(f"{name}/{path}")
                entry.size, entry.mtime, entry.mode = len(data), moment, 0o755 if path == program.name else 0o644
                archive.addfile(entry, io.BytesIO(data))


if len(sys.argv) != 4:
    raise SystemExit(__doc__)
main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
