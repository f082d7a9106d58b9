"""Runs the commands of lit tests as forks of one process, which has loaded what they import.

It listens at the socket that is its standard input until the process that started it is gone, and
then removes the folder of the socket. A client sends where it is, its environment, its command
line and its three standard streams, and is answered with the exit status.
"""

import ast
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import filecheck.main

import llmc.tools.opt.session  # noqa: F401 (what llmc-opt imports once it has read its options)
from llmc.tools import llmc_opt

COMMANDS: dict[str, Callable[[], int | None]] = {
    "filecheck": filecheck.main.main,
    "llmc-opt": llmc_opt.main,
}
LARGEST_REQUEST = 1 << 17  # bytes
PATIENCE_S = 1.0


def serve(listener: socket.socket, owner: int) -> None:
    """Answers the clients of `listener`, each in a process of its own, until `owner` is gone."""
    listener.settimeout(PATIENCE_S)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while os.getppid() == owner:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        with client:
            if os.fork() == 0:
                _answer(client)


def _answer(client: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(client, LARGEST_REQUEST, maxfds=3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # New ones, since those that are there remember what kinds of files the server has.
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
    folder, environment, sys.argv = ast.literal_eval(request.decode())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    client.send(bytes([_status(COMMANDS[sys.argv[0]])]))
    os._exit(0)


def _status(command: Callable[[], int | None]) -> int:
    """The exit status of `command`, whose output is written."""
    try:
        status = command()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status or 0


if __name__ == "__main__":
    with socket.socket(fileno=os.dup(0)) as listener:
        serve(listener, owner=int(sys.argv[1]))
        shutil.rmtree(Path(listener.getsockname()).parent)
