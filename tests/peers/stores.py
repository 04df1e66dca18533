"""Outputs in an object store, with moto's S3 server and boto3 as the other side: what is there, as another client reads
it, are the bytes of a local run, also after kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import boto3
import pyarrow.parquet as parquet
from pyarrow import fs

BUCKET = "words"
# Runs that are killed, up to twice each.
KILLED = 5
KEYS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}

RECIPE = """
[source]
uri = "demo:verse?lines=900000&seed=5"
column = "line"
[sample]
take = 5000
[train]
vocab_size = 600
special_tokens = ["<end>"]
[encode]
documents = "all"
eos = "<end>"
[output]
dir = "{dir}"
file_text_bytes = {file_text_bytes}
format = "{format}"
"""


def server():
    """Starts the server on a free port of this machine. Returns the process and its address."""
    code = (
        "from moto.server import ThreadedMotoServer\n"
        "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)\n"
        "server.start()\n"
        "print(*server.get_host_and_port(), flush=True)\n"
        "import sys; sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)
    host, port = process.stdout.readline().split()
    return process, f"http://{host}:{port}"


def local_files(folder):
    """The files of a local output without the reports, which contain times."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    is_compared = lambda name: not name.startswith((".tokenmill", "report."))
    return {name: path.read_bytes() for name, path in found.items() if is_compared(name)}


def objects(client, prefix):
    """The objects below a prefix without the reports, by name."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    read = lambda key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    names = {key: key.removeprefix(prefix + "/") for key in keys}
    return {name: read(key) for key, name in names.items() if not name.startswith("report.")}


def compare(expected, found, what):
    assert expected.keys() == found.keys(), f"{what}: {sorted(expected)} locally, {sorted(found)} in the store"
    for name, content in expected.items():
        assert found[name] == content, f"{what}: {name} differs"


def unfinished_parts(client):
    """Parts of unfinished uploads. An upload that was begun just before a kill may stay, but has none."""
    uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    of = lambda upload: client.list_parts(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    return [part for upload in uploads for part in of(upload).get("Parts", [])]


def check(setting):
    process, address = server()
    try:
        yield from checks(setting, address)
    finally:
        process.stdin.close()
        process.wait(timeout=10)


def checks(setting, address):
    folder = setting.scratch / "stores"
    folder.mkdir()
    environment = {**os.environ, **KEYS, "AWS_ENDPOINT": address, "AWS_ALLOW_HTTP": "true"}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    session = boto3.Session(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1")
    client = session.client("s3", endpoint_url=address)
    client.create_bucket(Bucket=BUCKET)

    def command(output, kind, text):
        recipe = folder / "recipe.toml"
        recipe.write_text(RECIPE.format(dir=output, format=kind, file_text_bytes=text), encoding="utf-8")
        return [str(setting.program), "run", str(recipe), "--quiet"]

    def run(output, kind, text):
        subprocess.run(command(output, kind, text), cwd=folder, env=environment, check=True)

    # Parquet files of one part each, and files of ids that are uploaded in several parts.
    for kind, text in [("parquet", 6_000_000), ("bin", 30_000_000)]:
        run(f"local-{kind}", kind, text)
        expected = local_files(folder / f"local-{kind}")
        run(f"s3://{BUCKET}/{kind}", kind, text)
        compare(expected, objects(client, kind), kind)
        largest = max(len(content) for content in expected.values())
        yield f"{kind}: {len(expected)} objects of {largest} bytes at most, as boto3 reads them, are the local files"

    place = fs.S3FileSystem(
        access_key="somebody", secret_key="secret", region="us-east-1", endpoint_override=address
    )
    manifest = json.loads(client.get_object(Bucket=BUCKET, Key="parquet/manifest.json")["Body"].read())
    rows = parquet.read_table(f"{BUCKET}/parquet/data", filesystem=place).num_rows
    assert rows == sum(file["rows"] for file in manifest["files"]), f"{rows} rows"
    yield f"pyarrow reads {rows} rows from the store"

    random.seed(1)
    begun = time.monotonic()
    run(f"s3://{BUCKET}/timed", "bin", 30_000_000)
    whole, kills = time.monotonic() - begun, 0
    for number in range(KILLED):
        prefix = f"killed-{number}"
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/notes.txt", Body=b"mine")
        for _ in range(2):
            child = subprocess.Popen(command(f"s3://{BUCKET}/{prefix}", "bin", 30_000_000), cwd=folder, env=environment)
            try:
                child.wait(timeout=random.uniform(0.2, 0.9) * whole)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                kills += 1
            child.wait()
        run(f"s3://{BUCKET}/{prefix}", "bin", 30_000_000)
        found = objects(client, prefix)
        assert found.pop("notes.txt") == b"mine"
        compare(expected, found, "after kills")
        assert not unfinished_parts(client), f"parts of unfinished uploads: {unfinished_parts(client)}"
    assert kills >= KILLED, f"only {kills} kills"
    yield f"{kills} kills of {KILLED} runs: the same objects, and no parts left"

    lost = next(name for name in expected if name.endswith(".bin"))
    client.delete_object(Bucket=BUCKET, Key=f"timed/{lost}")
    run(f"s3://{BUCKET}/timed", "bin", 30_000_000)
    found = objects(client, "timed")
    compare(expected, found, "after a loss")
    yield "an object that was deleted is written again"
