"""Writes a file of a format, and what Python reads of it, for tests/io/oracle_test.cc to compare.

usage: oracle.py FORMAT SEED FOLDER     FORMAT: csv tsv json tfrecord recordio npy idx tokens compressed

FOLDER/data* is what is read; FOLDER/expected holds the rows as the test writes them: columns apart by the byte 0x1f, each row with
0x1e at its end (compressed: the text itself).
"""
import bz2, csv, gzip, io, json, lzma, os, random, struct, sys

import numpy as np


def f32(text):
    return '%.9g' % np.float32(text)


def crc32c(data):
    """Bit by bit, from the polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def text(rng, n=12):
    return ''.join(rng.choice('ab ,;"\t\'#xyz\u00e9\u20ac\U0001f600') for _ in range(rng.randrange(n)))


def rows_of(lines):
    return b''.join(b'\x1f'.join(v if isinstance(v, bytes) else v.encode() for v in row) + b'\x1e' for row in lines)


def number(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return str(rng.randrange(-1000, 1000))
    if kind == 1:
        return '%.*f' % (rng.randrange(9), rng.uniform(-1e4, 1e4))
    if kind == 2:
        return '%.*e' % (rng.randrange(12), rng.uniform(-1, 1) * 10.0 ** rng.randrange(-44, 38))
    return repr(rng.uniform(-1, 1))


def make_csv(rng, folder, delimiter):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=rng.choice(['\n', '\r\n']),
                        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    for _ in range(200):
        value = text(rng)
        if rng.randrange(4) == 0:
            value += '\nmore\r\n'
        writer.writerow([str(rng.randrange(-2**63, 2**63)), number(rng), value])
    data = out.getvalue()
    with open(folder + '/data', 'w', encoding='utf-8', newline='') as f:
        f.write(data)
    # What csv itself reads back, not what was meant.
    return rows_of([r[0], f32(r[1]), r[2]] for r in csv.reader(io.StringIO(data, newline=''), delimiter=delimiter))


def make_json(rng, folder):
    lines = []
    for _ in range(200):
        record = {'id': rng.randrange(-2**63, 2**63), 'user': {'name': text(rng) + rng.choice(['', '\n', '\x00', '"\\/'])},
                  'x': float(number(rng)), 'tags': [text(rng, 5) for _ in range(rng.randrange(4))], 'ok': rng.random() < 0.5,
                  'other': rng.choice([None, {'deep': {'er': [1, 'a', True, None]}}, 'x', 1e300])}
        keys = list(record)
        rng.shuffle(keys)
        lines.append(json.dumps({k: record[k] for k in keys}, ensure_ascii=rng.random() < 0.5,
                                separators=rng.choice([(',', ':'), (', ', ': '), (' ,\t', ' : ')])))
    with open(folder + '/data', 'w', encoding='utf-8', newline='') as f:
        f.write(rng.choice(['\n', '\r\n', '\n\n']).join(lines))
    rows = []
    for line in lines:
        r = json.loads(line)
        rows.append([str(r['id']), r['user']['name'], '%.17g' % r['x'], '[' + ' '.join(r['tags']) + ']', str(int(r['ok']))])
    return rows_of(rows)


def payloads(rng):
    out = [b'', b'a', bytes(range(256))]
    for _ in range(60):
        out.append(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 3000))))
    return out


def make_tfrecord(rng, folder):
    records = payloads(rng)
    with open(folder + '/data', 'wb') as f:
        for p in records:
            length = struct.pack('<Q', len(p))
            f.write(length + struct.pack('<I', masked(length)) + p + struct.pack('<I', masked(p)))
    return rows_of([p] for p in records)


def make_recordio(rng, folder):
    magic = 0xCED7230A
    m = struct.pack('<I', magic)
    records = payloads(rng)
    for _ in range(40):
        records.append(b''.join(rng.choice([m, m[:2], b'x', b'1234']) for _ in range(rng.randrange(12))))
    with open(folder + '/data', 'wb') as f:
        for p in records:
            cuts = [i for i in range(0, len(p) - 3, 4) if p[i:i + 4] == m]
            begins, ends = [0] + [c + 4 for c in cuts], cuts + [len(p)]
            for k, (b, e) in enumerate(zip(begins, ends)):
                kind = 0 if not cuts else 1 if k == 0 else 3 if k == len(cuts) else 2
                part = p[b:e]
                f.write(m + struct.pack('<I', kind << 29 | len(part)) + part + b'\0' * (-len(part) % 4))
    return rows_of([p] for p in records)


def array_rows(a):
    flat = a.reshape(a.shape[0], -1)
    show = {'f': (lambda v: '%.9g' % v) if a.dtype.itemsize < 8 else (lambda v: '%.17g' % v)}.get(a.dtype.kind, lambda v: str(int(v)))
    return rows_of([show(row[0]) if a.ndim == 1 else '[' + ' '.join(show(v) for v in row) + ']'] for row in flat)


def random_array(rng, dtype):
    shape = (rng.randrange(1, 40),) + tuple(rng.randrange(2, 5) for _ in range(rng.randrange(3)))
    values = np.random.default_rng(rng.randrange(2**31)).integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    if np.dtype(dtype).kind == 'b':
        return (values % 2).astype(bool).reshape(shape)
    a = values.view(np.dtype(dtype).newbyteorder('<')).astype(dtype).reshape(shape)
    return np.nan_to_num(a, nan=1.5, posinf=2.5, neginf=-2.5) if a.dtype.kind == 'f' else a


def make_npy(rng, folder):
    dtype = rng.choice(['|u1', '|b1', '|i1', '<i2', '>i2', '<u2', '>u2', '<i4', '>i4', '<u4', '<i8', '>u8', '<f2', '>f2', '<f4',
                        '>f4', '<f8', '>f8'])
    a = random_array(rng, dtype)
    with open(folder + '/data', 'wb') as f:
        np.lib.format.write_array(f, a, version=rng.choice([(1, 0), (2, 0), (3, 0)]))
    return array_rows(np.load(folder + '/data'))


def make_idx(rng, folder):
    code, dtype = rng.choice([(8, '|u1'), (9, '|i1'), (11, '>i2'), (12, '>i4'), (13, '>f4'), (14, '>f8')])
    a = random_array(rng, dtype)
    with open(folder + '/data', 'wb') as f:
        f.write(struct.pack('>BBBB', 0, 0, code, a.ndim) + struct.pack('>%dI' % a.ndim, *a.shape) + a.astype(dtype).tobytes())
    return array_rows(a)


def make_tokens(rng, folder):
    a = np.random.default_rng(rng.randrange(2**31)).integers(0, 50257, 1003).astype('<u2')
    a.tofile(folder + '/data')
    return rows_of(['[' + ' '.join(map(str, r)) + ']'] for r in a[:1000].reshape(-1, 10))


def make_compressed(rng, folder):
    data = ''.join(text(rng, 40) + '\n' for _ in range(rng.randrange(1, 20000))).encode()
    cut = rng.randrange(len(data))
    for name, pack in (('gzip', gzip.compress), ('bzip2', bz2.compress), ('xz', lzma.compress)):
        with open(folder + '/data.' + name, 'wb') as f:
            f.write(pack(data[:cut]) + pack(data[cut:]))
    return data


def main():
    form, seed, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rng = random.Random(seed)
    made = {'csv': lambda: make_csv(rng, folder, ','), 'tsv': lambda: make_csv(rng, folder, '\t'),
            'json': lambda: make_json(rng, folder), 'tfrecord': lambda: make_tfrecord(rng, folder),
            'recordio': lambda: make_recordio(rng, folder), 'npy': lambda: make_npy(rng, folder),
            'idx': lambda: make_idx(rng, folder), 'tokens': lambda: make_tokens(rng, folder),
            'compressed': lambda: make_compressed(rng, folder)}[form]()
    with open(os.path.join(folder, 'expected'), 'wb') as f:
        f.write(made)


if __name__ == '__main__':
    main()
