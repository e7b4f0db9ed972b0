"""imports.py RANK MODULE...: rank 0 loads the modules before dlrun, rank 1 after it has a session and a table; both use all of it
together: libraries that bring a C++ runtime, a zmq, a protobuf, an OpenMP of their own."""

import importlib
import sys


def use(modules):
    import numpy as np

    if "torch" in modules:
        torch = modules["torch"]
        assert float(torch.nn.functional.softmax(torch.ones(4, 4) @ torch.ones(4, 4), 1).sum()) == 4
    if "tensorflow" in modules:
        assert float(modules["tensorflow"].reduce_sum(modules["tensorflow"].matmul(np.ones((4, 4)), np.ones((4, 4))))) == 64
    if "zmq" in modules:
        context = modules["zmq"].Context()
        pair = [context.socket(modules["zmq"].PAIR) for _ in range(2)]
        pair[0].bind("inproc://dlrun-test")
        pair[1].connect("inproc://dlrun-test")
        pair[0].send(b"x")
        assert pair[1].recv() == b"x"
        for socket in pair:
            socket.close()
        context.term()
    if "pyarrow" in modules:
        modules["pyarrow"].array([1, 2, 3]).validate(full=True)
    if "sklearn.linear_model" in modules:
        x = np.array([[0.0], [1.0], [2.0], [3.0]])
        assert modules["sklearn.linear_model"].LogisticRegression().fit(x, [0, 0, 1, 1]).predict([[3.0]]) == [1]


def train(dlrun):
    import numpy as np

    w = dlrun.table("w", rows=2, dim=2, learning_rate=-1.0)
    rows = 0
    for batch in dlrun.input("dense"):
        rows += batch.rows
    w.push(np.full((2, 2), rows, np.float32))
    dlrun.leave()
    dlrun.barrier("read")
    assert (w.pull() == 2000).all(), w.pull()
    assert len(w.pull_async().result(60)) == 2


def main(names, rank):
    modules = {}
    if rank == "0":
        modules = {name: importlib.import_module(name) for name in names}
        use(modules)
    import dlrun

    dlrun.init()
    assert dlrun.rank == int(rank)
    early = dlrun.table("early", rows=1)
    assert early.pull() == 0
    if rank == "1":
        modules = {name: importlib.import_module(name) for name in names}
    use(modules)
    train(dlrun)
    use(modules)


if __name__ == "__main__":
    main(sys.argv[2:], sys.argv[1])
