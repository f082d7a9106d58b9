"""Compiles a module of llmc operations and the archive of its weights, to be run from tests."""

from collections.abc import Callable
from pathlib import Path

import iree.runtime as rt
from torch import Tensor
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import stored_parameters, write_archive
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.pipeline import IREEStage
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime.abi import PARAMETER_SCOPE


def load(
    text: str, steps: tuple[Pass | str, ...], weights: dict[str, Tensor], folder: Path
) -> Callable[[str], rt.FunctionInvoker]:
    """Runs `steps` on the module `text` and compiles it; looks up its functions by name."""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(text, context)
    run((*steps, *IREEStage().steps()), module)
    compile_module(module, CPUTarget(), folder / "module.vmfb")
    write_archive(stored_parameters(module), weights, folder / "params.irpa")
    config = rt.Config("local-task")
    index = rt.ParameterIndex()
    index.load(str(folder / "params.irpa"))
    code = rt.VmModule.copy_buffer(config.vm_instance, (folder / "module.vmfb").read_bytes())
    provider = index.create_provider(PARAMETER_SCOPE)
    modules = [
        rt.create_io_parameters_module(config.vm_instance, provider),
        rt.create_hal_module(config.vm_instance, config.device),
        code,
    ]
    vm = rt.VmContext(config.vm_instance, modules=modules)
    return lambda name: rt.FunctionInvoker(vm, config.device, code.lookup_function(name))
