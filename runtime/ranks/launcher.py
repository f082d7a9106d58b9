"""Whether a launcher of parallel programs started this process, with others."""

import os
from collections.abc import Mapping

from llmc.runtime.errors import UserError
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.cpus import require_linux
from llmc.runtime.ranks.torchrun import connect_to_local_ranks, started_by_torchrun

# MPICH and Intel MPI, Open MPI, Slurm's srun.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def started_by_mpi(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of several that mpiexec or srun started."""
    return any(environment.get(name, "") not in ("", "0", "1") for name in _SIZES)


def connect(timeout_s: float) -> Communicator | None:
    """The way to the other processes of the launcher; None where this one is alone.

    UserError where MPI is not installed, or the others are not to be found, or outside Linux.
    """
    if not started_by_mpi(os.environ):
        if started_by_torchrun(os.environ):
            return connect_to_local_ranks(os.environ, timeout_s)
        return None
    require_linux()
    try:
        from llmc.runtime.ranks.mpi import MPICommunicator
    except (ImportError, RuntimeError) as error:  # the latter where there is no library
        raise UserError(f"no MPI ({error}): pip install 'llmc-compiler[mpi]'") from error
    communicator = MPICommunicator(timeout_s)
    for name in _SIZES:  # where it sees one, IREE 3.13 asks for a library of MPI of its own
        os.environ.pop(name, None)
    return communicator
