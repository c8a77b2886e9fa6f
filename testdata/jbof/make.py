"""Writes the data set `speech` with the reference package jbof 0.1.2 (soundfile 0.14.0, SciPy 1.17.1, NumPy 2.4.6), and what it reads back
as `speech.json`: run it in this folder, with that package installed."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import jbof  # type: ignore[import-not-found]
import numpy as np
import scipy.io  # type: ignore[import-untyped]
import soundfile  # type: ignore[import-untyped]

HERE = Path(__file__).parent
METADATA = {"licence": "CC0", "é": ["ü", None, {"deep": [1.5, 2**53 + 1]}], "nan": float("nan")}


def arrays() -> dict[str, Any]:
    values = np.arange(-3, 3).reshape(2, 3)
    kinds = "i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 ? >i2 >f8".split()
    return {
        **{f"npy {kind.replace('>', 'big ').replace('?', 'bool')}": values.astype(kind) for kind in kinds},
        "npy fortran": np.asfortranarray(values),
        "npy scalar": np.array(3.5),
        "npy empty": np.zeros((0, 3), "f4"),
        "npy text": np.array(["", "é", "𝄞x"]),
        "npy bytes": np.array([b"a", b"bc"]),
        "npy dates": np.array(["2020-01-01", "NaT"], "M8[ms]"),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    shutil.rmtree(HERE / "speech", ignore_errors=True)
    dataset = jbof.create_dataset(HERE / "speech", METADATA, "{speaker}-{take:02d}")
    kinds = dataset.add_item(metadata={"speaker": "ann", "take": 1, "snr": float("nan")})
    for name, data in arrays().items():
        kinds.add_array(name, data, {"kind": name})
    tone = np.round(np.sin(np.arange(40) / 3) * 0.9, 3)
    sounds = dataset.add_item(metadata={"speaker": "bob", "take": 2, "snr": 12.5})
    for fileformat in ["wav", "flac", "ogg"]:
        sounds.add_array(f"mono {fileformat}", tone, None, fileformat, 16000)
        sounds.add_array(f"stereo {fileformat}", np.stack([tone, -tone], 1).astype("f4"), {"a": 1}, fileformat, 8000)
        sounds.add_array(f"ints {fileformat}", (tone * 30000).astype("i2"), None, fileformat, 44100)
    sounds.add_array("clipped", [0.0, 1.5, -1.5, 0.123456789], None, "wav", 8000)
    for subtype in ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]:
        soundfile.write(HERE / f"{subtype}.WAV", tone, 22050, subtype, format="WAV")
        sounds.add_array_from_file(subtype, HERE / f"{subtype}.WAV", {"from": "file"})
        (HERE / f"{subtype}.WAV").unlink()
    tables = dataset.add_item("tables", {"take": 3})
    matrices = {"vector": np.arange(3.0), "matrix": np.arange(6, dtype="i2").reshape(2, 3), "complex": np.array([[1 + 2j]])}
    for name, data in matrices.items():
        tables.add_array(name, data, None, "mat")
    scipy.io.savemat(HERE / "packed.mat", {"packed": np.eye(4)}, do_compression=True)
    tables.add_array_from_file("packed", HERE / "packed.mat")
    (HERE / "packed.mat").unlink()
    dataset.add_item("empty")
    # The package's own text, which the data set is one without.
    (HERE / "speech/__init__.py").unlink()
    told: dict[str, Any] = {"hash": dataset.calculate_hash(), "items": {}}
    for item in jbof.DataSet(HERE / "speech").all_items():
        found = {}
        for document in sorted((HERE / "speech" / item.name).glob("*.json")):
            if document.stem == "_metadata":
                continue
            array = getattr(item, document.stem)
            values = np.asarray(array)
            if values.dtype.kind == "c":
                values = values.view(f"f{values.dtype.itemsize // 2}")
            if values.dtype.kind == "M":
                values = values.astype("i8")
            texts = [value.decode() if isinstance(value, bytes) else value for value in values.ravel().tolist()]
            found[document.stem] = {"dtype": array.dtype.str, "shape": array.shape, "metadata": array.metadata, "values": texts}
        told["items"][item.name] = found
    told["items"] = dict(sorted(told["items"].items()))
    (HERE / "speech.json").write_text(json.dumps(told, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
