"""A manifest of a checkpoint, made by `capnp encode` and docs/ps-checkpoint.md: the reader is held against it.

    python3 tests/ps/recorded/make_manifest.py > tests/ps/recorded/manifest-v1.hex     (from the root of the checkout)
"""
import struct
import subprocess
import sys

PART = """(
    checkpoint = 77, shard = %d, logSequence = 1099511627776, nowS = 12345,
    slots = [(first = 0, last = 7), (first = 9, last = 4095)],
    tables = [
      (schema = (id = 4, name = "wide", kind = 1, dim = 16, optimizer = 8, learningRate = 0.5, beta = 1, epsilon = 0.25,
                 seed = 1, consistency = 1, staleness = 3, momentum = 0.5, beta1 = 0.5, beta2 = 0.75,
                 eviction = 2, budgetBytes = 8589934592),
       clock = 900, rate = 0.25, hand = 8796093022208, rows = 1000000)],
    marks = [(client = 1, worker = 2, sequence = 3)], left = [8],
    file = "shard-0000%d.part", bytes = 34359738368, blocks = 40000, rows = 1000000, headersCrc = 3735928559)"""

MANIFEST = """(
  checkpoint = 77, job = "j12", epoch = (term = 3, counter = 4),
  parts = [%s, %s],
  attachments = [(name = "input", file = "attachment-00000", bytes = 100, crc = 7)])
""" % (PART % (0, 0), PART % (1, 1))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


body = subprocess.run(["capnp", "encode", "-I.", "runtime/wire/ps_checkpoint.capnp", "Manifest"],
                      input=MANIFEST.encode(), stdout=subprocess.PIPE, check=True).stdout
manifest = b"dlrmani1" + struct.pack("<II", crc32c(body), len(body)) + body
for i in range(0, len(manifest), 16):
    sys.stdout.write(" ".join("%02x" % b for b in manifest[i:i + 16]) + "\n")
