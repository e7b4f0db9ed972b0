"""dlrun's tracker of the older DMLC protocol against workers written from the protocol: they really connect to each other."""

import os
import socket
import struct
import sys
import threading
import traceback

sys.path.insert(0, sys.argv[1])  # the folder that holds the package
from dlrun import _rabit  # noqa: E402
from dlrun.tracker import listen  # noqa: E402

WORD = struct.Struct("@i")
LIMIT_S = 20


class Line:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), LIMIT_S)

    def send(self, *words):
        self.socket.sendall(b"".join(WORD.pack(word) for word in words))

    def text(self, text):
        self.socket.sendall(WORD.pack(len(text)) + text.encode())

    def word(self):
        return WORD.unpack(self.exactly(4))[0]

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the tracker hung up"
            data += more
        return data


class Client:
    """A worker: what rabit's does, with nothing to compute."""

    def __init__(self, tracker, task):
        self.tracker, self.task, self.rank, self.links = tracker, task, -1, {}
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen(64)
        self.door.settimeout(LIMIT_S)

    def call(self, command):
        line = Line(*self.tracker)
        line.send(_rabit.MAGIC)
        assert line.word() == _rabit.MAGIC
        line.send(self.rank, -1)
        line.text(self.task)
        line.text(command)
        return line

    def start(self, command="start", stumble=False):
        line = self.call(command)
        self.rank, self.parent, self.world = line.word(), line.word(), line.word()
        self.tree = [line.word() for _ in range(line.word())]
        self.previous, self.following = line.word(), line.word()
        while True:
            line.send(len(self.links), *sorted(self.links))
            connect, accept = line.word(), line.word()
            failed = 0
            for _ in range(connect):
                host, port, rank = line.exactly(line.word()).decode(), line.word(), line.word()
                if stumble:
                    failed, stumble = failed + 1, False
                    continue
                peer = socket.create_connection((host, port), LIMIT_S)
                peer.sendall(WORD.pack(self.rank))
                self.links[rank] = peer
            line.send(failed)
            if failed == 0:
                break
        line.send(self.door.getsockname()[1])
        for _ in range(accept):
            peer, _ = self.door.accept()
            self.links[WORD.unpack(peer.recv(4, socket.MSG_WAITALL))[0]] = peer

    def end(self):
        self.call("shutdown")


def tracker_of(world):
    listener = listen("127.0.0.1", 0)
    lines = []
    thread = threading.Thread(target=_rabit.Tracker(listener, world, lines.append).run, daemon=True)
    thread.start()
    return listener.getsockname()[:2], thread, lines


def together(calls):
    errors = []

    def guarded(call):
        try:
            call()
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "a worker hangs"
    assert not errors, errors[0]


def check_links(clients):
    world = len(clients)
    for client in clients:
        assert client.world == world
        wanted = (set(client.tree) | {client.previous, client.following}) - {-1}
        assert set(client.links) == wanted, (client.rank, set(client.links), wanted)
        for other in wanted:  # links are mutual
            assert client.rank in clients[other].links
        if world > 1:
            assert client.following == (client.rank + 1) % world
        assert (client.parent == -1) == (client.rank == 0)
    reached, edge = {0}, [0]  # the tree holds all
    while edge:
        for other in clients[edge.pop()].tree:
            if other not in reached:
                reached.add(other)
                edge.append(other)
    assert len(reached) == world


def every_size_meets():
    for world in (1, 2, 3, 4, 7, 8):
        address, thread, _ = tracker_of(world)
        clients = [Client(address, str(task)) for task in range(world)]
        together([client.start for client in reversed(clients)])
        assert [client.rank for client in clients] == list(range(world)), "the rank is the task's id"
        check_links(clients)
        together([client.end for client in clients])
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "it ends with its workers"


def a_link_that_fails_is_tried_again():
    address, thread, _ = tracker_of(4)
    clients = [Client(address, str(task)) for task in range(4)]
    together([lambda client=client: client.start(stumble=True) for client in clients])
    check_links(clients)
    together([client.end for client in clients])
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def names_that_are_no_numbers_get_ranks():
    address, thread, _ = tracker_of(3)
    clients = [Client(address, "task-%s" % name) for name in "xyz"]
    together([client.start for client in clients])
    clients.sort(key=lambda client: client.rank)
    check_links(clients)
    together([client.end for client in clients])
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def strangers_and_prints_disturb_nobody():
    address, thread, lines = tracker_of(1)
    stranger = socket.create_connection(address, LIMIT_S)
    stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
    stranger.close()
    socket.create_connection(address, LIMIT_S).close()  # a probe of the port
    client = Client(address, "0")
    client.start()
    line = client.call("print")
    line.text("round 3\n")
    client.end()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert "round 3" in lines, lines
    assert len([text for text in lines if "is no worker" in text]) == 2, lines


def ranks_are_task_ids_only_where_these_are_all_of_them():
    assert _rabit.ranks_of(["2", "0", "1"]) == [2, 0, 1]
    assert _rabit.ranks_of(["1", "2", "3"]) == [0, 1, 2]
    assert _rabit.ranks_of(["0", "0"]) == [0, 1]
    assert _rabit.ranks_of(["NULL"]) == [0]


for check in (ranks_are_task_ids_only_where_these_are_all_of_them, every_size_meets, a_link_that_fails_is_tried_again,
              names_that_are_no_numbers_get_ranks, strangers_and_prints_disturb_nobody):
    check()
print("ok", os.path.basename(__file__))
