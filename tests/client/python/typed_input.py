"""Named columns of csv and JSON lines, as numpy views that keep their batch."""

import gc

import numpy as np

import dlrun

ROWS = 500


def csv():
    seen, kept = [], None
    for batch in dlrun.input("csv"):
        assert list(batch.columns) == ["id", "price", "name"], batch
        ids, prices, names = batch["id"], batch["price"], batch["name"]
        assert ids.dtype == np.int64 and prices.dtype == np.float32 and len(ids) == len(names) == batch.rows
        assert not ids.flags.writeable and batch.labels is None and batch.ids is None
        assert list(batch.valid) == ["price"]
        assert np.array_equal(batch.valid["price"], ids % 3 != 0)
        assert np.array_equal(prices, np.where(ids % 3 == 0, 0, 0.5).astype(np.float32))
        assert names.tolist() == [b'n "%d"' % i for i in ids.tolist()]
        assert names[-1] == names.tolist()[-1] and names.to_numpy()[0] == 'n "%d"' % ids[0]
        seen += ids.tolist()
        if kept is None:
            kept = (batch.copy(), ids.tolist())
    gc.collect()
    assert sorted(seen) == list(range(ROWS))
    batch, ids = kept
    assert batch["id"].tolist() == ids and batch["id"].flags.writeable and len(batch["name"]) == len(ids)
    try:
        batch["nmae"]
    except KeyError as error:
        assert "there are id, price, name" in str(error), error
    else:
        raise AssertionError("no error")


def json():
    seen = []
    for batch in dlrun.input("json"):
        ids, x, tags = batch["id"], batch["x"], batch["tags"]
        assert x.shape == (batch.rows, 2) and x.dtype == np.float64 and not batch.valid
        assert np.array_equal(x[:, 0], ids) and (x[:, 1] == 0.5).all()
        for row, number in enumerate(ids.tolist()):
            assert tags[row] == ([b"a", "\u00e9".encode()] if number % 2 == 0 else []), (number, tags[row])
        assert tags.values.offsets[-1] == len(tags.values.data)
        seen += ids.tolist()
    assert sorted(seen) == list(range(ROWS))


dlrun.init()
csv()
json()
