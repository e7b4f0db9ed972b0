"""The older tracker protocol of DMLC (rabit, as in XGBoost before 2.1): the tracker's side.

Words are 32-bit integers in the byte order of the machines, texts a length and bytes. A worker connects once for each thing
it says: the magic (and gets it back), its rank or -1, the world it believes in or -1, the id of its task, a command:

    print      and a text for the log
    start      it wants a place;  recover: it has one, and lost its links
    shutdown   it is done

Answer to start and recover: rank, parent in the tree, world, how many neighbours it has in the tree and which, the previous and
the next one in the ring. Then rounds: the worker names the links it has; it is told to whom it must connect (host, port, rank),
and how many others will come to it; it says how many of those failed. After a round without failures it names the port
where it listens, which those who come later are told.

The tree is a heap, the ring goes by rank. Ranks are the task ids where these are 0..n-1 (dlrun's DMLC_TASK_ID are).
"""

import struct

MAGIC = 0xFF99
TEXT_BYTES_MAX = 1 << 20
TALK_SECONDS = 60  # for each word of a worker, once it is connected

_WORD = struct.Struct("@i")


class ProtocolError(ValueError):
    """Who is connected speaks something else."""


class Worker:
    """One connection: what it said first, and words both ways."""

    def __init__(self, connection, host):
        self.connection = connection
        self.host = host
        self.port = -1
        self.expected = 0  # links that others will make to it
        magic = self.word()
        if magic != MAGIC:
            raise ProtocolError("it says %#x and not rabit's %#x" % (magic & 0xFFFFFFFF, MAGIC))
        self.send(MAGIC)
        self.rank = self.word()
        self.world = self.word()
        self.task = self.text()
        self.command = self.text()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.connection.recv(min(size - len(data), 65536))
            if not more:
                raise ProtocolError("it hung up")
            data += more
        return data

    def word(self):
        return _WORD.unpack(self.exactly(_WORD.size))[0]

    def text(self):
        size = self.word()
        if not 0 <= size <= TEXT_BYTES_MAX:
            raise ProtocolError("a text of %d bytes" % size)
        return self.exactly(size).decode("utf-8", "replace")

    def send(self, *words):
        self.connection.sendall(b"".join(_WORD.pack(word) for word in words))

    def send_text(self, text):
        data = text.encode("utf-8")
        self.connection.sendall(_WORD.pack(len(data)) + data)


def neighbours(rank, world):
    """(parent or -1, neighbours in the tree, previous in the ring or -1, next in the ring or -1)"""
    parent = (rank + 1) // 2 - 1
    tree = [other for other in (parent, 2 * rank + 1, 2 * rank + 2) if 0 <= other < world]
    if world == 1:
        return parent, tree, -1, -1
    return parent, tree, (rank - 1) % world, (rank + 1) % world


def ranks_of(tasks):
    """The rank of each task id of `tasks`, in their order."""
    numbers = [int(task) if task.isascii() and task.isdigit() else -1 for task in tasks]
    return numbers if sorted(numbers) == list(range(len(tasks))) else list(range(len(tasks)))


class Tracker:
    """Serves `world` workers at `listener`, a socket that listens, until all of them are done."""

    def __init__(self, listener, world, log=print):
        self._listener = listener
        self._world = world
        self._log = log
        self._ranks = {}      # of task ids
        self._newcomers = []  # without a place, until all are here
        self._waiting = {}    # rank -> Worker that others will still connect to
        self._done = set()

    def run(self):
        while len(self._done) < self._world:
            connection, peer = self._listener.accept()
            connection.settimeout(TALK_SECONDS)
            try:
                worker = Worker(connection, peer[0])
            except (OSError, ProtocolError) as error:  # a stranger, a probe of the port
                self._log("tracker: %s is no worker: %s" % (peer[0], error))
                connection.close()
                continue
            self._take(worker)

    def _take(self, worker):
        if worker.command == "print":
            self._log(worker.text().rstrip("\n"))
        elif worker.command == "shutdown":
            self._done.add(self._checked(worker.rank))
        elif worker.command in ("start", "recover"):
            if worker.world not in (-1, self._world):
                raise ProtocolError("task %s believes in a world of %d, it has %d" % (worker.task, worker.world, self._world))
            return self._place(worker)
        else:
            raise ProtocolError("task %s wants '%s'" % (worker.task, worker.command))
        worker.connection.close()

    def _place(self, worker):
        rank = self._ranks.get(worker.task, worker.rank) if worker.task != "NULL" else worker.rank
        if rank >= 0:
            return self._link(worker, self._checked(rank))
        self._newcomers.append(worker)
        if len(self._newcomers) < self._world:
            return
        newcomers, self._newcomers = self._newcomers, []
        ranks = ranks_of([newcomer.task for newcomer in newcomers])
        for rank, newcomer in sorted(zip(ranks, newcomers), key=lambda pair: pair[0]):
            self._ranks[newcomer.task] = rank
            self._link(newcomer, rank)

    def _checked(self, rank):
        if not 0 <= rank < self._world:
            raise ProtocolError("a worker says it is rank %d of %d" % (rank, self._world))
        return rank

    def _link(self, worker, rank):
        parent, tree, previous, following = neighbours(rank, self._world)
        worker.send(rank, parent, self._world, len(tree), *tree, previous, following)
        wanted = (set(tree) | {previous, following}) - {-1}
        self._waiting.pop(rank, None)  # an earlier life of it
        offered = set()
        while True:
            count = worker.word()
            if not 0 <= count <= len(wanted):
                raise ProtocolError("rank %d has %d links" % (rank, count))
            good = {worker.word() for _ in range(count)}
            if not good <= wanted:
                raise ProtocolError("rank %d is linked with %s, which it should not be" % (rank, sorted(good - wanted)))
            missing = wanted - good
            known = sorted(other for other in missing if other in self._waiting)
            offered.update(known)
            worker.send(len(known), len(missing) - len(known))
            for other in known:
                worker.send_text(self._waiting[other].host)
                worker.send(self._waiting[other].port, other)
            if worker.word() == 0:
                break
        worker.port = worker.word()
        worker.connection.close()
        for other in offered:  # also those that it reached in a round in which another failed
            self._waiting[other].expected -= 1
            if self._waiting[other].expected == 0:
                del self._waiting[other]
        worker.expected = len(missing) - len(known)
        if worker.expected > 0:
            self._waiting[rank] = worker
