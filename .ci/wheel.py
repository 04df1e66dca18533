#!/usr/bin/env python3
"""Finishes and checks what is published on PyPI.

.ci/wheel.py finish WHEEL         removes what differs between two builds of the same sources from the list of
                                  components (SBOM): the paths of the machine, the time, and a random number; and
                                  compresses the files by libdeflate (package deflate), 3 % smaller than by zlib
.ci/wheel.py check WHEEL [MB]     tests the contents of a finished wheel, and its size
.ci/wheel.py sdist SDIST          tests that a source distribution has the files of this checkout, unchanged
.ci/wheel.py equal WHEEL OTHER    tests that two wheels are equal once they are finished
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path
from unittest import mock

import tomllib

try:
    from deflate import deflate_compress
except ImportError:  # only `finish` needs it
    deflate_compress = None

ROOT = Path(__file__).resolve().parent.parent

# Cargo writes a path into the name of each crate that is not from a registry.
OWN_CRATE = re.compile(r"path\+file://[^#\"]*#|\?download_url=file://[^#\"]*")


def hashed(data: bytes) -> str:
    """The hash of a file as RECORD has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def finished(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel without the details of this build, in their order."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for name, data in files.items():
        if "/sboms/" in name:
            bom = json.loads(OWN_CRATE.sub("", data.decode()))
            bom.pop("serialNumber", None)
            bom["metadata"].pop("timestamp", None)
            files[name] = json.dumps(bom, indent=1, ensure_ascii=False).encode()
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    rows = [(name, hashed(data), len(data)) for name, data in files.items() if name != record]
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows([*rows, (record, "", "")])
    files[record] = written.getvalue().encode()
    return files


class Compressor:
    """Compresses a file of a wheel once it has all of it, since libdeflate has no streams."""

    def __init__(self, *_: object) -> None:
        self.data = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Takes more of the file."""
        self.data += data
        return b""

    def flush(self) -> bytes:
        """The compressed file."""
        return bytes(deflate_compress(bytes(self.data), 12))


def finish(wheel: Path) -> None:
    """Rewrites a wheel without the details of this build."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    files = finished(wheel)
    rewritten = wheel.with_suffix(".rewritten")
    # The module zipfile has no other way to choose the compressor.
    with mock.patch.object(zipfile, "_get_compressor", Compressor), zipfile.ZipFile(rewritten, "w") as archive:
        for entry in entries:
            archive.writestr(entry, files[entry.filename], zipfile.ZIP_DEFLATED)
    rewritten.replace(wheel)


def equal(wheel: Path, other: str) -> None:
    """Fails if two wheels differ in more than the details of their builds."""
    one, two = finished(wheel), finished(Path(other))
    differ = [name for name in one.keys() | two.keys() if one.get(name) != two.get(name)]
    assert not differ, differ
    print(f"{wheel} equals {other}")


def machine_paths() -> list[str]:
    """Folders of this machine that are no one else's business."""
    homes = [os.environ.get(name, "") for name in ("CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR")]
    folders = {str(Path.home()), str(ROOT), *homes}
    return [path + end for path in folders if len(path) > 1 for end in {"/", os.sep}]


def components(bom: bytes) -> set[str]:
    """Names and versions of the crates in a list of components. Each has its licence and its address."""
    listed = json.loads(bom)
    assert listed["bomFormat"] == "CycloneDX" and "serialNumber" not in listed, listed.keys()
    for one in listed["components"]:
        assert one["licenses"] and one["purl"].startswith("pkg:cargo/"), one
    return {f"{one['name']} {one['version']}" for one in listed["components"]}


def crates_with_texts(document: str) -> set[str]:
    """Names and versions in the headings of THIRD_PARTY_LICENSES.txt."""
    headings = document.split("=" * 120 + "\n")[1::2]
    return {crate for heading in headings for crate in heading.replace("\n", " ").strip().split(", ")}


def check(wheel: Path, max_mb: str = "15") -> None:
    """Fails if the wheel is not as it should be."""
    size = wheel.stat().st_size / 1e6
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert size < float(max_mb), f"{size:.1f} MB"
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    info = f"tokenmill-{version}.dist-info/"
    threads = "-cp314-cp314t-" in wheel.name
    assert threads or f"tokenmill-{version}-cp310-abi3-" in wheel.name, wheel.name

    sources = {path.relative_to(ROOT / "python/src_py").as_posix(): path for path in python_files()}
    extensions = [name for name in files if re.fullmatch(r"tokenmill/_core\.[\w.-]+", name) and name not in sources]
    assert len(extensions) == 1 and (threads or extensions[0].split(".")[1] in ("abi3", "pyd")), extensions
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "sboms/tokenmill-python.cyclonedx.json"}
    texts = {f"licenses/{name}": ROOT / name for name in ("LICENSE", "THIRD_PARTY_LICENSES.txt")}
    expected = {*sources, *extensions, *(info + name for name in (*about, *texts))}
    assert set(files) == expected, set(files) ^ expected
    for name, path in [*sources.items(), *((info + name, path) for name, path in texts.items())]:
        assert files[name] == path.read_bytes(), f"{name} differs from {path}"

    rows = list(csv.reader(io.StringIO(files[info + "RECORD"].decode())))
    recorded = {name: (hash_, size) for name, hash_, size in rows if name != info + "RECORD"}
    assert recorded == {name: (hashed(data), str(len(data))) for name, data in files.items() if "RECORD" not in name}

    metadata = BytesParser().parsebytes(files[info + "METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("tokenmill", version), metadata.items()
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Requires-Python"] == ">=3.10", metadata.items()
    assert all("extra ==" in need for need in metadata.get_all("Requires-Dist")), metadata.get_all("Requires-Dist")
    readme = (ROOT / "python/README.md").read_text(encoding="utf-8")
    assert metadata.get_payload(decode=True).decode().strip() == readme.strip(), "not python/README.md"

    crates = components(files[info + "sboms/tokenmill-python.cyclonedx.json"])
    with_texts = crates_with_texts(files[info + "licenses/THIRD_PARTY_LICENSES.txt"].decode())
    # The texts are of all platforms, the components of one platform if the wheel was built for a target.
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    unknown = with_texts - {f"{one['name']} {one['version']}" for one in lock}
    assert unknown == {"the standard library of Rust"}, unknown
    assert len(with_texts & crates) > 300, len(with_texts & crates)
    found = {f"{path} in {name}" for path in machine_paths() for name, data in files.items() if path.encode() in data}
    assert not found, found
    print(f"{wheel.name}: {size:.1f} MB, {len(files)} files, {len(crates)} crates")


def python_files() -> list[Path]:
    """The files of the Python package, without those that an import leaves."""
    return [path for path in (ROOT / "python/src_py").rglob("*") if path.is_file() and path.suffix != ".pyc"]


def sdist(archive_path: Path) -> None:
    """Fails if a source distribution lacks a file that a build reads, or has another one."""
    with tarfile.open(archive_path) as archive:
        files = {
            member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in archive if member.isfile()
        }
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = ("src/", "templates/", "python/", "Cargo.lock", "pyproject.toml", "LICENSE", "THIRD_PARTY_LICENSES.txt")
    missing = {name for name in listed.split("\0") if name.startswith(needed)} - files.keys()
    assert not missing, missing
    unexpected = files.keys() - set(listed.split("\0")) - {"PKG-INFO"}
    assert not unexpected, unexpected
    # maturin adds PKG-INFO and removes `default-members` from Cargo.toml.
    assert tomllib.loads(files.pop("Cargo.toml").decode()) == without_default_members(), "Cargo.toml"
    assert files.pop("PKG-INFO").startswith(b"Metadata-Version: ")
    differ = {name for name, data in files.items() if (ROOT / name).read_bytes() != data}
    assert not differ, differ
    print(f"{archive_path.name}: {archive_path.stat().st_size / 1e6:.1f} MB, {len(files)} files")


def without_default_members() -> dict:
    """The manifest of the workspace as it is in a source distribution."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    del manifest["workspace"]["default-members"]
    return manifest


COMMANDS = {command.__name__: command for command in (finish, check, sdist, equal)}

if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
    raise SystemExit(__doc__)
COMMANDS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
