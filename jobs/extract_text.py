"""Plain prose out of the files of Debian packages, for jobs/fetch_text.sh.

    extract_text.py KIND INPUT... > TEXT

Lines stay wrapped as they were; `longwave prepare --unwrap` joins them. The standard library is enough.
"""

import gzip
import html
import re
import struct
import sys
import zlib


def tidy(text):
    """No byte order mark, carriage returns, emphasis marks or trailing blanks; one blank line between paragraphs."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\f", "\n").replace("_", "")
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def book(path):
    """A book in the manner of Project Gutenberg: licence, notes of the producers and rows of stars go."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    begin = re.search(r"^\*\*\* ?START OF.*$", text, re.MULTILINE)
    end = re.search(r"^(End of (the )?Project Gutenberg|\*\*\* ?END OF)", text, re.MULTILINE)
    text = text[begin.end() if begin else 0:end.start() if end else len(text)]
    text = re.sub(r"^\s*Produced by .*?\n\s*\n", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*(\*[ \t]*){3,}$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\[Illustration.*?\]$", "", text, flags=re.MULTILINE | re.DOTALL)
    return tidy(text)


def dictd(path):
    """A dictionary of dictd: what stands before its first capital entry's preface is about the file."""
    text = gzip.open(path, "rt", encoding="utf-8", errors="replace").read()
    text = text[re.search(r"^ *PREFACE$", text, re.MULTILINE).start():]
    return tidy(re.sub(r"^ abcdefghijklmnopqrstuvwxyz$", "", text, flags=re.MULTILINE))


def jargon(path):
    """The Jargon File: its chapters and entries, without tables and the lists of entries before them."""
    text = gzip.open(path, "rt", encoding="utf-8").read()
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        drawn = any("\u2500" <= character <= "\u257f" for character in paragraph)
        listed = len(lines) <= 1 and not re.search(r"[.:!?\u201d)]$", paragraph.rstrip())
        if lines and not drawn and not listed:
            paragraphs.append("\n".join(lines))
    return tidy(re.sub(r"[{}]", "", "\n\n".join(paragraphs)))


def sword_blocks(index):
    """The blocks of a SWORD module's .bzs or .czs index: (offset, size, inflated size) as uint32 each, zlib in the .?zz."""
    with open(index, "rb") as file:
        entries = file.read()
    with open(index[:-1] + "z", "rb") as file:
        data = file.read()
    for offset, size, inflated in struct.iter_unpack("<III", entries):
        block = zlib.decompress(data[offset:offset + size])
        if len(block) != inflated:
            raise ValueError(f"{index}: a block of {len(block)} bytes should have {inflated}")
        yield block.decode("utf-8", errors="replace")


def sword(*indices):
    """A Bible or a commentary: OSIS markup becomes paragraphs; notes, outlines and empty headings go."""
    text = "".join(block for index in indices for block in sword_blocks(index))
    text = re.sub(r"<note\b.*?</note>|<table\b.*?</table>|<title[^>]*>Chapter Outline</title>", " ", text, flags=re.DOTALL)
    text = re.sub(r"<title\b[^>]*>|</title>|<(?:div|chapter|lg|list)\b[^>]*>", "\n\n", text)
    text = re.sub(r"<(?:lb|l|item)\b[^>]*>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", "", text)).replace("#(", "(")
    text = re.sub(r"[ \t\u00b6]+", " ", text)  # the pilcrow opens paragraphs that have been opened above
    text = re.sub(r" +([,.;:?!])", r"\1", text)
    return tidy(re.sub(r" ?\n ?", "\n", text))


def strings_of_r(serialised):
    """A character vector as R serialises it: 'X', versions, then big-endian tags, lengths and bytes."""
    if serialised[:2] != b"X\n" or serialised[2:6] != b"\0\0\0\3":
        raise ValueError("not an R serialisation of version 3")
    at = 14
    at += 4 + struct.unpack_from(">I", serialised, at)[0]  # the name of the encoding
    kind, count = struct.unpack_from(">II", serialised, at)
    if kind & 0xFF != 16:
        raise ValueError("not a character vector")
    at += 8
    for _ in range(count):
        length = struct.unpack_from(">i", serialised, at + 4)[0]
        at += 8
        yield serialised[at:at + max(length, 0)].decode("utf-8")
        at += max(length, 0)


def janeausten(path, title):
    """A novel of the R package janeaustenr: a vector of lines, zlib behind its inflated size, one after the other."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        inflater = zlib.decompressobj()
        serialised = inflater.decompress(data[at + 4:])
        at = len(data) - len(inflater.unused_data)
        if title.encode() in serialised[:80]:
            return tidy("\n".join(strings_of_r(serialised)))
    raise ValueError(f"{path}: no novel '{title}'")


KINDS = {"book": book, "dictd": dictd, "jargon": jargon, "sword": sword, "janeausten": janeausten}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    sys.stdout.buffer.write(KINDS[sys.argv[1]](*sys.argv[2:]).encode())
