"""From the MODEL of a command line to a model that is ready to run, on one rank or on several."""

import argparse
import os
import signal
from pathlib import Path
from typing import NoReturn

from llmc.runtime import Model, UserError, load
from llmc.runtime.placement import named_place
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.grid import Grid
from llmc.runtime.ranks.launcher import connect
from llmc.tools.bundles import find_bundle, is_bundle
from llmc.tools.terminal import note

# The exit status of a rank where another one tells what is wrong.
_FAILED = 2


def load_model(arguments: argparse.Namespace) -> tuple[Model, float]:
    """MODEL, ready to run, and the seconds spent on compiling it.

    Where a launcher has started several ranks it returns on the first, and the others follow that
    one to the end. Raises UserError, IREEError.
    """
    communicator = connect(arguments.timeout)
    if communicator is not None:
        model, compile_s = _load_together(arguments, communicator)
    else:
        if not is_bundle(arguments):
            _require_place(arguments)
        folder, compile_s = find_bundle(arguments)
        model = load(
            folder,
            arguments.threads,
            arguments.device,
            local=arguments.local,
            timeout_s=arguments.timeout,
        )
    if arguments.verbose:
        note(f"{model.folder}: loaded in {model.load_s:.2f} s")
    return model, compile_s


def _require_place(arguments: argparse.Namespace) -> None:
    """UserError where what is to be compiled could not run here, whatever becomes of it."""
    if arguments.device is not None:
        named_place(arguments.device)
    ranks = Grid.parse(arguments.grid).size if arguments.grid else 1
    if arguments.local and ranks == 1 and not arguments.plan:
        raise UserError("--local is for several ranks: give a --grid of them")
    if ranks > 1 and not arguments.local:
        raise UserError("--grid is for several ranks: give --local too, or start it by mpiexec")


def _load_together(
    arguments: argparse.Namespace, communicator: Communicator
) -> tuple[Model, float]:
    if arguments.local:
        raise UserError("--local starts ranks, which a launcher has done: leave one of them out")
    if communicator.rank > 0:
        _follow(arguments, communicator)
    if is_bundle(arguments):
        folder, compile_s = Path(arguments.model), 0.0
    else:
        folder, compile_s = _compile(arguments, communicator)
    return Model(folder, arguments.threads, arguments.device, communicator), compile_s


def _compile(arguments: argparse.Namespace, communicator: Communicator) -> tuple[Path, float]:
    """Finds or makes the bundle, for the others to open it too."""
    announced = b""
    try:
        folder, compile_s = find_bundle(arguments)
        announced = os.fsencode(folder)
    finally:
        communicator.announce(announced)
    return folder, compile_s


def _follow(arguments: argparse.Namespace, communicator: Communicator) -> NoReturn:
    """Follows rank 0, and leaves with the process; UserError for what rank 0 cannot tell."""
    # Here, for one device needs none of it.
    from llmc.runtime.ranks.follower import run_follower

    name = os.fsencode(arguments.model) if is_bundle(arguments) else communicator.listen()
    if not name:
        raise SystemExit(_FAILED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 decides what Ctrl-C ends
    try:
        run_follower(communicator, Path(os.fsdecode(name)), arguments.threads, arguments.device)
    except UserError as error:
        if not communicator.agreed:
            raise SystemExit(_FAILED) from error
        raise UserError(f"rank {communicator.rank}: {error}") from error
    raise SystemExit
