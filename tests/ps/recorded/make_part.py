"""A part of a checkpoint, made from docs/ps-checkpoint.md alone: the reader and the writer are held against it.

    python3 tests/ps/recorded/make_part.py > tests/ps/recorded/part-v1.hex
"""
import struct
import sys

KEY_SLOTS = 4096


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mix64(x):
    m = (1 << 64) - 1
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & m
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & m
    return x ^ x >> 31


def slot_of(table, key):
    return mix64((key + 0x9E3779B97F4A7C15 * (table + 1)) & ((1 << 64) - 1)) >> 52


def block(number, kind, records, table=0, slots=(0, 0), n=None, record_bytes=0, shard=3, checkpoint=42):
    content = b"".join(records)
    head = b"dCb1" + struct.pack("<BBHIIIIIIIIQQI", kind, 0, shard, table, slots[0], slots[1],
                                 len(records) if n is None else n, record_bytes, len(content), len(content),
                                 crc32c(content), number, checkpoint, 0)
    assert len(head) == 60
    return head + struct.pack("<I", crc32c(head)) + content


def main():
    table = 7
    rows = sorted((slot_of(table, key), key) for key in (1, 2, 3))
    row_records = [struct.pack("<QQIIff", key, 100 + key, 5, 2, key + 0.5, -key) for _, key in rows]
    window = struct.pack("<QQIIQ4Q", 11, 12, KEY_SLOTS, 0, 2, 0b110, 0, 0, 0)
    part = block(0, 1, row_records, table, (rows[0][0], rows[-1][0]), record_bytes=32)
    part += block(1, 2, [struct.pack("<III", 9, 0xDEADBEEF, 3)], table, (9, 9), record_bytes=12)
    part += block(2, 3, [window], slots=(KEY_SLOTS, KEY_SLOTS), record_bytes=64)
    part += block(3, 4, [], n=3)
    for i in range(0, len(part), 16):
        sys.stdout.write(" ".join("%02x" % b for b in part[i:i + 16]) + "\n")


main()
