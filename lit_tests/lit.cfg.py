"""How lit runs the FileCheck tests: `lit lit_tests`, or one folder or file of them."""

# ruff: noqa: F821 (lit puts `config` there)

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import lit.formats

root = Path(__file__).parent
config.name = "llmc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(root)
config.test_exec_root = str(root.parent / "build" / "lit")

# To code for CPUs that are not here. IREE checks what it is given, but not what each pass leaves.
on_cpu = "--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu"
for name, triple in {
    "x86": "x86_64-unknown-linux-gnu",
    "arm": "aarch64-unknown-linux-gnu --iree-llvmcpu-target-cpu=generic",
}.items():
    command = f"iree-compile {on_cpu} --iree-llvmcpu-target-triple={triple} --verify=false"
    config.substitutions.append((f"%{{iree-compile-{name}}}", command))

# These two take longer to start than to run, hundreds of times: each is a fork of a warm process.
warm = Path(tempfile.mkdtemp())
for command in ("llmc-opt", "filecheck"):
    (warm / command).symlink_to(root / "warm" / "client.py")
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
    listener.bind(str(warm / "socket"))
    listener.listen()
    server = [sys.executable, root / "warm" / "server.py", str(os.getpid())]
    # It may outlive lit for a moment, and so has no hold on what lit writes to.
    subprocess.Popen(server, stdin=listener, stdout=subprocess.DEVNULL)

# The other commands are beside the interpreter that runs lit.
tools = Path(sys.executable).parent
config.environment["PATH"] = f"{warm}:{tools}:{config.environment['PATH']}"
