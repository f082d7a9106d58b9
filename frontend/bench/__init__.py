"""`llmc bench`: llmc and its peers on the same model, measured in turns in one run."""
