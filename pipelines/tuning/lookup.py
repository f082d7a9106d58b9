"""The schedule that a database has for a kernel."""

from torch_mlir.dialects import func

from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.candidates import candidates
from llmc.pipelines.tuning.database import Database
from llmc.pipelines.tuning.kernel_key import kernel_key


def tuned_schedule(
    database: Database, kind: str, kernel: func.FuncOp, target: CPUTarget
) -> PythonSchedule | None:
    """What was measured to be best for `kernel`; None where that is not known.

    A file cannot have more done to a kernel than tuning would try: other text is not followed.
    """
    entry = database.find(kernel_key(kind, kernel, target))
    if entry is None:
        return None
    known = {schedule.text: schedule for schedule in candidates(kind, kernel, target)}
    return known.get(entry.schedule)
