"""The commands of `llmc`: each module has `HELP`, `add_arguments(parser)` and `run(arguments)`."""
