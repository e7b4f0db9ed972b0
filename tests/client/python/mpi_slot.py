"""What a task of framework mpi lets in: only who shows the job's secret; and which network Open MPI is told."""

import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])  # the folder that holds the module
import dlrun_mpi  # noqa: E402

LIMIT_S = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def place(secret, port):
    return dlrun_mpi.Place({"DLRUN_RANK": "0", "DLRUN_SECRET": secret, "DLRUN_ADDRESS": "127.0.0.1", "DLRUN_PEERS": "127.0.0.1:%d" % port})


def hangs_up(line):
    line.settimeout(LIMIT_S)
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def who_shows_the_secret_has_a_command_run_and_nobody_else():
    port, secret = free_port(), os.urandom(32).hex()
    mine = place(secret, port)
    slot = dlrun_mpi.Slot(mine)
    with tempfile.TemporaryDirectory() as folder:
        wanted, unwanted = folder + "/wanted", folder + "/unwanted"
        line = mine.call(0, LIMIT_S)
        dlrun_mpi.send(line, {"run": "touch '%s'; exit 3" % wanted})
        assert dlrun_mpi.receive(line)["code"] == 3
        assert os.path.exists(wanted)

        for answer in ("", "0" * 64, place(os.urandom(32).hex(), port).answer("00")):
            stranger = socket.create_connection(("127.0.0.1", port), LIMIT_S)
            dlrun_mpi.receive(stranger)
            try:
                dlrun_mpi.send(stranger, {"answer": answer})
                dlrun_mpi.send(stranger, {"run": "touch '%s'" % unwanted})
                dlrun_mpi.send(stranger, {"bye": 0})
            except ConnectionError:
                pass  # it was fast
            assert hangs_up(stranger)
        huge = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        huge.sendall(b"\xff\xff\xff\xff")
        dlrun_mpi.receive(huge)
        assert hangs_up(huge), "a message without end"
        assert not os.path.exists(unwanted)
        assert slot.verdict.empty(), "a stranger ended the task"


def a_command_ends_with_the_line_that_asked_for_it():
    port = free_port()
    mine = place(os.urandom(32).hex(), port)
    dlrun_mpi.Slot(mine)
    with tempfile.TemporaryDirectory() as folder:
        line = mine.call(0, LIMIT_S)
        dlrun_mpi.send(line, {"run": "echo $$ >'%s/pid'; exec sleep 100" % folder})
        until, pid = time.monotonic() + LIMIT_S, ""
        while not pid and time.monotonic() < until:
            if os.path.exists(folder + "/pid"):
                pid = open(folder + "/pid").read().strip()
            time.sleep(0.01)
        assert pid
        line.close()
        while os.path.exists("/proc/" + pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not os.path.exists("/proc/" + pid), "it runs on"


def the_network_is_the_smallest_one_that_holds_all_addresses():
    assert dlrun_mpi.network_of({"10.0.0.1", "10.0.0.2"}) == "10.0.0.0/30"
    assert dlrun_mpi.network_of({"10.0.0.1", "10.0.3.7"}) == "10.0.0.0/22"
    for nothing_to_say in ({"10.0.0.1"}, {"10.0.0.1", "192.168.0.1"}, {"fd00::1", "fd00::2"}):
        assert dlrun_mpi.network_of(nothing_to_say) is None


def outside_a_job_it_says_so():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DLRUN_")}
    done = subprocess.run([sys.executable, dlrun_mpi.__file__, "true"], env=clean, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1 and "framework" in done.stderr, done


for check in (who_shows_the_secret_has_a_command_run_and_nobody_else, a_command_ends_with_the_line_that_asked_for_it,
              the_network_is_the_smallest_one_that_holds_all_addresses, outside_a_job_it_says_so):
    check()
print("ok", os.path.basename(__file__))
