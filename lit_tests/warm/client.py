#!/usr/bin/env -S python -IS
"""Has the server beside it run the command that it is called: `llmc-opt`, by a link of that name.

It imports as little as it can, for its start is what a command costs.
"""

import os
import socket
import sys

folder, _, command = sys.argv[0].rpartition("/")
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(f"{folder}/socket")
    request = repr([os.getcwd(), dict(os.environ), [command, *sys.argv[1:]]])  # noqa: PTH109
    socket.send_fds(server, [request.encode()], [0, 1, 2])
    answer = server.recv(1)
sys.exit(answer[0] if answer else "the server of lit tests has crashed")
