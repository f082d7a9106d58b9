"""Ranks that an MPI launcher started, on any machines."""

from __future__ import annotations

import atexit
import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from llmc.runtime.errors import UserError
from llmc.runtime.ranks.communicator import Communicator, Finish, Group
from llmc.runtime.ranks.cpus import CPUShare
from llmc.runtime.ranks.waiting import NAP_S, Waiting

_SOMEONE = "another rank"
# Sleeps between two looks, in which MPI does its work; the longer ones are for who is idle.
_LOOK_S, _IDLE_S = 0.00001, 0.001
_READ_S = 0.2  # for the launcher to read the last words: at an abort it forgets the rest
_STATUS = 2  # that of llmc where something fails that the user can mend


class MPICommunicator(Communicator):
    """Communicates through MPI, which is given the arrays where they lie.

    There is one in a process. What waits does so in Python, and so is seen to take too long. What
    is started goes on as far as the system's buffers reach: a thread that calls MPI meanwhile takes
    more from the kernels than it gives.
    """

    def __init__(self, timeout_s: float) -> None:
        """Among the ranks of MPI.COMM_WORLD."""
        self._world = MPI.COMM_WORLD
        super().__init__(self._world.rank, self._world.size, _share_of_cpus(self._world))
        # Rank 0 is the first to tell.
        self._waiting = Waiting(timeout_s + (self.rank > 0), has_own_cpu=self.cpus.is_own)
        self._groups: dict[Group, MPI.Comm] = {self.world: self._world}
        self._abandoned = False
        atexit.register(self._finish)

    def start_all_reduce(self, x: np.ndarray, group: Group) -> Finish:
        """In place."""
        request = self._comm(group).Iallreduce(MPI.IN_PLACE, x)
        return self._started([x], (request, _SOMEONE))

    def start_all_gather(self, x: np.ndarray, gathered: np.ndarray, group: Group) -> Finish:
        """Of equal pieces."""
        request = self._comm(group).Iallgather(x, gathered)
        return self._started([x, gathered], (request, _SOMEONE))

    def start_reduce_scatter(self, x: np.ndarray, piece: np.ndarray, group: Group) -> Finish:
        """Of equal blocks."""
        request = self._comm(group).Ireduce_scatter_block(x, piece)
        return self._started([x, piece], (request, _SOMEONE))

    def start_shift(self, x: np.ndarray, shifted: np.ndarray, to: int, source: int) -> Finish:
        """Both at once."""
        incoming, outgoing = self._world.Irecv(shifted, source), self._world.Isend(x, to)
        return self._started([x, shifted], (incoming, f"rank {source}"), (outgoing, f"rank {to}"))

    def broadcast(self, x: np.ndarray, root: int, group: Group) -> None:
        """From the root's position in the group."""
        self._wait(self._comm(group).Ibcast(x, group.index(root)))

    def send(self, x: np.ndarray, to: int) -> None:
        """Returns when MPI needs `x` no longer."""
        self._wait(self._world.Isend(x, to), f"rank {to}")

    def receive(self, x: np.ndarray, source: int, *, patient: bool = False) -> None:
        """Into its place."""
        self._wait(self._world.Irecv(x, source), f"rank {source}", patient)

    def abandon(self) -> None:
        """MPI ends the others when this process ends, after it has said why."""
        self._abandoned = True

    def _comm(self, group: Group) -> MPI.Comm:
        if group not in self._groups:
            members = self._world.Get_group().Incl(group)
            self._groups[group] = self._world.Create_group(members)
        return self._groups[group]

    def _started(self, arrays: list[np.ndarray], *requests: tuple[MPI.Request, str]) -> Finish:
        """What waits for the requests, each with the name of the rank that it waits for.

        It keeps the `arrays`, in which MPI reads and writes until then: mpi4py 4.1 lets go of some.
        """

        def finish() -> None:
            for request, whom in requests:
                self._wait(request, whom)
            arrays.clear()

        return finish

    def _wait(self, request: MPI.Request, whom: str = _SOMEONE, patient: bool = False) -> None:
        def nap() -> bool:
            end = time.monotonic() + NAP_S
            while not (done := request.Test()) and time.monotonic() < end:
                time.sleep(_IDLE_S if patient else _LOOK_S)
            return done

        try:
            self._waiting.until(request.Test, nap, whom, patient)
        except MPI.Exception as error:
            raise UserError(f"MPI lost {whom}: {error.Get_error_string()}") from error

    def _finish(self) -> None:
        """Ends the run on all ranks, without waiting for one that is lost, as MPI would."""
        if self.agreed and not self._abandoned:
            try:
                if self.rank == 0:
                    self.announce(b"")
                self._wait(self._world.Ibarrier())
            except UserError as error:
                sys.stderr.write(f"llmc: error: {error}\n")
                self._abandoned = True
        if self._abandoned:
            time.sleep(_READ_S)
            _remove_shared_memory()
            # MPI would tell again that this is the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self._world.Abort(_STATUS)


def _remove_shared_memory() -> None:
    """Removes what MPICH leaves behind where it does not come to its end."""
    mappings = Path("/proc/self/maps")
    for line in mappings.read_text().splitlines() if mappings.exists() else ():
        if "/dev/shm/mpich_shm" in line:
            Path(line.split()[-1]).unlink(missing_ok=True)


def _share_of_cpus(world: MPI.Comm) -> CPUShare:
    """This rank's, among those that the launcher lets use the same of this machine."""
    machine = world.Split_type(MPI.COMM_TYPE_SHARED)
    mine = sorted(os.sched_getaffinity(0))
    alike = [rank for rank, cpus in enumerate(machine.allgather(mine)) if cpus == mine]
    return CPUShare(alike.index(machine.rank), len(alike))
