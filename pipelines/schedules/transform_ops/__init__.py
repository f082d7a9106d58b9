"""The operations of `llmc_transform`, which MLIR's transform dialect lacks, one in each file."""
