"""The doors: llmc and llmc-opt."""
