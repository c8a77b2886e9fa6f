"""GNU Octave reads data sets that sigbank and the reference package wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sigbank import jbof as ours

MATLAB = Path(__file__).parents[2] / "matlab"

TELL = """
addpath('{matlab}');
ds = sigbank.DataSet('{folder}');
told = struct('name', ds.name, 'license', ds.metadata.license);
told.items = cellfun(@(item) item.name, ds.allItems(), 'UniformOutput', false);
told.has = [ds.hasItem('take 1'), ds.hasItem('../x'), ds.hasItem('none')];
told.found = numel(ds.findItems('speaker', {{'bob', 'ann'}}, 'snr', 3));
told.missed = isempty(ds.findOneItem('snr', 4));
item = ds.getItem('take 1');
told.arrays = item.arrayNames();
told.hasArray = [item.hasArray('ramp'), item.hasArray('_metadata')];
for name = told.arrays
  [x, meta] = item.getArray(name{{1}});
  x = double(x);
  told.(name{{1}}) = struct('size', size(x), 'real', real(x(:))', 'imag', imag(x(:))', 'metadata', meta);
end
try
  ds.getItem('none');
catch e
  told.error = e.identifier;
end
puts(['TOLD ', jsonencode(told), 10]);
"""


SEARCH = """
addpath('{matlab}');
ds = sigbank.DataSet('{folder}');
count = @(varargin) numel(ds.findItems(varargin{{:}}));
told.row = count('takes', [1 2 3]);
told.column = count('takes', [1; 2; 3]);
told.other = count('takes', [1 2]);
told.either = count('takes', {{[4 5], [1 2 3]}});
told.one = count('n', 7);
told.any = count('n', {{7, 8}});
told.text = count('speaker', 'ann');
told.codes = count('speaker', double('ann'));
told.none = count('no such key', 1);
told.all = count();
arrays = ds.getItem('a').allArrays();
told.names = arrays(:, 1)';
told.values = cell2mat(arrays(:, 2)');
[told.warning, told.identifier] = lastwarn();
try
  ds.getItem('a').getArray('damaged');
catch e
  told.error = e.message;
end
puts(['TOLD ', jsonencode(told), 10]);
"""


LISTS = """
addpath('{matlab}');
ds = sigbank.DataSet('{folder}');
names = @(varargin) cellfun(@(item) item.name, ds.findItems(varargin{{:}}), 'UniformOutput', false);
told.scalar = names('x', 1);
told.list = names('x', {{{{1}}}});
told.nested = names('x', {{{{[1 2]}}}});
told.vector = names('x', [1 2]);
told.any = names('x', {{1, [1 2], {{1}}}});
told.truth = names('x', true);
told.odd = names('odd "key": [', 5);
told.oddList = names('odd "key": [', {{{{5}}}});
told.text = names('x', 'a');
item = ds.getItem('e');
for name = item.arrayNames()
  x = item.getArray(name{{1}});
  told.of.(name{{1}}) = struct('size', size(x), 'class', class(x));
end
for name = {{'wav', 'mat'}}
  try
    ds.getItem('damaged').getArray(name{{1}});
  catch e
    told.damaged.(name{{1}}) = {{e.identifier, e.message}};
  end
end
puts(['TOLD ', jsonencode(told), 10]);
"""


def told_of(folder: Path, tell: str = TELL) -> Any:
    code = tell.format(matlab=MATLAB, folder=folder)
    command = ["octave", "--no-gui", "--no-init-file", "--quiet", "--eval", code]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in said.stdout.splitlines() if line.startswith("TOLD ")]
    assert lines, said.stdout + said.stderr
    return json.loads(lines[0][5:])


@pytest.mark.skipif(shutil.which("octave") is None, reason="GNU Octave is not installed")
@pytest.mark.parametrize("writer", ["ours", "reference"])
def test_octave_reads_what_is_written(writer: str, tmp_path: Path) -> None:
    module: Any = ours if writer == "ours" else pytest.importorskip("jbof")
    folder = tmp_path / "speech"
    dataset = module.create_dataset(str(folder), metadata={"license": "CC0"})
    item = dataset.add_item(name="take 1", metadata={"speaker": "ann", "snr": 3})
    tone = np.array([[0.0, 0.5], [-0.25, -1.0], [0.125, 0.75]])
    values = {
        "ramp": (np.asfortranarray(np.arange(24, dtype=">f4").reshape(2, 3, 4)), "npy"),
        "iq": (np.array([1 + 2j, 3 - 4j], "complex64"), "npy"),
        "half": (np.array([[1.5], [-65504.0], [2.0**-24]], "float16"), "npy"),
        "matrix": (np.arange(6, dtype="int16").reshape(2, 3), "mat"),
        "wav": (tone, "wav"),
        "flac": (tone[:, 0], "flac"),
    }
    for name, (data, fileformat) in values.items():
        rate = {"samplerate": 8000} if fileformat in ("wav", "flac") else {}
        item.add_array(name, data, metadata={"unit": "V"}, fileformat=fileformat, **rate)
    dataset.add_item(name="empty", metadata={"speaker": "bob"})
    (folder / ".hidden").mkdir()
    (folder / "no item").mkdir()

    told = told_of(folder)
    assert (told["name"], told["license"], told["items"]) == ("speech", "CC0", ["empty", "take 1"])
    assert (told["has"], told["found"], told["missed"]) == ([True, False, False], 1, True)
    assert (told["arrays"], told["hasArray"]) == (sorted(values), [True, False])
    assert told["error"] == "sigbank:notFound"
    for name, (data, _) in values.items():
        # A vector is a column.
        wanted = data.reshape(-1, 1) if data.ndim == 1 else data
        found = told[name]
        assert found["size"] == list(wanted.shape), name
        flat = np.asarray(found["real"]) + 1j * np.asarray(found["imag"])
        assert np.array_equal(flat.reshape(wanted.shape, order="F"), wanted.astype("complex128")), name
        assert found["metadata"]["unit"] == "V"
    assert told["wav"]["metadata"]["samplerate"] == 8000


@pytest.mark.skipif(shutil.which("octave") is None, reason="GNU Octave is not installed")
def test_octave_searches_lists_and_goes_on_after_a_damaged_array(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    dataset = ours.create_dataset(folder)
    item = dataset.add_item("a", {"takes": [1, 2, 3], "n": 7, "speaker": "ann"})
    dataset.add_item("b", {"takes": [4, 5], "n": 8, "speaker": "bob"})
    for name in ["damaged", "gone", "x", "y"]:
        item.add_array(name, [1.5, 2.5] if name == "y" else [3.0, 4.0])
    (folder / "a/damaged.npy").write_bytes(b"no npy")
    (folder / "a/gone.npy").unlink()
    told = told_of(folder, SEARCH)
    found = {key: told[key] for key in ["row", "column", "other", "either", "one", "any", "text", "codes", "none", "all"]}
    assert found == {"row": 1, "column": 1, "other": 0, "either": 2, "one": 1, "any": 2, "text": 1, "codes": 0, "none": 0, "all": 2}
    assert (told["names"], told["values"]) == (["x", "y"], [[3.0, 1.5], [4.0, 2.5]])
    assert told["identifier"] == "sigbank:skipped" and "'gone' is left out" in told["warning"]
    assert "damaged.npy" in told["error"]


@pytest.mark.skipif(shutil.which("octave") is None, reason="GNU Octave is not installed")
def test_octave_tells_lists_of_one_element_from_that_element_and_restores_shapes(tmp_path: Path) -> None:
    """jsondecode does not. Python's find_items is the referee."""
    folder = tmp_path / "d"
    dataset = ours.create_dataset(folder)
    values: dict[str, Any] = {"a": 1, "b": [1], "c": [1, 2], "d": [[1, 2]], "e": "a", "f": ["a"], "g": True, "h": None, "i": {"y": [1]}}
    for name, value in values.items():
        dataset.add_item(name, {"before": 'a "quoted\\" [text', "x": value, "y": {"x": [1]}})
    dataset.add_item("odd", {'odd "key": [': 5})
    dataset.add_item("oddlist", {'odd "key": [': [5]})
    item = ours.Item(folder / "e", False)
    shapes = {"v": (50,), "one": (1,), "scalar": (), "row": (1, 7), "empty": (0,), "cube": (2, 3, 4)}
    for name, shape in shapes.items():
        item.add_array(name, np.ones(shape), None, "mat")
    item.add_array("flags", np.array([True, False]), None, "mat")
    damaged = dataset.add_item("damaged")
    for kind in ("wav", "mat"):
        damaged.add_array(kind, np.zeros(100), None, kind, 8000 if kind == "wav" else None)
        (folder / f"damaged/{kind}.{kind}").write_bytes(b"RIFF nothing")
    told = told_of(folder, LISTS)

    def python(*alternatives: Any) -> list[str]:
        return [found.name for found in dataset.find_items(x=list(alternatives))]

    found = {key: told[key] for key in ("list", "nested", "vector", "any", "text", "odd", "oddList")}
    assert found == {
        "list": python([1]),
        "nested": python([[1, 2]]),
        "vector": python([1, 2]),
        "any": [*"abcg"],
        "text": python("a"),
        "odd": ["odd"],
        "oddList": ["oddlist"],
    }
    assert told["scalar"] == told["truth"] == python(1) == ["a", "g"]
    for name, shape in shapes.items():
        assert told["of"][name] == {"size": list((*shape, 1, 1)[: max(2, len(shape))]), "class": "double"}, name
    assert told["of"]["flags"] == {"size": [2, 1], "class": "logical"}
    for kind in ("wav", "mat"):
        identifier, message = told["damaged"][kind]
        assert identifier == "sigbank:corrupt" and f"damaged/{kind}.{kind}" in message
