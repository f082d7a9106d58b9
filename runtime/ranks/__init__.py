"""Several ranks that run one model together, each on a part of it."""
