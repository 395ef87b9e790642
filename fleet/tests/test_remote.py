from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs
from small import publish_histogram

from perftax_fleet import remote
from perftax_fleet.dataset import open_dataset
from perftax_fleet.errors import UsageError


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, fs.FileSystem]:
    """A folder behind the interface that object stores have, too."""
    monkeypatch.setenv(remote.CACHE, str(tmp_path / "cache"))
    (tmp_path / "store" / "bucket").mkdir(parents=True)
    return tmp_path / "store" / "bucket", fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())


def test_a_copy_holds_what_counts_now(store: tuple[Path, fs.FileSystem]) -> None:
    source, system = store
    first = publish_histogram(source, 1, 10)
    local = remote.fetch("s3://bucket", system, "bucket")
    assert open_dataset(local).publications == 1
    publish_histogram(source, 2, 20)
    publish_histogram(source, 3, 10, replaces=[1])
    (source / "publications" / f"{1:032x}.json").unlink()
    again = remote.fetch("s3://bucket", system, "bucket")
    assert again == local
    dataset = open_dataset(local)
    assert (dataset.publications, dataset.left_out) == (2, ())
    # A copy that was cut short is made anew.
    copied = local / first.relative_to(source)
    copied.write_bytes(b"x")
    remote.fetch("s3://bucket", system, "bucket")
    assert open_dataset(local).left_out == ()


def test_a_place_without_publications_is_refused(store: tuple[Path, fs.FileSystem]) -> None:
    with pytest.raises(UsageError, match="no data set"):
        remote.fetch("s3://bucket/none", store[1], "bucket/none")
    with pytest.raises(UsageError, match="s3://"):
        remote.open_store("ftp://x")
