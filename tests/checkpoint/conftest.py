"""Fixtures of this folder."""

import json
import time
import tracemalloc

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store
from tests.checkpoint.hostile import INDEX, ONE, TWO


@pytest.fixture
def refused():
    """A function that checks that a path is refused with these words, quickly and in little memory."""

    def read(path):
        store = open_store(path)
        for name in store.logical:
            store.read_logical(name)

    def check(path, words, error=CheckpointError):
        start = time.process_time()  # the machine's other work doesn't count
        with pytest.raises(error, match=words) as caught:
            read(path)
        assert time.process_time() - start < 1
        assert type(caught.value) is error
        assert len(str(caught.value)) < 1500
        assert "\n" not in str(caught.value)
        tracemalloc.start()
        try:
            with pytest.raises(error):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()

    return check


@pytest.fixture
def sharded(tmp_path):
    """A directory with two shards, to which an index can be given."""

    def build(places=None, text=None):
        save_tensors(tmp_path / ONE, {"a": np.zeros(2), "b": np.ones(3)})
        save_tensors(tmp_path / TWO, {"c": np.full(4, 2.0)})
        if text is None:
            text = json.dumps({"weight_map": {"a": ONE, "b": ONE, "c": TWO} if places is None else places}).encode()
        (tmp_path / INDEX).write_bytes(text)
        return tmp_path

    return build
