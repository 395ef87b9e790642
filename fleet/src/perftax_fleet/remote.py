"""Data sets in an object store: what is needed is copied to a local folder, then read like any other."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pyarrow import fs

from perftax_fleet.errors import FleetError, UsageError
from perftax_fleet.publish import write_atomically

ENDPOINT = "PERFTAX_FLEET_S3_ENDPOINT"
CACHE = "PERFTAX_FLEET_CACHE"


def is_remote(address: str) -> bool:
    """Whether the address is of an object store."""
    return "://" in address


def cache_folder() -> Path:
    """Where copies are kept: $PERFTAX_FLEET_CACHE, else below $XDG_CACHE_HOME."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perftax-fleet-data"
    return Path(os.environ.get(CACHE) or default)


def open_store(address: str) -> tuple[fs.FileSystem, str]:
    """The store and the path within. Raises `UsageError`."""
    if not address.startswith("s3://"):
        raise UsageError(f"{address}: needed is a folder, or s3://BUCKET/PATH")
    endpoint = os.environ.get(ENDPOINT)
    options: dict[str, object] = {}
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options = {"endpoint_override": host, "scheme": scheme or "https"}
    return fs.S3FileSystem(**options), address.removeprefix("s3://").strip("/")


def fetch(address: str, store: fs.FileSystem, root: str) -> Path:
    """Copies publications and missing files of a data set; gives the local folder.

    Files are named by their content, so a copy never goes stale. Publications are copied anew, and those that are gone
    go. What cannot be copied is missing in the copy, where reading names and counts it.
    """
    # A folder for each address and endpoint: two stores may hold different things under one name.
    key = f"{os.environ.get(ENDPOINT, '')}\0{address}"
    local = cache_folder() / hashlib.sha256(key.encode()).hexdigest()[:32]
    try:
        markers = store.get_file_info(fs.FileSelector(f"{root}/publications"))
    except FileNotFoundError:
        raise UsageError(f"{address}: has no publications/, so it is no data set") from None
    except OSError as error:
        raise FleetError(f"{address}: cannot be listed: {error}; {ENDPOINT} names another endpoint") from error
    names = {Path(each.path).name for each in markers if each.is_file and each.path.endswith(".json")}
    (local / "publications").mkdir(parents=True, exist_ok=True)
    for name in names:
        _copy(store, f"{root}/publications/{name}", local / "publications" / name)
    for old in (local / "publications").glob("*.json"):
        if old.name not in names:
            old.unlink()
    listing = store.get_file_info(fs.FileSelector(root, recursive=True))
    for each in listing:
        path = local / each.path.removeprefix(root).lstrip("/")
        if each.is_file and each.path.endswith(".parquet") and not _is_copied(path, each.size):
            _copy(store, each.path, path)
    return local


def _is_copied(path: Path, size: int | None) -> bool:
    return path.is_file() and path.stat().st_size == size


def _copy(store: fs.FileSystem, source: str, target: Path) -> None:
    try:
        with store.open_input_stream(source) as stream:
            content: bytes = stream.read()
    except OSError:
        return  # Reading names it as missing.
    write_atomically(target, content)
