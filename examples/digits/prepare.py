"""prepare.py FOLDER: scikit-learn's bundled handwritten digits (1797 images of 8 x 8) as FOLDER/train.csv and test.csv.

A line is the label, then 64 pixels in [0, 1]. Every fifth image, in a fixed shuffled order, is kept for the test.
"""

import os
import sys

import numpy as np
from sklearn.datasets import load_digits


def main(folder):
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    test = np.arange(len(order)) % 5 == 0
    os.makedirs(folder, exist_ok=True)
    for name, rows in (("train", order[~test]), ("test", order[test])):
        table = np.column_stack([digits.target[rows], digits.data[rows] / 16])
        path = os.path.join(folder, name + ".csv")
        np.savetxt(path + ".part", table, fmt="%g", delimiter=",")
        os.replace(path + ".part", path)
        print("%s: %d rows" % (path, len(rows)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
