"""`llmc bench`: llmc and its peers on the same weights, measured in turns in one run."""
