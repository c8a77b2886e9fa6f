"""Writes the zip archives of this folder with Python's zipfile: python make.py."""

import pathlib
import stat
import zipfile

HERE = pathlib.Path(__file__).parent
FILES = {"_metadata.json": b"{}", "a/x.bin": bytes(range(256)) * 40, "a/empty": b"", "a-b/x.bin": b"other", "é/ö": b"umlaut"}
WHEN = (2026, 1, 1, 0, 0, 0)


def archive(name, files, method, prefix="", extra=()):
    with zipfile.ZipFile(HERE / name, "w", method) as out:
        if prefix:
            out.writestr(zipfile.ZipInfo(prefix, WHEN), b"")
        for path, data in files.items():
            info = zipfile.ZipInfo(prefix + path, WHEN)
            info.compress_type = method
            out.writestr(info, data)
        for info, data in extra:
            out.writestr(info, data)


def main():
    archive("stored.zip", FILES, zipfile.ZIP_STORED)
    archive("deflated.zip", FILES, zipfile.ZIP_DEFLATED)
    litter = [(zipfile.ZipInfo("__MACOSX/outer/._x", WHEN), b"?"), (zipfile.ZipInfo(".DS_Store", WHEN), b"?")]
    archive("nested.zip", FILES, zipfile.ZIP_DEFLATED, "outer/inner/", litter)
    archive("escaping.zip", {"../x": b"?"}, zipfile.ZIP_STORED)
    link = zipfile.ZipInfo("link", WHEN)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive("link.zip", {"a": b"1", "b/c": b"2"}, zipfile.ZIP_STORED, extra=[(link, b"/etc/passwd")])
    archive("bzip2.zip", {"a": b"1" * 100, "b": b"2"}, zipfile.ZIP_BZIP2)


main()
