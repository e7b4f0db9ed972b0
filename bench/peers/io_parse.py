"""io_parse.py PEER FILE: reads the file with a peer, one thread, page cache warm; prints the seconds of its best setting.

Settings are tried in turn, each once to warm up and twice for the time; what is loaded stays in memory until its time is taken.
"""

import sys
import time


def xgboost(path, form):
    import xgboost as xgb

    xgb.set_config(verbosity=0)
    return [lambda: xgb.DMatrix("%s?format=%s" % (path, form), nthread=1)]


def sklearn(path):
    from sklearn.datasets import load_svmlight_file

    return [lambda: load_svmlight_file(path)]


def pyarrow(path):
    import pyarrow as pa
    from pyarrow import csv

    types = {"f%d" % i: pa.float32() for i in range(20)}

    def read(block, convert):
        return csv.read_csv(path, csv.ReadOptions(use_threads=False, block_size=block, autogenerate_column_names=True),
                            convert_options=csv.ConvertOptions(column_types=types if convert else None))

    return [lambda b=block, c=convert: read(b, c) for block in (1 << 20, 8 << 20) for convert in (False, True)]


def pandas(path):
    import numpy as np
    import pandas as pd

    return [lambda k=kind: pd.read_csv(path, header=None, engine="c", **k) for kind in ({}, {"dtype": np.float32}, {"low_memory": False})]


def main():
    peer, path = sys.argv[1], sys.argv[2]
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass
    made = {"xgboost_libsvm": lambda: xgboost(path, "libsvm"), "xgboost_libffm": lambda: xgboost(path, "libfm"),
            "sklearn": lambda: sklearn(path), "pyarrow": lambda: pyarrow(path), "pandas": lambda: pandas(path)}[peer]()
    best = None
    for setting in made:
        setting()
        for _ in range(2):
            start = time.perf_counter()
            kept = setting()
            seconds = time.perf_counter() - start
            del kept
            best = seconds if best is None else min(best, seconds)
    print(best)


main()
