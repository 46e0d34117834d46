"""Describe bytes that are not text by their first bytes and cheap facts inside."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice

from lossless.engine.ingest.explore.compose import Fact, Several, plural, shown
from lossless.engine.ingest.explore.kinds import extension

SEARCHED = 8_000_000

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\1\0", "icon"),
    (b"%PDF-", "PDF document"),
    (b"PK\3\4", "ZIP archive"),
    (b"PK\5\6", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!\x1a\7", "RAR archive"),
    (b"\x7fELF", "ELF binary"),
    (b"MZ", "Windows executable"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (b"\0asm", "WebAssembly module"),
    (b"PAR1", "Parquet table"),
    (b"ARROW1", "Arrow table"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 data"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"\xff\xfb", "MP3 audio"),
    (b"wOFF", "WOFF font"),
    (b"wOF2", "WOFF2 font"),
    (b"\xd0\xcf\x11\xe0", "legacy Office document"),
)
_RIFF = {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}
_OFFICE = {"word/": "Word document", "xl/": "Excel workbook", "ppt/": "PowerPoint deck", "META-INF/": "Java archive"}
_PAGE = re.compile(rb"/Type\s{0,4}/Page(?![A-Za-z])")
_PDF_TITLE = re.compile(rb"/Title\s{0,4}\(([^()\\]{1,200})\)")
_CREATED = re.compile(rb"CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?[\"'`\[]?([\w]{1,60})", re.I)


def describe_binary(data: bytes, name: str | None, mime: str | None) -> list[Fact]:
    """Return the type, the size and the facts of the header: pixels, pages, members, tables."""
    kind = _kind(data) or _claimed(name, mime)
    detail = _DETAILS.get(kind, _unknown)
    return [f"{kind}, {plural(len(data), 'byte')}.", *detail(data)]


def medium(data: bytes, mime: str | None) -> str:
    """Return `image`, `audio`, `video` or `file`, by the first bytes, or else by the media type."""
    found = _kind(data)
    word = "image" if found == "icon" else found.rpartition(" ")[2]
    if word not in ("image", "audio", "video"):
        word = (
            (mime or "").partition("/")[0].lower() if found in ("", "Ogg media", "RIFF media", "MP4 media") else "file"
        )
    return word if word in ("image", "audio", "video") else "file"


def _kind(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12], "RIFF media")
    if data[4:8] == b"ftyp":
        return "AVIF or HEIC image" if data[8:12] in (b"avif", b"heic", b"mif1") else "MP4 media"
    if data[257:262] == b"ustar":
        return "tar archive"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")


def _claimed(name: str | None, mime: str | None) -> str:
    kind = extension(name, mime)
    return f"Binary data ({kind})" if kind not in ("txt", "bin") else "Binary data"


def _png(data: bytes) -> list[Fact]:
    if data[12:16] != b"IHDR" or len(data) < 24:
        return []
    return [_pixels(*struct.unpack(">II", data[16:24]))]


def _gif(data: bytes) -> list[Fact]:
    return [_pixels(*struct.unpack("<HH", data[6:10]))] if len(data) >= 10 else []


def _jpeg(data: bytes) -> list[Fact]:
    at = 2
    for _ in range(500):
        marker, kind, length = data[at : at + 1], data[at + 1 : at + 2], data[at + 2 : at + 4]
        if marker != b"\xff" or len(length) < 2:
            return []
        if 0xC0 <= kind[0] <= 0xCF and kind[0] not in (0xC4, 0xC8, 0xCC) and len(data) >= at + 9:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return [_pixels(width, height)]
        at += 2 + int.from_bytes(length)
    return []


def _webp(data: bytes) -> list[Fact]:
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:
        return []
    if kind == b"VP8X":
        return [_pixels(int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1)]
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return [_pixels((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)]
    width, height = struct.unpack("<HH", body[6:10])
    return [_pixels(width & 0x3FFF, height & 0x3FFF)] if kind == b"VP8 " else []


def _bmp(data: bytes) -> list[Fact]:
    return [_pixels(*map(abs, struct.unpack("<ii", data[18:26])))] if len(data) >= 26 else []


def _pixels(width: int, height: int) -> str:
    return f"{width:,} x {height:,} pixels."


def _pdf(data: bytes) -> list[Fact]:
    pages = sum(1 for _ in islice(_PAGE.finditer(data[:SEARCHED]), 20_000))
    title = _PDF_TITLE.search(data[:SEARCHED])
    facts: list[Fact] = [f"Version {shown(data[5:8].decode('latin-1'), 8)}."]
    facts += [f"At least {plural(pages, 'page')}."] if pages else ["Pages are in compressed objects, not counted."]
    return facts + ([f"Title: {shown(title[1].decode('latin-1'), 120)}"] if title else [])


def _zip(data: bytes) -> list[Fact]:
    end = data.rfind(b"PK\5\6", max(0, len(data) - 66_000))
    if end < 0 or len(data) < end + 20:
        return ["Its directory is missing: probably cut short."]
    count, _, start = struct.unpack("<HII", data[end + 10 : end + 20])
    members = list(islice(_members(data, start), 60))
    names = [name for name, _ in members]
    office = next((kind for prefix, kind in _OFFICE.items() if any(name.startswith(prefix) for name in names)), "")
    listed = [f"{shown(name, 60)} ({size:,})" for name, size in members]
    facts: list[Fact] = [f"Looks like a {office}."] if office else []
    return [*facts, Several(f"{plural(count, 'member')}, with their size in bytes", listed, count, "\n- ")]


def _members(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    while data[at : at + 4] == b"PK\1\2" and len(data) >= at + 46:
        size, name, extra, comment = struct.unpack("<IHHH", data[at + 24 : at + 34])
        yield data[at + 46 : at + 46 + name].decode("utf-8", "replace"), size
        at += 46 + name + extra + comment


def _gzip(data: bytes) -> list[Fact]:
    unpacked = struct.unpack("<I", data[-4:])[0] if len(data) >= 18 else 0
    facts: list[Fact] = [f"Unpacks to {plural(unpacked, 'byte')} according to its trailer."]
    try:
        inside = zlib.decompressobj(31).decompress(data[:SEARCHED], 2_048)
    except zlib.error:
        return [*facts, "Its beginning cannot be unpacked."]
    return [*facts, f"Inside: {_kind(inside) or shown(inside.decode('utf-8', 'replace'), 160)}"]


def _sqlite(data: bytes) -> list[Fact]:
    if len(data) < 100:
        return []
    page = int.from_bytes(data[16:18]) or 65_536
    page = 65_536 if page == 1 else page
    pages = int.from_bytes(data[28:32])
    tables = dict.fromkeys(
        match[1].decode("utf-8", "replace") for match in islice(_CREATED.finditer(data[:SEARCHED]), 500)
    )
    return [f"{plural(pages, 'page')} of {page:,} bytes.", Several("Tables seen", [shown(name) for name in tables])]


def _tar(data: bytes) -> list[Fact]:
    names = list(islice(_tar_names(data), 40))
    return [Several("First members", [shown(name) for name in names], 0, "\n- ")]


def _tar_names(data: bytes) -> Iterator[str]:
    at = 0
    while data[at + 257 : at + 262] == b"ustar":
        yield data[at : at + 100].rstrip(b"\0").decode("utf-8", "replace")
        size = data[at + 124 : at + 136].strip(b"\0 ")
        if not re.fullmatch(rb"[0-7]{1,11}", size):
            return
        at += 512 + (int(size, 8) + 511) // 512 * 512


def _unknown(data: bytes) -> list[Fact]:
    head = data[:4_096]
    printable = sum(32 <= byte < 127 or byte in (9, 10, 13) for byte in head)
    share = f" {100 * printable // len(head)}% of the first {len(head):,} bytes are printable." if head else ""
    return [f"Starts with {data[:16].hex(' ') or 'nothing'}.{share}"]


_DETAILS: dict[str, Callable[[bytes], list[Fact]]] = {
    "PNG image": _png,
    "GIF image": _gif,
    "JPEG image": _jpeg,
    "WebP image": _webp,
    "BMP image": _bmp,
    "PDF document": _pdf,
    "ZIP archive": _zip,
    "gzip data": _gzip,
    "SQLite database": _sqlite,
    "tar archive": _tar,
}
