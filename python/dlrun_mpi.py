"""Open MPI inside a job, without ssh: `python3 -m dlrun_mpi PROGRAM ...` is what the tasks of framework mpi run.

Each task is a slot. Rank 0 runs `mpirun PROGRAM ...` over the job's slots (PROGRAM may be an mpirun of its own), the others
wait for what it wants run on their side:

    worker/0                                    worker/k, the first one of its node
      mpirun ── agent (this file) ──TCP, HMAC──►  orted
        │                                           │ fork agent (this file)
        └─ fork agent ──Unix──► own rank            └──Unix, descriptors──► the slots of its node: the ranks themselves

So a rank runs in its task: with its memory limit, its GPUs, its end. Its output goes through mpirun to worker/0's log.
Ends: rank 0 with mpirun's code; the others with 0 once rank 0 says so, with the rank's own code when that fails.
Trust: who shows the job's secret (DLRUN_SECRET) may have a command run, as the job's own user; on a node, the same user only.
Needs Python 3.9 and its library, nothing else; mpirun and orted on PATH.
"""

import hashlib
import hmac
import ipaddress
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

MEETING_S = 60  # until all tasks of the gang listen
LINE_MAX = 4 << 20
LENGTH = struct.Struct("!I")
LAUNCHERS = ("mpirun", "mpiexec", "orterun")
OF_MPI = ("OMPI_", "PMIX_", "ORTE_", "OPAL_", "PMI_", "HFI_")


def log(text):
    print("dlrun mpi: " + text, file=sys.stderr, flush=True)


# ---- lines: length, JSON


def send(line, message, descriptors=()):
    data = json.dumps(message).encode()
    data = LENGTH.pack(len(data)) + data
    if descriptors:
        sent = socket.send_fds(line, [data], list(descriptors))
        data = data[sent:]
    line.sendall(data)


def exactly(line, size):
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def receive(line):
    (size,) = LENGTH.unpack(exactly(line, LENGTH.size))
    if size > LINE_MAX:
        raise ValueError("a message of %d bytes" % size)
    return json.loads(exactly(line, size))


# ---- who is where


class Place:
    """This task among those of its role."""

    def __init__(self, environment):
        self.rank = int(environment["DLRUN_RANK"])
        self.secret = bytes.fromhex(environment["DLRUN_SECRET"])
        self.address = environment["DLRUN_ADDRESS"]
        self.peers = []
        for peer in environment["DLRUN_PEERS"].split(","):
            address, _, port = peer.rpartition(":")
            self.peers.append((address.strip("[]"), int(port)))

    def ranks_at(self, address):
        return [rank for rank, peer in enumerate(self.peers) if peer[0] == address]

    def door(self, rank):
        """The abstract Unix socket of the task with this rank."""
        name = hmac.new(self.secret, b"door %d" % rank, hashlib.sha256).hexdigest()
        return "\0dlrun-mpi-" + name

    def answer(self, nonce):
        return hmac.new(self.secret, b"line " + bytes.fromhex(nonce), hashlib.sha256).hexdigest()

    def call(self, rank, limit_s):
        """A line to the task with this rank, trusted on both sides."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                line = socket.create_connection(self.peers[rank], 5)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise SystemExit("dlrun mpi: worker/%d at %s:%d: %s" % (rank, *self.peers[rank], error))
                time.sleep(0.02)
        line.settimeout(MEETING_S)
        send(line, {"answer": self.answer(receive(line)["nonce"])})
        receive(line)
        line.settimeout(None)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return line


def same_user(line):
    pid, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid == os.getuid()


# ---- a slot


class Slot:
    """What a task offers: it runs the daemon of its node and the rank that falls to it."""

    def __init__(self, place):
        self.place = place
        self.verdict = queue.Queue()  # exit codes; the first counts
        self.children = set()
        self.lock = threading.Lock()
        family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
        self.tcp = socket.socket(family, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind(place.peers[place.rank])
        self.tcp.listen(64)
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.unix.bind(place.door(place.rank))
        self.unix.listen(16)
        for listener, serve in ((self.tcp, self.serve_task), (self.unix, self.serve_rank)):
            threading.Thread(target=self.accept, args=(listener, serve), daemon=True).start()

    def accept(self, listener, serve):
        while True:
            line, _ = listener.accept()
            threading.Thread(target=self.guarded, args=(serve, line), daemon=True).start()

    def guarded(self, serve, line):
        try:
            with line:
                serve(line)
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            log("a line ends: %r" % error)

    def start(self, command, **options):
        with self.lock:
            child = subprocess.Popen(command, start_new_session=True, **options)
            child.told = False  # to end, by mpirun
            self.children.add(child)
        return child

    def signal_all(self, number):
        with self.lock:
            children = list(self.children)
        for child in children:
            end(child, number)
        return bool(children)

    def watch(self, line, child):
        """Until the line closes: then what it asked for has nobody left who wants it."""
        try:
            while True:
                number = int(receive(line)["signal"])
                child.told = child.told or number in (signal.SIGTERM, signal.SIGINT)
                end(child, number)
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            if child.poll() is None:
                child.told = True
                end(child, signal.SIGKILL)

    def follow(self, line, child):
        threading.Thread(target=self.watch, args=(line, child), daemon=True).start()
        code = child.wait()
        with self.lock:
            self.children.discard(child)
        try:
            send(line, {"code": code})
        except OSError:
            pass  # it knows already
        return code

    def serve_task(self, line):
        """worker/0, or an agent on its behalf."""
        line.settimeout(10)
        nonce = os.urandom(16).hex()
        send(line, {"nonce": nonce})
        if not hmac.compare_digest(str(receive(line)["answer"]), self.place.answer(nonce)):
            raise ValueError("a stranger at the port")
        send(line, {})
        line.settimeout(None)
        while True:
            try:
                message = receive(line)
            except (EOFError, OSError):
                return  # worker/0 died: the job ends by that
            if "bye" in message:
                self.verdict.put(0)
            elif "run" in message:
                self.follow(line, self.start(["/bin/sh", "-c", message["run"]], stdin=subprocess.DEVNULL))
                return

    def serve_rank(self, line):
        """The fork agent of mpirun or orted on this node."""
        if not same_user(line):
            raise ValueError("another user at the door")
        data, descriptors, _, _ = socket.recv_fds(line, LENGTH.size, 3)
        try:
            data += exactly(line, LENGTH.size - len(data)) if len(data) < LENGTH.size else b""
            (size,) = LENGTH.unpack(data)
            if size > LINE_MAX or len(descriptors) != 3:
                raise ValueError("not what a fork agent says")
            order = json.loads(exactly(line, size))
            environment = dict(os.environ)
            for name, value in order["env"].items():
                if name.startswith(OF_MPI) or name not in environment:
                    environment[name] = value
            try:
                child = self.start(order["argv"], cwd=order["cwd"], env=environment, stdin=descriptors[0],
                                   stdout=descriptors[1], stderr=descriptors[2])
            except OSError as error:
                os.write(descriptors[2], ("dlrun mpi: %s: %s\n" % (order["argv"][0], error)).encode())
                send(line, {"code": 127})
                return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        code = self.follow(line, child)
        if code != 0 and not child.told:
            log("the MPI rank %s of this task ended with %d" % (environment.get("OMPI_COMM_WORLD_RANK", "?"), code))
            self.verdict.put(code)


def end(child, number):
    """Signals the child's process group, unless it is over."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass


def leave(code):
    """As the program ended that this process stands for."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
        code = 128 - code
    sys.stdout.flush()
    os._exit(code)  # threads still wait on their lines


# ---- the three programs of this file


def network_of(addresses):
    """The smallest network with all of these IPv4 addresses; None where that says nothing."""
    if len(addresses) < 2 or any(":" in address for address in addresses):
        return None
    numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    prefix = 32 - (min(numbers) ^ max(numbers)).bit_length()
    return str(ipaddress.ip_network((min(numbers), prefix), strict=False)) if prefix >= 8 else None


def settings_of_mpi(place, environment):
    """For mpirun and orted alike; what the job sets itself stays."""
    this = "%s -m dlrun_mpi" % sys.executable
    wanted = {
        "plm_rsh_agent": this + " --agent",
        "plm_rsh_no_tree_spawn": "1",
        "orte_fork_agent": this + " --rank",
        "orte_leave_session_attached": "1",
        # The cores of a task are the agent's business, and other jobs use those beside them.
        "hwloc_base_binding_policy": "none",
        "mpi_yield_when_idle": "1",
    }
    # mpirun hands its networks on to all daemons: the smallest one with all addresses, for names of interfaces differ.
    network = network_of({address for address, _ in place.peers})
    if network:
        wanted["oob_tcp_if_include"] = wanted["btl_tcp_if_include"] = network
    for name, value in wanted.items():
        environment.setdefault("OMPI_MCA_" + name, value)
    if os.getuid() == 0:  # who runs the agent as root has said so to it
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def run_slot(place, command):
    settings_of_mpi(place, os.environ)
    slot = Slot(place)

    def on_term(number, _):
        if not slot.signal_all(number):
            leave(-number)

    signal.signal(signal.SIGTERM, on_term)
    if place.rank != 0:
        leave(wait_for(slot.verdict))
    lines = [place.call(rank, MEETING_S) for rank in range(1, len(place.peers))]
    if os.path.basename(command[0]) not in LAUNCHERS:
        command = ["mpirun"] + command
    try:
        launcher = slot.start(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise SystemExit("dlrun mpi: %s: %s" % (command[0], error.strerror))
    code = launcher.wait()
    for line in lines:
        try:
            send(line, {"bye": code})
        except OSError:
            pass  # it is gone: its own end says why
    leave(code)


def wait_for(verdict):
    while True:
        try:
            return verdict.get(timeout=3600)  # with a timeout, so that signals are handled
        except queue.Empty:
            pass


def run_agent(place, words):
    """What mpirun calls as it would ssh: [OPTION...] HOST COMMAND..."""
    while words and words[0].startswith("-"):
        words = words[1:]
    if len(words) < 2:
        raise SystemExit("dlrun mpi: no host, or no command")
    ranks = place.ranks_at(words[0])
    if not ranks:
        raise SystemExit("dlrun mpi: no task of this job is at %s" % words[0])
    line = place.call(ranks[0], MEETING_S)
    send(line, {"run": " ".join(words[1:])})
    try:
        leave(receive(line)["code"])
    except EOFError:
        raise SystemExit("dlrun mpi: worker/%d at %s is gone" % (ranks[0], words[0]))


def run_rank(place, command):
    """What mpirun and orted run in the place of a rank: the task whose turn it is runs it."""
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    ranks = place.ranks_at(place.address)
    if local >= len(ranks):  # more ranks than slots were asked for
        os.execvp(command[0], command)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(place.door(ranks[local]))
    if not same_user(line):
        raise SystemExit("dlrun mpi: another user holds the door of worker/%d" % ranks[local])

    def pass_on(number, _):
        send(line, {"signal": number})

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT):
        signal.signal(number, pass_on)
    send(line, {"argv": command, "cwd": os.getcwd(), "env": dict(os.environ)}, (0, 1, 2))
    try:
        leave(receive(line)["code"])
    except EOFError:
        leave(-signal.SIGKILL)


def main(words):
    try:
        place = Place(os.environ)
    except KeyError as missing:
        raise SystemExit("dlrun mpi: %s is not set: this runs in tasks of jobs with framework = \"mpi\"" % missing)
    if not words:
        raise SystemExit("dlrun mpi: no program")
    if words[0] == "--agent":
        run_agent(place, words[1:])
    elif words[0] == "--rank":
        run_rank(place, words[1:])
    else:
        run_slot(place, words)


if __name__ == "__main__":
    main(sys.argv[1:])
