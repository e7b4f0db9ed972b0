"""train.py: one of several support vector machines on scikit-learn's handwritten digits; INDEX chooses its gamma.

N copies that know nothing of each other, as a search over parameters runs. Each prints its accuracy.
"""

import os

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC


def main():
    gamma = (0.0005, 0.001, 0.002, 0.005)[int(os.environ["INDEX"]) % 4]
    x_train, x_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.25, random_state=1)
    model = SVC(gamma=gamma).fit(x_train, y_train)
    print("gamma %g: test accuracy %.4f" % (gamma, model.score(x_test, y_test)))


if __name__ == "__main__":
    main()
