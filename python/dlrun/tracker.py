"""Where the workers of a job meet: `python3 -m dlrun.tracker FRAMEWORK`, a task that dlrun adds to jobs of that framework.

xgboost: the tracker of the job's own XGBoost (2.1 and later); an older one speaks dmlc.
dmlc:    the older protocol, spoken here (dlrun/_rabit.py).

Listens at this task's address and first leased port, where the workers' DMLC_TRACKER_URI and DMLC_TRACKER_PORT point; says
that it is ready when it does; ends when all workers are done.
"""

import importlib
import os
import socket
import sys

from . import _rabit, init, ready


def _log(line):
    print(line, file=sys.stderr, flush=True)


def listen(address, port):
    """A socket that listens at this address, IPv4 or IPv6."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1024)
    return listener


def serve_dmlc(address, port, workers, when_ready):
    with listen(address, port) as listener:
        when_ready()
        _rabit.Tracker(listener, workers, _log).run()


def serve_xgboost(address, port, workers, when_ready):
    # Of the job's environment: the package itself asks for numpy alone.
    RabitTracker = importlib.import_module("xgboost.tracker").RabitTracker
    if not hasattr(RabitTracker, "wait_for"):
        return serve_dmlc(address, port, workers, when_ready)
    tracker = RabitTracker(n_workers=workers, host_ip=address, port=port, sortby="task")
    tracker.start()
    when_ready()
    tracker.wait_for()


def main(arguments):
    serve = {"xgboost": serve_xgboost, "dmlc": serve_dmlc}.get(arguments[0] if len(arguments) == 1 else "")
    if serve is None:
        _log("usage: python3 -m dlrun.tracker xgboost|dmlc")
        return 2
    try:
        address = os.environ["DLRUN_ADDRESS"]
        port = int(os.environ["DLRUN_PORTS"].split(",")[0])
        workers = int(os.environ["DMLC_NUM_WORKER"])
    except KeyError as missing:
        _log("dlrun.tracker: %s is not set: it is a task of a job, and started by dlrun" % missing)
        return 2
    init()
    serve(address, port, workers, ready)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
