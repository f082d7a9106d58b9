"""The parts of `llmc-opt`."""
