"""Whether a launcher of parallel programs started this process, with others."""

import os
from collections.abc import Mapping

from llmc.runtime.errors import UserError
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.cpus import require_linux

# MPICH and Intel MPI, Open MPI, Slurm's srun.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells a process: its number, of how many, how many here, and where all meet."""


def started_by_mpi(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of several that mpiexec or srun started."""
    return any(environment.get(name, "") not in ("", "0", "1") for name in _SIZES)


def started_by_torchrun(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of several that torchrun started."""
    return all(environment.get(name) for name in TORCHRUN) and environment["WORLD_SIZE"] != "1"


def connect(timeout_s: float) -> Communicator | None:
    """The way to the other processes of the launcher; None where this one is alone.

    UserError where MPI is not installed, or the others are not to be found, or outside Linux.
    Imports only what connects: a process that is alone has other use for the memory.
    """
    if not started_by_mpi(os.environ):
        if not started_by_torchrun(os.environ):
            return None
        from llmc.runtime.ranks.torchrun import connect_to_local_ranks

        return connect_to_local_ranks(os.environ, timeout_s)
    require_linux()
    try:
        from llmc.runtime.ranks.mpi import MPICommunicator
    except (ImportError, RuntimeError) as error:  # the latter where there is no library
        raise UserError(f"no MPI ({error}): pip install 'llmc-compiler[mpi]'") from error
    communicator = MPICommunicator(timeout_s)
    for name in _SIZES:  # where it sees one, IREE 3.13 asks for a library of MPI of its own
        os.environ.pop(name, None)
    return communicator
