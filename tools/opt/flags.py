"""The flags of `llmc-opt`: those that it takes, and those of `mlir-opt` that it cannot."""

SWITCHES = {
    "llmc-opt": {
        "allow-unregistered-dialect": "accept operations of dialects that are not known",
        "emit-bytecode": "write bytecode",
        "no-implicit-module": "do not put a module around what is not one",
        "run-reproducer": "run the pipeline that the file, a reproducer, holds",
        "verify-each": "verify the IR after each pass (the default)",
        "verify-roundtrip": "check that the IR is the same once printed and read back",
    },
    "listings": {
        "version": "print the versions of llmc and of MLIR",
        "list-passes": "list the passes of llmc",
        "list-pipelines": "list the named pipelines of llmc",
        "list-schedules": "list the schedules of llmc",
        "show-dialects": "list the dialects",
        "dump-pass-pipeline": "print the pipeline before it runs, passes and their options",
        "dump-schedule": "print the transform scripts of the schedules, not the module",
    },
    "printing": {
        "mlir-print-ir-before-all": "print the IR before each pass",
        "mlir-print-ir-after-all": "print the IR after each pass",
        "mlir-print-ir-after-change": "print the IR after each pass that changed it",
        "mlir-print-ir-after-failure": "print the IR after a pass that failed",
        "mlir-print-ir-module-scope": "print the whole module in these cases",
        "mlir-print-op-generic": "print operations in the generic form",
        "mlir-print-debuginfo": "print locations",
        "mlir-pretty-debuginfo": "print locations for people to read",
        "mlir-print-local-scope": "print without aliases",
        "mlir-print-assume-verified": "print without verifying before",
        "mlir-print-skip-regions": "print operations without their regions",
        "mlir-use-nameloc-as-prefix": "name values after their locations",
        "mlir-timing": "print how long each pass took",
        "mlir-disable-threading": "use one thread",
    },
    "diagnostics": {
        "mlir-disable-diagnostic-notes": "show no notes",
        "mlir-print-op-on-diagnostic": "show the operation that is wrong (the default)",
        "mlir-print-stacktrace-on-diagnostic": "show from which Python code a diagnostic came",
    },
}
"""Switches by the heading under which --help shows them, with what it says of them."""

DEFAULTS_ON = {"verify-each", "mlir-print-op-on-diagnostic"}

SEPARATOR = "// -----"

WITHOUT_VALUE = {
    **{name: "true" for switches in SWITCHES.values() for name in switches},
    "split-input-file": SEPARATOR,
    "verify-diagnostics": "all",
}
"""What a flag means that is given without a value."""

_NO_BINDING = "MLIR's Python bindings do not offer it"
_NO_STATISTICS = "MLIR as torch-mlir builds it counts nothing"
_NO_DEBUGGING = "MLIR as torch-mlir builds it is without assertions and debug output"
_NO_REMARKS = "MLIR's Python bindings do not offer MLIR's remarks"

REFUSED = {
    "mlir-pass-statistics": _NO_STATISTICS,
    "mlir-pass-statistics-display": _NO_STATISTICS,
    "mlir-print-unique-ssa-ids": _NO_BINDING,
    "mlir-print-value-users": _NO_BINDING,
    "mlir-print-elementsattrs-with-hex-if-larger": _NO_BINDING,
    "mlir-output-format": "the report of --mlir-timing is text",
    "mlir-very-unsafe-disable-verifier-on-parsing": _NO_BINDING,
    "elide-resource-data-from-bytecode": _NO_BINDING,
    "emit-bytecode-producer": _NO_BINDING,
    "load-dialect-plugin": _NO_BINDING,
    "load-pass-plugin": _NO_BINDING,
    "irdl-file": _NO_BINDING,
    "log-actions-to": _NO_BINDING,
    "log-mlir-actions-filter": _NO_BINDING,
    "profile-actions-to": _NO_BINDING,
    "mlir-enable-debugger-hook": _NO_BINDING,
    "mlir-debug-counter": _NO_DEBUGGING,
    "mlir-print-debug-counter": _NO_DEBUGGING,
    "color": "diagnostics have no colours",
    "debug": _NO_DEBUGGING,
    "debug-only": _NO_DEBUGGING,
    "stats": _NO_STATISTICS,
    "remark-format": _NO_REMARKS,
    "remark-policy": _NO_REMARKS,
    "remarks-filter": _NO_REMARKS,
    "remarks-filter-analyse": _NO_REMARKS,
    "remarks-filter-failed": _NO_REMARKS,
    "remarks-filter-missed": _NO_REMARKS,
    "remarks-filter-passed": _NO_REMARKS,
    "remarks-output-file": _NO_REMARKS,
}
"""Flags of `mlir-opt` that `llmc-opt` has to refuse, and why."""
