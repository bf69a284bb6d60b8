#!/usr/bin/env python3
"""Prints what a capture file says, as JSON: written from docs/capture-format.md alone.

usage: read_ldcap.py CAPTURE PAGE      PAGE is docs/capture-format.md: names of records and fields are those of its tables
"""
import json
import os
import re
import struct
import sys
import zlib


def names(page):
    """Type -> record name, and record name -> tag -> (field, kind, part, repeated)."""
    types, fields, record = {}, {}, None
    for line in open(page, encoding="utf-8"):
        if head := re.match(r"### (\w+) \((?:type (\d+)|a part)", line):
            record = head[1]
            types[int(head[2] or 0)] = record
            fields[record] = {}
        elif line.startswith("#"):
            record = None
        elif record and (row := re.match(r"\| (\d+) \| (\w+) \| (\w+)(?: (\w+))?(, repeated)? \|", line)):
            fields[record][int(row[1])] = (row[2], row[3], row[4], bool(row[5]))
    return types, fields


def lz4(data, size):
    """One LZ4 block."""
    out, at = bytearray(), 0

    def length(nibble):
        nonlocal at
        total, goes_on = nibble, nibble == 15
        while goes_on:
            total, goes_on, at = total + data[at], data[at] == 255, at + 1
        return total

    while at < len(data):
        token, at = data[at], at + 1
        literals = length(token >> 4)
        out, at = out + data[at:at + literals], at + literals
        if at < len(data):
            distance, at = struct.unpack_from("<H", data, at)[0], at + 2
            for _ in range(length(token & 15) + 4):
                out.append(out[-distance])
    assert len(out) == size, "the LZ4 block has another length"
    return bytes(out)


class Capture:
    def __init__(self, path, page):
        self.data, self.folder, self.stores = open(path, "rb").read(), os.path.dirname(path), []
        self.types, self.fields = names(page)
        assert self.data[:8] == b"LDCAP\r\n\x1a", "no capture"
        self.major, self.minor, first, required = struct.unpack_from("<HHIQ", self.data, 8)
        assert self.major == 1 and required in (0, 1), "a newer reader is needed"
        assert zlib.crc32(self.data[:124]) == struct.unpack_from("<I", self.data, 124)[0], "header"
        self.tag = self.data[32:36]
        self.frames = {}
        at, self.committed, pending = first, [], []
        while (frame := self.frame(self.data, at, self.tag)) is not None:
            kind, flags, body, after = self.frames[at] = frame
            pending.append((kind, body))
            at = after
            if flags & 2:
                self.committed, pending = self.committed + pending, []
        self.finished = self.data[-8:] == b"LDCAPEND"

    def frame(self, data, at, wanted):
        """Type, flags, body, and where the next one begins; None where there is no whole frame."""
        head = data[at:at + 48]
        if len(head) < 48 or head[:4] != b"LDFR" or zlib.crc32(head[:44]) != struct.unpack_from("<I", head, 44)[0]:
            return None
        kind, flags, _, stored, raw, codec, tag, crc = struct.unpack("<4xHHQQQB3x4sI4x", head)
        assert tag == wanted and codec in (0, 1) and flags < 4
        padded = data[at + 48:at + 48 + (stored + 7) // 8 * 8]
        if len(padded) < stored:
            return None
        assert zlib.crc32(padded) == crc, f"the body of the frame at {at}"
        body = padded[:stored]
        return kind, flags, lz4(body, raw) if codec == 1 else body, at + 48 + len(padded)

    def record(self, name, body):
        out, at = {}, 0
        while at < len(body):
            tag, kind, length = struct.unpack_from("<HHI", body, at)
            value, at = body[at + 8:at + 8 + length], at + 8 + length
            if tag not in self.fields[name]:
                continue
            field, word, part, repeated = self.fields[name][tag]
            assert word == ["number", "text", "bytes", "record"][kind - 1]
            value = [lambda: int.from_bytes(value, "little"), value.decode, value.hex, lambda: self.record(part, value)][kind - 1]()
            out[field] = out.get(field, []) + [value] if repeated else value
        return out

    def chunk(self, pack, number):
        kind, _, body, _ = self.frames[pack]
        count = struct.unpack_from("<I", body, len(body) - 4)[0]
        table = len(body) - 4 - 36 * count
        rows = [struct.unpack_from("<I32s", body, table + 36 * i) for i in range(count)]
        shared = [kind == 6 and length >> 31 for length, _ in rows]
        lengths = [0 if away else length for away, (length, _) in zip(shared, rows)]
        assert sum(lengths) == table and number < count
        if not shared[number]:
            return body[sum(lengths[:number]):sum(lengths[:number + 1])]
        length, name = rows[number][0] & 0x7fffffff, rows[number][1].hex()
        places = [os.path.join(store, name[:2], name) for store in reversed(self.stores)]
        data = open(next(filter(os.path.exists, places)), "rb").read()
        kind, _, chunk, end = self.frame(data, 0, rows[number][1][:4])
        assert kind == 7 and len(chunk) == length and end == len(data)
        return chunk

    def extents(self, body, memory):
        """Puts extents on top of memory: address -> byte."""
        for at in range(0, len(body), 32):
            address, length, word, first, kind = struct.unpack_from("<QQQIB", body, at)
            end, pattern = address + length, struct.pack("<Q", word)
            if kind == 2:
                memory.update((a, pattern[a % 8]) for a in range(address, end))
            for gone in range(address, end) if kind == 0 else ():
                memory.pop(gone, None)
            while kind == 1 and address < end:
                chunk = self.chunk(word, first)
                assert len(chunk) == min((address | 65535) + 1, end) - address
                memory.update(zip(range(address, end), chunk))
                address, first = address + len(chunk), first + 1
        return memory

    def all(self):
        """Everything, memory as ranges with the CRC of their bytes."""
        records, extents, memories, contents = [], {}, {}, {}
        for kind, body in self.committed:
            if kind == 3:
                extents.setdefault(struct.unpack_from("<Q", body)[0], []).append(body[8:])
            if kind not in self.types or kind == 0:
                continue
            name, fields = self.types[kind], self.record(self.types[kind], body)
            records.append({"record": name, **fields})
            if name == "StorePath":
                paths = [fields.get("absolute"), fields.get("relative") and os.path.join(self.folder, fields["relative"])]
                self.stores += filter(None, paths)
            if name == "Snapshot":
                memory = dict(memories[fields["parent"]]) if "parent" in fields else {}
                memories[fields["id"]] = self.extents(b"".join(extents.get(fields["id"], [])), memory)
            if name == "CodeObject":
                bytes_at = self.extents(bytes.fromhex(fields.get("extents", "")), {})
                contents[fields["id"]] = zlib.crc32(bytes(bytes_at[a] for a in range(fields.get("size", 0))))
        snapshots = {}
        for number, memory in memories.items():
            ranges = []
            for address in sorted(memory):
                if not ranges or ranges[-1][0] + len(ranges[-1][1]) != address:
                    ranges.append((address, bytearray()))
                ranges[-1][1].append(memory[address])
            snapshots[str(number)] = [[a, len(b), zlib.crc32(b)] for a, b in ranges]
        return {"version": [self.major, self.minor], "finished": self.finished, "records": records,
                "snapshots": snapshots, "code_objects": contents}


if __name__ == "__main__":
    json.dump(Capture(sys.argv[1], sys.argv[2]).all(), sys.stdout, indent=1)
